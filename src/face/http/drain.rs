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
use axum::http::header::EXPECT;
use axum::middleware::Next;
use axum::response::Response;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use parking_lot::Mutex;

/// Bodies up to this many bytes came with the head of the request, or right behind it.
const SMALL: u64 = 8 << 10;
/// Most bytes that are read for nothing.
const MOST: usize = 24 << 20;
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

/// Answers, and reads the rest of the body if the answer is a refusal.
pub(super) async fn drain_refused(request: Request, next: Next) -> Response {
    if request.body().size_hint().upper().is_some_and(|bytes| bytes <= SMALL) {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    // Such a client sends nothing before it is told to, which reading does.
    let waits = parts.headers.get(EXPECT).is_some();
    let mut rest = Shared(Arc::new(Mutex::new(Inner { body, is_wanted: false })));
    let response = next.run(Request::from_parts(parts, Body::new(rest.clone()))).await;
    let is_refusal = response.status().is_client_error() || response.status().is_server_error();
    let is_coming = !waits || rest.0.lock().is_wanted;
    if is_refusal && is_coming {
        let read = async {
            let mut bytes = 0;
            while let Some(Ok(frame)) = rest.frame().await {
                bytes += frame.data_ref().map_or(0, Bytes::len);
                if bytes > MOST {
                    break;
                }
            }
        };
        // Whoever sends on for longer gets no answer; that is the client's doing.
        let _ = tokio::time::timeout(LONGEST, read).await;
    }
    response
}
