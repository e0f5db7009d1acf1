//! How slow a client may be, and the body that holds it to that.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};

/// How slow a client may be. A server that waits for whoever sends a byte a minute has
/// no place left for the others.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Longest time over the head of a request; also how long an idle connection stays.
    pub head: Duration,
    /// Longest pause between two pieces of a body.
    pub body_pause: Duration,
    /// Longest time spent waiting for a body of no size.
    pub body_grace: Duration,
    /// For each of this many bytes a body may take one second more.
    pub body_bytes_per_second: u64,
    /// Longest pause in which a client takes nothing of what it asked for.
    pub answer_pause: Duration,
}

impl Default for Pace {
    /// Far below what a bad telephone line gives.
    fn default() -> Self {
        Self {
            head: Duration::from_secs(30),
            body_pause: Duration::from_secs(30),
            body_grace: Duration::from_secs(60),
            body_bytes_per_second: 8 << 10,
            answer_pause: Duration::from_secs(30),
        }
    }
}

impl Pace {
    /// How long a client may let itself be waited for until `bytes` of a body are here.
    fn allowance(&self, bytes: u64) -> Duration {
        self.body_grace + Duration::from_millis(bytes.saturating_mul(1000) / self.body_bytes_per_second.max(1))
    }

    /// The request, with a body that fails with [`TooSlow`] when its client is slower than this.
    pub(super) fn hold(self, request: Request) -> Request {
        if request.body().is_end_stream() {
            return request;
        }
        let paced = |inner| PacedBody { inner, pace: self, bytes: 0, waited: Duration::ZERO, wait: None };
        request.map(|body| Body::new(paced(body)))
    }
}

/// The client took too long over a body.
#[derive(Debug)]
pub(super) struct TooSlow;

impl TooSlow {
    /// What the client is told.
    pub(super) const DETAIL: &str = "the body did not come in time; send it without pauses";
}

impl fmt::Display for TooSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::DETAIL)
    }
}

impl StdError for TooSlow {}

/// A body that gives up on its client. Only the time counts in which somebody waits for it:
/// a host that is slow to read does not make the client slow.
struct PacedBody {
    inner: Body,
    pace: Pace,
    bytes: u64,
    waited: Duration,
    wait: Option<Wait>,
}

struct Wait {
    since: Instant,
    end: Pin<Box<Sleep>>,
}

impl PacedBody {
    fn begin_to_wait(&self) -> Wait {
        let left = self.pace.allowance(self.bytes).saturating_sub(self.waited);
        let since = Instant::now();
        Wait { since, end: Box::pin(tokio::time::sleep_until(since + left.min(self.pace.body_pause))) }
    }
}

impl HttpBody for PacedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            if let Some(wait) = self.wait.take() {
                self.waited += wait.since.elapsed();
            }
            if let Some(Ok(frame)) = &frame {
                self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            }
            return Poll::Ready(frame);
        }
        let mut wait = self.wait.take().unwrap_or_else(|| self.begin_to_wait());
        if wait.end.as_mut().poll(cx).is_pending() {
            self.wait = Some(wait);
            return Poll::Pending;
        }
        // Nobody shall wait for the rest, either.
        self.inner = Body::empty();
        Poll::Ready(Some(Err(axum::Error::new(TooSlow))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt, stream};
    use http_body_util::BodyExt;

    use super::super::read::is_behind;
    use super::*;

    const NEVER: Duration = Duration::from_secs(3600);

    fn pace(body_pause: Duration, body_grace: Duration) -> Pace {
        Pace { head: NEVER, body_pause, body_grace, body_bytes_per_second: 1000, answer_pause: NEVER }
    }

    /// Sends `pieces` pieces of `bytes` bytes, 2 ms apart, and says how much arrives.
    async fn arriving(pieces: usize, bytes: usize, pace: Pace) -> Result<usize, bool> {
        let piece = move |_| async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            Ok::<_, std::convert::Infallible>(Bytes::from(vec![0; bytes]))
        };
        let body = Body::from_stream(stream::iter(0..pieces).then(piece));
        let whole = pace.hold(Request::new(body)).into_body().collect().await;
        Ok(whole.map_err(|error| is_behind::<TooSlow>(&error))?.to_bytes().len())
    }

    #[tokio::test]
    async fn a_body_that_keeps_coming_is_read_however_long_it_takes() {
        // Each piece earns a hundred seconds.
        assert_eq!(arriving(50, 100_000, pace(NEVER, NEVER)).await, Ok(5_000_000));
    }

    #[tokio::test]
    async fn a_pause_or_a_trickle_ends_a_body() {
        let silent = Body::from_stream(stream::pending::<Result<Bytes, std::convert::Infallible>>());
        let silent = pace(Duration::from_millis(5), NEVER).hold(Request::new(silent)).into_body();
        assert!(is_behind::<TooSlow>(&silent.collect().await.unwrap_err()));
        assert_eq!(arriving(usize::MAX, 1, pace(NEVER, Duration::from_millis(20))).await, Err(true));
    }

    #[tokio::test]
    async fn a_host_that_is_slow_to_read_does_not_make_the_client_slow() {
        let body = Body::from_stream(stream::iter((0..5).map(|_| Ok::<_, std::convert::Infallible>("x"))));
        let mut body = pace(Duration::from_millis(1), Duration::from_millis(1)).hold(Request::new(body)).into_body();
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            assert!(body.frame().await.is_some_and(|frame| frame.is_ok()));
        }
    }
}
