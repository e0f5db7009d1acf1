//! The body of an answer, without the secrets that the request carried.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use super::body::Received;
use super::failure::Failure;
use super::scrub::{Scrub, Scrubber};

/// A body that was looked through, where the request carried a secret; else as it comes.
pub struct Answer {
    received: Received,
    look: Option<Look>,
}

struct Look {
    scrub: Scrub,
    scrubber: Scrubber,
    /// What comes after all that was held.
    trailers: Option<HeaderMap>,
    is_over: bool,
}

impl Answer {
    /// `received` without what `scrub` finds.
    pub(super) fn new(received: Received, scrub: Option<Scrub>) -> Self {
        let look = scrub.map(|scrub| Look { scrubber: scrub.begin(), scrub, trailers: None, is_over: false });
        Self { received, look }
    }
}

impl Look {
    /// What may go on of a piece; nothing if it is all held.
    fn take(&mut self, frame: Frame<Bytes>) -> Option<Frame<Bytes>> {
        let clean = match frame.into_data() {
            Ok(data) => self.scrubber.push(&data),
            Err(frame) => {
                self.trailers = frame.into_trailers().ok().map(|mut trailers| {
                    self.scrub.fields(&mut trailers);
                    trailers
                });
                self.scrubber.end()
            }
        };
        if clean.is_empty() { self.trailers.take().map(Frame::trailers) } else { Some(Frame::data(clean.into())) }
    }

    /// What is left when no more comes.
    fn rest(&mut self) -> Option<Frame<Bytes>> {
        self.is_over = true;
        let rest = self.scrubber.end();
        if rest.is_empty() { self.trailers.take().map(Frame::trailers) } else { Some(Frame::data(rest.into())) }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let Self { received, look } = &mut *self;
        let Some(look) = look else { return Pin::new(received).poll_frame(cx) };
        loop {
            if let Some(trailers) = look.trailers.take() {
                return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
            }
            if look.is_over {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut *received).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Some(frame) = look.take(frame) {
                        return Poll::Ready(Some(Ok(frame)));
                    }
                }
                // What is held may be the beginning of a secret.
                Some(Err(failure)) => {
                    look.is_over = true;
                    return Poll::Ready(Some(Err(failure)));
                }
                None => {
                    if let Some(frame) = look.rest() {
                        return Poll::Ready(Some(Ok(frame)));
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let nothing_held = |look: &Look| look.trailers.is_none() && look.scrubber.held() == 0;
        self.received.is_end_stream() && self.look.as_ref().is_none_or(nothing_held)
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.look.as_ref().map_or(0, |look| look.scrubber.held() as u64);
        let mut hint = self.received.size_hint();
        // Lengths stay as they are: a secret becomes as many other bytes.
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + held);
        }
        hint.set_lower(hint.lower() + held);
        hint
    }
}
