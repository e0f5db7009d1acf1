//! A server that webhooks are sent to.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::task::AbortOnDropHandle;

use crate::support::until;

/// A message that came.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
    pub(super) body: Value,
}

impl Heard {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    /// Whether one of its signatures is made with this secret (Standard Webhooks).
    pub(super) fn is_signed_with(&self, secret: &str) -> bool {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
        let signed = format!("{}.{}.{}", self.header("webhook-id"), self.header("webhook-timestamp"), self.text);
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &key);
        let expected = format!("v1,{}", STANDARD.encode(aws_lc_rs::hmac::sign(&key, signed.as_bytes())));
        self.header("webhook-signature").split(' ').any(|signature| signature == expected)
    }
}

/// A server on a port of its own. It ends when dropped.
pub(super) struct Receiver {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<Heard>>>,
    _serving: AbortOnDropHandle<()>,
}

impl Receiver {
    /// Starts one that answers as `answer` says.
    pub(super) async fn start<F, A>(answer: F) -> Self
    where
        F: Fn(Heard) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Response> + Send,
    {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&heard);
        let handle = move |request: Request| {
            let (noted, answer) = (Arc::clone(&noted), answer.clone());
            async move {
                let (head, body) = request.into_parts();
                let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
                let text = String::from_utf8(bytes.to_vec()).unwrap();
                let body = serde_json::from_str(&text).unwrap();
                let message = Heard { path: head.uri.path().to_owned(), headers: head.headers, text, body };
                noted.lock().push(message.clone());
                answer(message).await
            }
        };
        let app = Router::new().fallback(handle);
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, heard, _serving: AbortOnDropHandle::new(serving) }
    }

    /// Starts one that always answers so.
    pub(super) async fn saying(status: u16, body: Value) -> Self {
        Self::start(move |_| std::future::ready(said(status, &body))).await
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().clone()
    }

    /// The messages of this type, once there are so many.
    pub(super) async fn messages(&self, kind: &str, count: usize) -> Vec<Heard> {
        until(async || {
            let found: Vec<_> = self.heard().into_iter().filter(|heard| heard.body["type"] == kind).collect();
            (found.len() >= count).then_some(found)
        })
        .await
    }
}

pub(super) fn said(status: u16, body: &Value) -> Response {
    (axum::http::StatusCode::from_u16(status).unwrap(), body.to_string()).into_response()
}
