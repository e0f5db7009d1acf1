//! Answers over HTTP/2 that nobody takes, and connections over which nobody asks.
//!
//! There, a client says for each stream and for the whole connection how much it will take
//! (RFC 9113, section 5.2). One that lets nothing through and answers pings has a socket that
//! looks well, and would keep its connection and all its answers for ever. So would one that
//! asks nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Largest piece of an answer, in bytes: that much must be taken to count as progress.
const PIECE: usize = 16 << 10;

/// The requests of one connection that are under way, and those of their answers that are on their way.
#[derive(Clone)]
pub(super) struct Untaken(Arc<Mutex<State>>);

struct State {
    requests: usize,
    answers: usize,
    /// When one of them last began, went on or ended.
    moved: Instant,
}

/// One request, until it is answered or its client has left.
pub(super) struct Asked(Untaken);

impl Untaken {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State { requests: 0, answers: 0, moved: Instant::now() })))
    }

    /// Counts a request.
    pub(super) fn asked(&self) -> Asked {
        self.count(|state| state.requests += 1);
        Asked(self.clone())
    }

    fn count(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.0.lock();
        change(&mut state);
        state.moved = Instant::now();
    }

    /// Resolves once nothing was under way for `pause`.
    pub(super) async fn unused(&self, pause: Duration) {
        loop {
            let now = Instant::now();
            let State { requests, answers, moved } = *self.0.lock();
            let end = if requests + answers == 0 { moved } else { now } + pause;
            if end <= now {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }

    /// Resolves once there are answers and none of them has moved for `pause`.
    pub(super) async fn stalled(&self, pause: Duration) {
        loop {
            let now = Instant::now();
            let State { answers, moved, .. } = *self.0.lock();
            let end = if answers == 0 { now } else { moved } + pause;
            if end <= now {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}

impl Asked {
    /// The answer, watched until all of it could leave.
    pub(super) fn watch(self, answer: Response) -> Response {
        if answer.body().is_end_stream() {
            return answer;
        }
        let untaken = self.0.clone();
        untaken.count(|state| state.answers += 1);
        answer.map(|inner| Body::new(Watched { inner, left: Bytes::new(), untaken }))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.count(|state| state.requests -= 1);
    }
}

/// An answer in pieces. The last byte is a piece of its own: the protocol takes a piece as
/// soon as the first byte of it may leave, and whoever allows that byte has taken the rest.
struct Watched {
    inner: Body,
    left: Bytes,
    untaken: Untaken,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.left.is_empty() {
            match ready!(Pin::new(&mut self.inner).poll_frame(cx)).map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.left = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        self.untaken.count(|_| {});
        let bytes = self.left.len().saturating_sub(1).clamp(1, PIECE).min(self.left.len());
        let piece = self.left.split_to(bytes);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (left, hint) = (self.left.len() as u64, self.inner.size_hint());
        let mut whole = SizeHint::new();
        whole.set_lower(hint.lower() + left);
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper + left);
        }
        whole
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.untaken.count(|state| state.answers -= 1);
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn an_answer_stays_whole_and_its_last_byte_comes_alone() {
        for (length, pieces) in [(0, 0), (1, 1), (2, 2), (PIECE, 2), (PIECE + 1, 2), (PIECE + 2, 3), (100_000, 8)] {
            let bytes: Bytes = (0..length).map(|n| (n % 251) as u8).collect();
            let mut body = Untaken::new().asked().watch(Response::new(Body::from(bytes.clone()))).into_body();
            let (mut got, mut last, mut count) = (Vec::new(), 0, 0);
            while let Some(frame) = body.frame().await {
                let piece = frame.unwrap().into_data().unwrap();
                (last, count) = (piece.len(), count + 1);
                got.extend_from_slice(&piece);
                assert_eq!(body.size_hint().exact(), Some((length - got.len()) as u64));
                assert_eq!(body.is_end_stream(), got.len() == length);
            }
            assert_eq!((got, count), (bytes.to_vec(), pieces), "{length}");
            assert!(last <= 1, "{length}");
        }
    }

    #[tokio::test]
    async fn only_an_answer_that_lies_is_a_stall() {
        let untaken = Untaken::new();
        let pause = Duration::from_millis(20);
        let stalls = async || tokio::time::timeout(10 * pause, untaken.stalled(pause)).await.is_ok();
        assert!(!stalls().await);
        let answer = untaken.asked().watch(Response::new(Body::from("answer")));
        assert!(stalls().await);
        drop(answer);
        assert!(!stalls().await);
    }

    #[tokio::test]
    async fn only_a_connection_with_nothing_under_way_is_unused() {
        let untaken = Untaken::new();
        let pause = Duration::from_millis(20);
        let is_unused = async || tokio::time::timeout(10 * pause, untaken.unused(pause)).await.is_ok();
        assert!(is_unused().await);
        let asked = untaken.asked();
        assert!(!is_unused().await);
        let answer = asked.watch(Response::new(Body::from("answer")));
        assert!(!is_unused().await);
        drop(answer);
        assert!(is_unused().await);
    }
}
