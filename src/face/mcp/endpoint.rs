//! One message comes in, and its answer goes out, at once or as a stream.

use std::any::Any;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::{BoxBody, UnsyncBoxBody};
use http_body_util::{BodyExt, Full};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::host::Host;
use crate::model::{Caller, Code, Door, Error, KeyId, Secret, StrictJson, plain};

use super::call::Call;
use super::server::Tools;
use super::sessions::{Attending, InUse, Sessions};
use super::watched::{End, Watched};

/// How often the key behind a stream is looked at.
const KEY_CHECK: Duration = Duration::from_secs(2);
/// The header with the session of a client of an older revision.
const SESSION: &str = "mcp-session-id";

/// What goes out, at once or as it comes.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Everything behind `/mcp`.
pub(crate) struct Endpoint {
    host: Host,
    service: StreamableHttpService<Tools, LocalSessionManager>,
    sessions: Arc<Sessions>,
    /// Ends streams that only wait for news.
    stopping: CancellationToken,
}

/// A request whose sender is known and whose body was read.
pub(crate) struct Incoming {
    /// Its head.
    pub(crate) parts: Parts,
    /// Its body, of which nothing is known yet.
    pub(crate) body: Bytes,
    /// Who sent it.
    pub(crate) caller: Caller,
    /// The secret that says so.
    pub(crate) secret: Secret,
    /// What is to be let go when the answer is out.
    pub(crate) kept: Box<dyn Any + Send>,
}

/// What of a message is needed before it is read as one of the protocol.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Envelope {
    id: Value,
    method: String,
    params: Option<Box<RawValue>>,
}

#[derive(Default, Deserialize)]
struct Parameters {
    arguments: Option<Box<RawValue>>,
}

/// What lasts as long as an answer.
struct Kept {
    _gone: DropGuard,
    _session: Option<InUse>,
    _attending: Option<Attending>,
    _room: Box<dyn Any + Send>,
}

impl Endpoint {
    /// An endpoint for the skills of this host, whose open streams end with `stopping`.
    pub(crate) fn new(host: Host, stopping: CancellationToken) -> Self {
        let sessions = Sessions::new();
        // Hosts, origins and sizes are looked at before anything gets here.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_sse_retry(None)
            .with_json_response(true)
            .with_max_request_body_bytes(usize::MAX);
        let tools = host.clone();
        let service =
            StreamableHttpService::new(move || Ok(Tools { host: tools.clone() }), Arc::clone(&sessions.local), config);
        tokio::spawn(Arc::clone(&sessions).tend(stopping.clone()));
        Self { host, service, sessions, stopping }
    }

    /// Answers one request.
    ///
    /// # Errors
    ///
    /// What is no matter of the protocol: a session that is not the key's, too many of them.
    pub(crate) async fn answer(&self, incoming: Incoming) -> Result<Response<Body>, Error> {
        let Incoming { mut parts, body, caller, secret, kept } = incoming;
        let envelope = match read(&parts.method, &body) {
            Ok(envelope) => envelope,
            Err(refused) => return Ok(*refused),
        };
        let id = parts.headers.get(SESSION).map(|id| id.to_str().unwrap_or_default().to_owned());
        let session = id.as_deref().map(|id| self.sessions.enter(id, &caller.key.id)).transpose()?;
        if session.is_none() && envelope.method == "initialize" {
            self.sessions.make_room(&caller.key.id, Instant::now())?;
        }
        let gone = CancellationToken::new();
        let guard = gone.clone().drop_guard();
        let arguments = match arguments(&envelope) {
            Ok(arguments) => arguments,
            Err(error) => return Ok(fault(-32602, &error.detail, &envelope.id)),
        };
        let is_news = parts.method == Method::GET || envelope.method == "subscriptions/listen";
        let is_end = parts.method == Method::DELETE;
        let attending = is_news.then(|| self.sessions.attend(&caller.key.id)).transpose()?;
        let life = session.as_ref().map(|session| session.life.clone());
        parts.extensions.insert(Call { caller: caller.clone(), arguments, gone, session: life });
        // Whoever handles the message has no need of the secret.
        parts.headers.remove(AUTHORIZATION);
        let request = Request::from_parts(parts, Full::new(body));
        let response = match envelope.method.as_str() {
            "initialize" if id.is_none() => self.open(request, caller.key.id.clone()).await?,
            _ => self.service.handle(request).await,
        };
        if let Some(id) = id.as_deref().filter(|_| is_end) {
            self.sessions.end(id);
        }
        if response.status().is_client_error() && !has_type(&response, "application/json") {
            return Ok(refused(response, &envelope.id).await);
        }
        let end = self.end(secret, is_news);
        let kept = Kept { _gone: guard, _session: session, _attending: attending, _room: kept };
        Ok(watched(response, end, kept))
    }

