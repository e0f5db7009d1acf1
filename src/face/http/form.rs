//! A form's body on its way into the parser, which keeps what it cannot make sense of yet.
//!
//! It reads as much as there is, and looks through all of it again whenever more has come. So
//! it is given a little at a time, and no more once it has too much that led to nothing: a
//! header without an end, or no boundary at all.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};

/// Most bytes that the parser is given before it must do something with them.
const AT_ONCE: usize = 64 << 10;
/// Most bytes that may lead to nothing.
const MOST: usize = 1 << 20;

/// The bytes since the parser last gave something back.
#[derive(Clone, Default)]
pub(super) struct Progress(Arc<AtomicUsize>);

impl Progress {
    /// The parser gave something back.
    pub(super) fn made(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// `body`, which fails once too much of it has led to nothing.
    pub(super) fn watch(&self, body: Body) -> Body {
        Body::new(FormBody { inner: body, progress: self.clone(), at_once: 0 })
    }
}

struct FormBody {
    inner: Body,
    progress: Progress,
    at_once: usize,
}

/// Too much of a form led to nothing.
#[derive(Debug)]
struct NoProgress;

impl fmt::Display for NoProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no part of the form begins or goes on within {MOST} bytes")
    }
}

impl StdError for NoProgress {}

impl HttpBody for FormBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.progress.0.load(Ordering::Relaxed) > MOST {
            return Poll::Ready(Some(Err(axum::Error::new(NoProgress))));
        }
        // What was given so far counts only until the parser is left to itself.
        let given = std::mem::take(&mut self.at_once);
        if given >= AT_ONCE {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            self.at_once = given + bytes;
            self.progress.0.fetch_add(bytes, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
