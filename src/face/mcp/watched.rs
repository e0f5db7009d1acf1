//! A stream of answers that lasts no longer than the key behind it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;

/// What ends a stream from outside.
pub(super) type End = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A body that ends early when its `end` comes, and then lets go of what it kept.
pub(super) struct Watched<K> {
    inner: Option<BoxBody<Bytes, Infallible>>,
    end: End,
    kept: Option<K>,
}

impl<K> Watched<K> {
    pub(super) fn new(inner: BoxBody<Bytes, Infallible>, end: End, kept: K) -> Self {
        Self { inner: Some(inner), end, kept: Some(kept) }
    }

    fn finish(&mut self) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.inner = None;
        self.kept = None;
        Poll::Ready(None)
    }
}

impl<K: Unpin> Body for Watched<K> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        match Pin::new(inner).poll_frame(cx) {
            Poll::Ready(None) => self.finish(),
            Poll::Ready(frame) => Poll::Ready(frame),
            Poll::Pending if self.end.as_mut().poll(cx).is_ready() => self.finish(),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
