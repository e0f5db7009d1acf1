//! Reading on after a refusal.
//!
//! A server that answers and closes while the client still sends makes the client's system
//! throw the answer away (RFC 9112, section 9.6). So what is left of a refused request's body
//! is read and forgotten, up to a bound.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use futures_util::{Stream, StreamExt};
use http_body::Body as _;
use parking_lot::Mutex;

/// Bodies up to this many bytes came with the head of the request, or right behind it.
const SMALL: u64 = 8 << 10;
/// Most bytes that are read for nothing.
const MOST: usize = 8 << 20;
/// Longest time spent on it.
const LONGEST: Duration = Duration::from_secs(2);

/// A body that two can hold: the handler, and whoever reads what it left.
#[derive(Clone)]
struct Shared(Arc<Mutex<BodyDataStream>>);

impl Stream for Shared {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.lock().poll_next_unpin(cx)
    }
}

/// Answers, and reads the rest of the body if the answer is a refusal.
pub(super) async fn drain_refused(request: Request, next: Next) -> Response {
    if request.body().size_hint().upper().is_some_and(|bytes| bytes <= SMALL) {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let mut rest = Shared(Arc::new(Mutex::new(body.into_data_stream())));
    let response = next.run(Request::from_parts(parts, Body::from_stream(rest.clone()))).await;
    if response.status().is_client_error() || response.status().is_server_error() {
        let read = async {
            let mut bytes = 0;
            while let Some(Ok(chunk)) = rest.next().await {
                bytes += chunk.len();
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
