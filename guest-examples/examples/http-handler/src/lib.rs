//! Answers `POST /` with `{"name": "Ada"}` with a greeting.

use serde::Deserialize;
use serde_json::{Value, json};
use wasip2::http::types::{
    Fields, IncomingBody, IncomingRequest, Method, OutgoingBody, OutgoingResponse, ResponseOutparam,
};
use wasip2::io::streams::StreamError;

/// Most bytes that are read in one go.
const CHUNK: u64 = 16 << 10;

/// What the caller sends.
#[derive(Deserialize)]
struct Args {
    name: String,
}

struct Greeter;

impl wasip2::exports::http::incoming_handler::Guest for Greeter {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let (status, body) = answer(&request);
        respond(out, status, body.to_string().as_bytes());
    }
}

fn answer(request: &IncomingRequest) -> (u16, Value) {
    if !matches!(request.method(), Method::Post) {
        return (405, json!({ "error": "only POST will do" }));
    }
    let args = read(request)
        .and_then(|body| serde_json::from_slice::<Args>(&body).map_err(|error| error.to_string()));
    match args {
        Ok(args) => (200, json!({ "greeting": format!("Hello, {}!", args.name) })),
        Err(error) => (400, json!({ "error": error })),
    }
}

fn read(request: &IncomingRequest) -> Result<Vec<u8>, String> {
    let body = request.consume().map_err(|()| "the body is gone")?;
    let mut bytes = Vec::new();
    {
        let stream = body.stream().map_err(|()| "the body is gone")?;
        loop {
            match stream.blocking_read(CHUNK) {
                Ok(chunk) => bytes.extend(chunk),
                Err(StreamError::Closed) => break,
                Err(StreamError::LastOperationFailed(error)) => return Err(error.to_debug_string()),
            }
        }
    }
    drop(IncomingBody::finish(body));
    Ok(bytes)
}

/// Sends a response. A caller that has left is no concern of this.
fn respond(out: ResponseOutparam, status: u16, bytes: &[u8]) {
    let headers = Fields::new();
    let _ = headers.append("content-type", b"application/json");
    let response = OutgoingResponse::new(headers);
    let _ = response.set_status_code(status);
    let Ok(body) = response.body() else { return };
    ResponseOutparam::set(out, Ok(response));
    if let Ok(stream) = body.write() {
        for chunk in bytes.chunks(4096) {
            let _ = stream.blocking_write_and_flush(chunk);
        }
    }
    let _ = OutgoingBody::finish(body, None);
}

wasip2::http::proxy::export!(Greeter);
