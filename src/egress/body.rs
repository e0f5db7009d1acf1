//! The body of a response, as it comes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::connection::{Connection, MAX_HEAD};
use super::failure::Failure;
use super::guard::Guard;
use super::pool::{Owner, Place};
use super::target::Origin;

/// What a body holds until it has ended: then the connection goes back. Before that, the
/// connection ends with it.
pub(super) struct Held {
    pub(super) connection: Connection,
    pub(super) place: Place,
    pub(super) guard: Arc<Guard>,
    pub(super) owner: Arc<Owner>,
    pub(super) origin: Origin,
}

impl Held {
    fn give_back(self) {
        self.connection.count_for(None);
        self.guard.pool.keep(&self.owner, self.origin, self.connection);
        drop(self.place);
    }
}

/// How long a body may take.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    pub(super) deadline: Instant,
    /// Between two pieces of it.
    pub(super) pause: Option<Duration>,
}

impl Pace {
    fn next(self) -> Instant {
        self.pause
            .and_then(|pause| Instant::now().checked_add(pause))
            .map_or(self.deadline, |end| end.min(self.deadline))
    }
}

/// The body of a response. It ends with an error at its deadline, or when it is too long.
pub(super) struct Received {
    incoming: Incoming,
    most: u64,
    left: u64,
    pace: Pace,
    alarm: Pin<Box<Sleep>>,
    held: Option<Held>,
}

impl Received {
    pub(super) fn new(incoming: Incoming, most: u64, pace: Pace, held: Held) -> Self {
        let alarm = Box::pin(tokio::time::sleep_until(pace.next()));
        let mut body = Self { incoming, most, left: most, pace, alarm, held: Some(held) };
        body.end_if_all_is_here();
        body
    }

    fn end_if_all_is_here(&mut self) {
        if self.incoming.is_end_stream()
            && let Some(held) = self.held.take()
        {
            held.give_back();
        }
    }

    fn fail(&mut self, failure: Failure) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        self.held = None;
        Poll::Ready(Some(Err(failure)))
    }

    fn take(&mut self, frame: Frame<Bytes>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
        let Some(left) = self.left.checked_sub(bytes) else { return self.fail(Failure::ResponseBody(self.most)) };
        // One that never pauses would never meet its alarm.
        if Instant::now() >= self.pace.deadline {
            return self.fail(Failure::Late);
        }
        self.left = left;
        if self.pace.pause.is_some() {
            let next = self.pace.next();
            self.alarm.as_mut().reset(next);
        }
        self.end_if_all_is_here();
        Poll::Ready(Some(Ok(frame)))
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        match Pin::new(&mut self.incoming).poll_frame(cx) {
            Poll::Ready(None) => {
                if let Some(held) = self.held.take() {
                    held.give_back();
                }
                Poll::Ready(None)
            }
            Poll::Ready(Some(Ok(frame))) => self.take(frame),
            Poll::Ready(Some(Err(error))) => {
                let failure = Failure::of(&error, MAX_HEAD, self.most);
                self.fail(failure)
            }
            Poll::Pending if self.alarm.as_mut().poll(cx).is_ready() => {
                let is_late = Instant::now() >= self.pace.deadline;
                self.fail(if is_late { Failure::Late } else { Failure::ReadTimeout })
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
