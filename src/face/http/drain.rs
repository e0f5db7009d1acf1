//! Reading on after a refusal.
//!
//! A server that answers and closes while the client still sends makes the client's system
//! throw the answer away (RFC 9112, section 9.6). So what is left of a refused request's body
//! is read and forgotten, up to a bound.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::Version;
use axum::http::header::EXPECT;
use axum::middleware::Next;
use axum::response::Response;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use parking_lot::Mutex;

/// Bodies up to this many bytes came with the head of the request, or right behind it.
const SMALL: u64 = 8 << 10;
/// Most bytes that are read for nothing: enough for an upload that is a little too large.
const MOST: usize = 80 << 20;
/// Longest time spent on it.
const LONGEST: Duration = Duration::from_secs(2);

/// A body that two can hold: the handler, and whoever reads what it left.
#[derive(Clone)]
struct Shared(Arc<Mutex<Inner>>);

struct Inner {
    body: Body,
    /// Whether anybody has asked for any of it.
    is_wanted: bool,
}

impl HttpBody for Shared {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut inner = self.0.lock();
        inner.is_wanted = true;
        Pin::new(&mut inner.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().body.size_hint()
    }
}

/// An answer that holds on to the body it answers. An HTTP/2 stream whose body is let go
/// before the answer is out is cancelled, answer and all.
struct Answer {
    body: Body,
    _rest: Shared,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    // Never at its end before it was read, or it would be let go at once.
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Answers, and takes care that a refusal reaches a client that is still sending.
pub(super) async fn drain_refused(request: Request, next: Next) -> Response {
    if request.body().size_hint().upper().is_some_and(|bytes| bytes <= SMALL) {
        return next.run(request).await;
    }
    let version = request.version();
    // Such a client sends nothing before it is told to, which reading does.
    let waits = request.headers().get(EXPECT).is_some();
    let (parts, body) = request.into_parts();
    let rest = Shared(Arc::new(Mutex::new(Inner { body, is_wanted: false })));
    let response = next.run(Request::from_parts(parts, Body::new(rest.clone()))).await;
    if !response.status().is_client_error() && !response.status().is_server_error() {
        return response;
    }
    if version == Version::HTTP_2 {
        // There, an answer stands whatever is still being sent (RFC 9113, section 8.1).
        return response.map(|body| Body::new(Answer { body, _rest: rest }));
    }
    let is_coming = !waits || rest.0.lock().is_wanted;
    if is_coming {
        // Whoever sends on for longer gets no answer; that is the client's doing.
        let _ = tokio::time::timeout(LONGEST, read_away(rest)).await;
    }
    response
}

/// Reads on, for nothing.
async fn read_away(mut rest: Shared) {
    let mut bytes = 0;
    while let Some(Ok(frame)) = rest.frame().await {
        bytes += frame.data_ref().map_or(0, Bytes::len);
        if bytes > MOST {
            break;
        }
    }
}