    /// Opens a session. Who leaves in the middle must not leave one behind of which nobody knows.
    async fn open(
        &self,
        request: Request<Full<Bytes>>,
        key: KeyId,
    ) -> Result<Response<BoxBody<Bytes, Infallible>>, Error> {
        let (service, sessions) = (self.service.clone(), Arc::clone(&self.sessions));
        let opening = async move {
            let response = service.handle(request).await;
            if let Some(id) = response.headers().get(SESSION).and_then(|id| id.to_str().ok()) {
                sessions.opened(id, key, Instant::now());
            }
            response
        };
        tokio::spawn(opening).await.map_err(Error::internal)
    }

    /// What ends a stream: the end of its key and, where it only waits for news, the host's.
    fn end(&self, secret: Secret, is_news: bool) -> End {
        let (host, stopping) = (self.host.clone(), self.stopping.clone());
        Box::pin(async move {
            let key = async {
                let mut often = tokio::time::interval(KEY_CHECK);
                loop {
                    often.tick().await;
                    if host.access.authenticate(secret.reveal(), Door::Mcp).is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                () = key => {}
                () = stopping.cancelled(), if is_news => {}
            }
        })
    }
}

/// Wraps a stream; what is whole already goes out as it is.
fn watched(response: Response<BoxBody<Bytes, Infallible>>, end: End, kept: Kept) -> Response<Body> {
    if !has_type(&response, "text/event-stream") {
        return response.map(UnsyncBoxBody::new);
    }
    response.map(|body| UnsyncBoxBody::new(Watched::new(body, end, kept)))
}

fn has_type<B>(response: &Response<B>, kind: &str) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|header| header.as_bytes().starts_with(kind.as_bytes()))
}

/// A refusal that is no message of the protocol, as one.
async fn refused(response: Response<BoxBody<Bytes, Infallible>>, id: &Value) -> Response<Body> {
    let (parts, body) = response.into_parts();
    let text = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    // The type of the body was looked at before: here, it is its shape that is wrong.
    let (status, text) = match parts.status {
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            (StatusCode::BAD_REQUEST, "the body is not a message of this protocol".into())
        }
        StatusCode::BAD_REQUEST if text.ends_with(b"Session ID is required") => {
            (StatusCode::BAD_REQUEST, "there is no session yet: send `initialize` first".into())
        }
        status => (status, plain(&String::from_utf8_lossy(&text), 300)),
    };
    let mut fault = fault(-32600, &text, id);
    *fault.status_mut() = status;
    if let Some(allow) = parts.headers.get(ALLOW) {
        fault.headers_mut().insert(ALLOW, allow.clone());
    }
    fault
}

/// Looks at a body before it is read as a message.
fn read(method: &Method, body: &Bytes) -> Result<Envelope, Box<Response<Body>>> {
    if method != Method::POST {
        return Ok(Envelope::default());
    }
    let refuse = |code, text: &str| Err(Box::new(fault(code, text, &Value::Null)));
    let Ok(text) = std::str::from_utf8(body) else { return refuse(-32700, "the body is not UTF-8") };
    if let Err(error) = StrictJson::parse(text) {
        let is_json = serde_json::from_str::<&RawValue>(text).is_ok();
        let code = if is_json { -32600 } else { -32700 };
        return refuse(code, &error.detail);
    }
    match text.trim_start().as_bytes().first() {
        Some(b'{') => {}
        Some(b'[') => return refuse(-32600, "batches are not supported; send one message at a time"),
        _ => return refuse(-32600, "a message is a JSON object"),
    }
    // What is not so is told by whoever reads the message.
    Ok(serde_json::from_str(text).unwrap_or_default())
}

/// `params.arguments`, where there are any.
fn arguments(envelope: &Envelope) -> Result<Option<Arc<StrictJson>>, Error> {
    let Some(params) = envelope.params.as_ref().filter(|_| envelope.method == "tools/call") else { return Ok(None) };
    let Ok(Parameters { arguments: Some(arguments) }) = serde_json::from_str(params.get()) else { return Ok(None) };
    if arguments.get() == "null" {
        return Ok(None);
    }
    if !arguments.get().starts_with('{') {
        return Err(Error::new(Code::Malformed, "`params.arguments` must be an object"));
    }
    StrictJson::from_raw(arguments).map(|arguments| Some(Arc::new(arguments)))
}

/// An error of the protocol that answers a request which did not become a message.
fn fault(code: i32, text: &str, id: &Value) -> Response<Body> {
    let id = if id.is_string() || id.is_number() { id.clone() } else { Value::Null };
    let body = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": text } }).to_string();
    let mut response = Response::new(UnsyncBoxBody::new(Full::new(Bytes::from(body))));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
