//! Greets by name over HTTP: `{"name": "Ada"}` gives `{"greeting": "Hello, Ada!"}`.
//! The same work as the skill `hello`, for a host that knows no skills.

use serde::{Deserialize, Serialize};
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam};
use wasip2::io::streams::StreamError;

/// What one read asks for; the bench sends far less.
const READ_BYTES: u64 = 64 * 1024;

#[derive(Deserialize)]
struct Args {
    name: Option<String>,
}

#[derive(Serialize)]
struct Answer {
    greeting: String,
}

struct Hello;

impl Guest for Hello {
    fn handle(request: IncomingRequest, reply: ResponseOutparam) {
        match body(&request).and_then(|args| greet(&args)) {
            Some(answer) => send(reply, 200, &answer),
            None => send(reply, 400, b"{}"),
        }
    }
}

fn greet(args: &[u8]) -> Option<Vec<u8>> {
    let args: Args = serde_json::from_slice(args).ok()?;
    let name = args.name.as_deref().unwrap_or("world");
    let greeting = format!("Hello, {name}!");
    serde_json::to_vec(&Answer { greeting }).ok()
}

fn body(request: &IncomingRequest) -> Option<Vec<u8>> {
    let body = request.consume().ok()?;
    let stream = body.stream().ok()?;
    let mut bytes = Vec::new();
    loop {
        match stream.blocking_read(READ_BYTES) {
            Ok(read) => bytes.extend(read),
            Err(StreamError::Closed) => return Some(bytes),
            Err(StreamError::LastOperationFailed(_)) => return None,
        }
    }
}

/// A reply that cannot be sent ends the instance: there is nobody left to tell.
fn send(reply: ResponseOutparam, status: u16, bytes: &[u8]) {
    let headers = Fields::new();
    let length = bytes.len().to_string().into_bytes();
    for (name, value) in [("content-type", b"application/json".to_vec()), ("content-length", length)] {
        headers.append(name, &value).expect("a legal header");
    }
    let response = OutgoingResponse::new(headers);
    response.set_status_code(status).expect("a legal status");
    let body = response.body().expect("the first use of the body");
    ResponseOutparam::set(reply, Ok(response));
    let stream = body.write().expect("the first use of the stream");
    stream.blocking_write_and_flush(bytes).expect("the client reads");
    drop(stream);
    OutgoingBody::finish(body, None).expect("as many bytes as announced");
}

wasip2::http::proxy::export!(Hello);
