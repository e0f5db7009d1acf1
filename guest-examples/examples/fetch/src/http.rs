//! One request over `wasi:http`.

use std::fmt::Debug;

use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    Fields, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest, Scheme,
};
use wasip2::io::streams::StreamError;

use crate::{Answer, Args};

/// Most bytes in one write or read.
const PIECE: usize = 4096;
const READ: u64 = 64 << 10;

/// Sends the request and reads the whole answer.
pub(crate) fn fetch(args: &Args) -> Result<Answer, String> {
    let request = request(args)?;
    let content = args.body.as_ref();
    let body = content
        .map(|content| Ok((request.body()?, content)))
        .transpose();
    let body = body.map_err(|()| text("no body"))?;
    let pending = handle(request, None).map_err(text)?;
    if let Some((body, content)) = body {
        write(&body, content.as_bytes())?;
        OutgoingBody::finish(body, None).map_err(text)?;
    }
    pending.subscribe().block();
    match pending.get() {
        Some(Ok(response)) => read(&response.map_err(text)?),
        _ => Err(text("no answer")),
    }
}

fn request(args: &Args) -> Result<OutgoingRequest, String> {
    let (scheme, rest) = args.url.split_once("://").ok_or("the URL has no scheme")?;
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.into()),
    };
    let method = match args.method.as_str() {
        "GET" => Method::Get,
        "POST" => Method::Post,
        other => Method::Other(other.into()),
    };
    let fields = Fields::new();
    for (name, value) in &args.headers {
        fields.append(name, value.as_bytes()).map_err(text)?;
    }
    let length = args.body.as_ref().map_or(0, String::len).to_string();
    if args.body.is_some() {
        fields
            .append("content-length", length.as_bytes())
            .map_err(text)?;
    }
    let request = OutgoingRequest::new(fields);
    let built = request
        .set_method(&method)
        .and_then(|()| request.set_scheme(Some(&scheme)))
        .and_then(|()| request.set_authority(Some(authority)))
        .and_then(|()| request.set_path_with_query(Some(if path.is_empty() { "/" } else { path })));
    built.map_err(|()| text("HttpRequestUriInvalid"))?;
    Ok(request)
}

fn write(body: &OutgoingBody, content: &[u8]) -> Result<(), String> {
    let stream = body.write().map_err(|()| text("no stream"))?;
    for piece in content.chunks(PIECE) {
        stream.blocking_write_and_flush(piece).map_err(reason)?;
    }
    Ok(())
}

fn read(response: &IncomingResponse) -> Result<Answer, String> {
    let value = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let fields = response.headers().entries();
    let headers = fields
        .into_iter()
        .map(|(name, bytes)| (name, value(bytes)))
        .collect();
    let body = response.consume().map_err(|()| text("no body"))?;
    let content = value(read_all(&body)?);
    let trailers = trailers(body)?.into_iter();
    Ok(Answer {
        status: response.status(),
        headers,
        body: content,
        trailers: trailers.map(|(name, bytes)| (name, value(bytes))).collect(),
    })
}

/// The fields behind a body, where there are some.
fn trailers(body: IncomingBody) -> Result<Vec<(String, Vec<u8>)>, String> {
    let coming = IncomingBody::finish(body);
    coming.subscribe().block();
    match coming.get() {
        Some(Ok(Ok(Some(fields)))) => Ok(fields.entries()),
        Some(Ok(Err(error))) => Err(text(error)),
        _ => Ok(Vec::new()),
    }
}

fn read_all(body: &IncomingBody) -> Result<Vec<u8>, String> {
    let stream = body.stream().map_err(|()| text("no stream"))?;
    let mut content = Vec::new();
    loop {
        match stream.blocking_read(READ) {
            Ok(piece) => content.extend(piece),
            Err(StreamError::Closed) => return Ok(content),
            Err(error) => return Err(reason(error)),
        }
    }
}

/// Why a stream broke off, in the words of `wasi:http` where it has them.
fn reason(error: StreamError) -> String {
    match error {
        StreamError::Closed => text("closed"),
        StreamError::LastOperationFailed(error) => wasip2::http::types::http_error_code(&error)
            .map_or_else(|| error.to_debug_string(), text),
    }
}

fn text(error: impl Debug) -> String {
    format!("{error:?}")
}
