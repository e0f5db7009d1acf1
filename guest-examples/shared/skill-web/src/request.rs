//! One request over `wasi:http`, with an end in time and in bytes.

use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    Fields, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest, Scheme,
    http_error_code,
};
use wasip2::io::streams::StreamError;

use crate::coding::unpack;
use crate::{Deadline, Refusal, Url};

/// Most bytes in one write and one read.
const PIECE: usize = 4096;
const READ: u64 = 64 << 10;

/// What is asked.
#[derive(Debug)]
pub struct Request<'a> {
    /// The method, in capitals.
    pub method: &'a str,
    /// Where.
    pub url: &'a Url,
    /// Fields; those that belong to the connection are not among them.
    pub headers: &'a [(String, String)],
    /// The body.
    pub body: Option<&'a [u8]>,
    /// When it is given up.
    pub deadline: Deadline,
    /// Bytes of the body that are wanted, as they come and as they unpack.
    pub most: usize,
}

/// What came.
#[derive(Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The fields in the order in which they came, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, unpacked.
    pub body: Vec<u8>,
    /// Whether there was more of it.
    pub truncated: bool,
}

impl Response {
    /// The first field of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Sends the request and reads as much of the answer as is wanted.
pub fn send(request: &Request<'_>) -> Result<Response, Refusal> {
    let outgoing = outgoing(request)?;
    let body = outgoing.body().map_err(|()| broken("no body"))?;
    let pending = handle(outgoing, None).map_err(|error| Refusal::of(&error))?;
    if let Some(content) = request.body {
        write(&body, content, request.deadline)?;
    }
    // A server may have heard enough; what it says then stands in its answer.
    let _ = OutgoingBody::finish(body, None);
    request.deadline.wait(&pending.subscribe())?;
    match pending.get() {
        Some(Ok(Ok(response))) => read(&response, request),
        Some(Ok(Err(error))) => Err(Refusal::of(&error)),
        _ => Err(broken("no answer")),
    }
}

fn outgoing(request: &Request<'_>) -> Result<OutgoingRequest, Refusal> {
    let fields = Fields::new();
    let add = |name: &str, value: &str| {
        fields
            .append(name, value.as_bytes())
            .map_err(|_| Refusal::new("bad-header", format!("the header `{name}` cannot be sent")))
    };
    for (name, value) in request.headers {
        add(name, value)?;
    }
    add("accept-encoding", "gzip, deflate")?;
    if let Some(content) = request.body {
        add("content-length", &content.len().to_string())?;
    }
    let url = request.url;
    let scheme = match url.scheme() {
        "https" => Scheme::Https,
        _ => Scheme::Http,
    };
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let method = match request.method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    };
    let outgoing = OutgoingRequest::new(fields);
    outgoing
        .set_method(&method)
        .and_then(|()| outgoing.set_scheme(Some(&scheme)))
        .and_then(|()| outgoing.set_authority(Some(url.authority())))
        .and_then(|()| outgoing.set_path_with_query(Some(&path)))
        .map_err(|()| Refusal::new("invalid-url", "the URL is not one that can be asked for"))?;
    Ok(outgoing)
}

/// Sends the body, or as much of it as the server takes.
fn write(body: &OutgoingBody, content: &[u8], deadline: Deadline) -> Result<(), Refusal> {
    let stream = body.write().map_err(|()| broken("no stream"))?;
    let mut rest = content;
    while !rest.is_empty() {
        deadline.wait(&stream.subscribe())?;
        let room = match stream.check_write() {
            Ok(room) => usize::try_from(room).unwrap_or(usize::MAX),
            Err(error) => return closed(&error),
        };
        let (now, later) = rest.split_at(rest.len().min(room).min(PIECE));
        if let Err(error) = stream.write(now) {
            return closed(&error);
        }
        rest = later;
    }
    match stream.flush() {
        Ok(()) => deadline.wait(&stream.subscribe()),
        Err(error) => closed(&error),
    }
}

/// A stream that is closed is no failure: all was taken, or there is an answer already.
fn closed(error: &StreamError) -> Result<(), Refusal> {
    match error {
        StreamError::Closed => Ok(()),
        error => Err(reason(error)),
    }
}

fn read(response: &IncomingResponse, request: &Request<'_>) -> Result<Response, Refusal> {
    let lossy = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let fields = response.headers().entries().into_iter();
    let headers = fields
        .map(|(name, value)| (name.to_ascii_lowercase(), lossy(value)))
        .collect();
    let mut found = Response {
        status: response.status(),
        headers,
        body: Vec::new(),
        truncated: false,
    };
    let body = response.consume().map_err(|()| broken("no body"))?;
    let (bytes, cut) = bytes(&body, request)?;
    let coding = found.header("content-encoding").unwrap_or_default();
    (found.body, found.truncated) = if request.method == "HEAD" {
        (Vec::new(), false)
    } else {
        unpack(bytes, coding, request.most, cut)?
    };
    Ok(found)
}

/// The bytes that are wanted, and whether there were more.
fn bytes(body: &IncomingBody, request: &Request<'_>) -> Result<(Vec<u8>, bool), Refusal> {
    let stream = body.stream().map_err(|()| broken("no stream"))?;
    let mut bytes = Vec::new();
    while bytes.len() <= request.most {
        request.deadline.wait(&stream.subscribe())?;
        match stream.read(READ) {
            Ok(piece) => bytes.extend(piece),
            Err(StreamError::Closed) => return Ok((bytes, false)),
            Err(error) => return Err(reason(&error)),
        }
    }
    bytes.truncate(request.most);
    Ok((bytes, true))
}

/// Why a stream broke off, in the words of `wasi:http` where it has them.
fn reason(error: &StreamError) -> Refusal {
    match error {
        StreamError::LastOperationFailed(error) => match http_error_code(error) {
            Some(code) => Refusal::of(&code),
            None => broken("the connection broke off"),
        },
        StreamError::Closed => broken("the connection was closed"),
    }
}

fn broken(why: &str) -> Refusal {
    Refusal::new("network-error", format!("the request failed: {why}"))
}
