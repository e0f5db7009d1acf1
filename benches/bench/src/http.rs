//! As much of HTTP/1.1 as a client on a loopback connection needs.

use std::borrow::Cow;
use std::fmt::Write;
use std::net::SocketAddr;
use std::ops::Range;

use anyhow::{Context, Result, ensure};
use memchr::memmem;

/// One response at the start of a buffer.
pub struct Response {
    pub status: u16,
    /// Where the body lies; of a chunked one, its chunks as they came.
    body: Range<usize>,
    chunked: bool,
}

impl Response {
    /// Bytes of the buffer that this response takes up.
    pub fn length(&self) -> usize {
        self.body.end
    }

    pub fn body<'a>(&self, buffer: &'a [u8]) -> Cow<'a, [u8]> {
        let bytes = &buffer[self.body.clone()];
        if self.chunked { Cow::Owned(joined_chunks(bytes)) } else { Cow::Borrowed(bytes) }
    }

    /// The bytes of the body, chunk sizes included: good enough to search in.
    pub fn raw_body<'a>(&self, buffer: &'a [u8]) -> &'a [u8] {
        &buffer[self.body.clone()]
    }
}

/// The response that `buffer` begins with, or `None` while bytes are missing.
pub fn parse(buffer: &[u8]) -> Result<Option<Response>> {
    let Some(head) = memmem::find(buffer, b"\r\n\r\n") else {
        return Ok(None);
    };
    let start = head + 4;
    let status = status(&buffer[..head])?;
    let chunked;
    let end = match framing(&buffer[..head])? {
        Framing::Length(length) => {
            chunked = false;
            (buffer.len() - start >= length).then_some(start + length)
        }
        Framing::Chunked => {
            chunked = true;
            chunks_end(&buffer[start..])?.map(|length| start + length)
        }
    };
    let response = |end| Response { status, body: start..end, chunked };
    Ok(end.map(response))
}

enum Framing {
    Length(usize),
    Chunked,
}

fn status(head: &[u8]) -> Result<u16> {
    let digits = head.get(9..12).context("a status line that is too short")?;
    ensure!(head.starts_with(b"HTTP/1."), "not an HTTP/1 response");
    Ok(std::str::from_utf8(digits)?.parse()?)
}

/// No length at all is an empty body, as 204 has; nothing here answers until it closes.
fn framing(head: &[u8]) -> Result<Framing> {
    for line in head.split(|byte| *byte == b'\n') {
        if let Some(value) = header(line, b"content-length:") {
            return Ok(Framing::Length(std::str::from_utf8(value)?.trim().parse()?));
        }
        if header(line, b"transfer-encoding:").is_some() {
            return Ok(Framing::Chunked);
        }
    }
    Ok(Framing::Length(0))
}

fn header<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, value) = line.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then_some(value)
}

/// Size of one chunk, and where its bytes begin; `None` while the line is not complete.
fn chunk(bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    let Some(end) = memmem::find(bytes, b"\r\n") else {
        return Ok(None);
    };
    let line = std::str::from_utf8(&bytes[..end])?;
    let digits = line.split(';').next().unwrap_or_default().trim();
    let size = usize::from_str_radix(digits, 16).context("a bad chunk size")?;
    Ok(Some((size, end + 2)))
}

fn chunks_end(bytes: &[u8]) -> Result<Option<usize>> {
    let mut at = 0;
    while let Some((size, start)) = chunk(&bytes[at..])? {
        at += start + size + 2;
        if at > bytes.len() {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn joined_chunks(mut bytes: &[u8]) -> Vec<u8> {
    let mut joined = Vec::new();
    while let Ok(Some((size @ 1.., start))) = chunk(bytes) {
        joined.extend_from_slice(&bytes[start..start + size]);
        bytes = &bytes[start + size + 2..];
    }
    joined
}

/// A request, ready to be sent any number of times.
pub fn request(address: SocketAddr, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{line} HTTP/1.1\r\nhost: {address}\r\n");
    for (name, value) in headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    let _ = write!(head, "content-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_whole_only_with_its_last_byte() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP";
        for end in 0..bytes.len() - 4 {
            assert!(parse(&bytes[..end]).unwrap().is_none());
        }
        let response = parse(bytes).unwrap().unwrap();
        assert_eq!(response.status, 200);
        assert_eq!(&*response.body(bytes), b"abc");
        assert_eq!(response.length(), bytes.len() - 4);
    }

    #[test]
    fn chunks_are_joined() {
        let bytes = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
        for end in 0..bytes.len() {
            assert!(parse(&bytes[..end]).unwrap().is_none());
        }
        let response = parse(bytes).unwrap().unwrap();
        assert_eq!(&*response.body(bytes), b"abc");
        assert_eq!(response.length(), bytes.len());
    }
}
