//! One connection, one request at a time.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http::{self, Response};

/// Room for a response; grows when one is larger.
const BUFFER_BYTES: usize = 8 * 1024;

pub struct Connection {
    pub address: SocketAddr,
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { address, stream, buffer: vec![0; BUFFER_BYTES] })
    }

    /// Sends `request` and waits for its response. The bytes are those of the response.
    pub async fn exchange(&mut self, request: &[u8]) -> Result<(Response, &[u8])> {
        self.stream.write_all(request).await?;
        let mut filled = 0;
        loop {
            if filled == self.buffer.len() {
                self.buffer.resize(2 * filled, 0);
            }
            let read = self.stream.read(&mut self.buffer[filled..]).await?;
            ensure!(read > 0, "the server closed the connection");
            filled += read;
            if let Some(response) = http::parse(&self.buffer[..filled])? {
                ensure!(response.length() == filled, "bytes after the response");
                return Ok((response, &self.buffer[..filled]));
            }
        }
    }

    /// Sends a request with a body and gives the status and the JSON of the answer.
    pub async fn call(&mut self, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<(u16, Value)> {
        let request = http::request(self.address, line, headers, body);
        let (response, bytes) = self.exchange(&request).await?;
        let body = response.body(bytes);
        let value = match serde_json::from_slice(&body) {
            Ok(value) => value,
            Err(_) if body.is_empty() => Value::Null,
            Err(_) => Value::String(String::from_utf8_lossy(&body).into_owned()),
        };
        Ok((response.status, value))
    }
}

/// What the body of a right answer holds.
#[derive(Clone)]
pub struct Expected {
    /// JSON pointers and the values they lead to.
    pub values: Vec<(&'static str, Value)>,
    /// Bytes that no other answer has: quick to look for in every response.
    pub bytes: &'static [u8],
}

impl Expected {
    /// Reads the whole body.
    pub fn check(&self, response: &Response, bytes: &[u8]) -> Result<()> {
        self.glance(response, bytes)?;
        let value: Value = serde_json::from_slice(&response.body(bytes))?;
        for (pointer, wanted) in &self.values {
            let found = value.pointer(pointer).context("not in the answer");
            let found = found.with_context(|| format!("{pointer} of {value}"))?;
            ensure!(found == wanted, "{pointer} is not {wanted}: {value}");
        }
        Ok(())
    }

    /// Cheap enough for every response of a load.
    pub fn glance(&self, response: &Response, bytes: &[u8]) -> Result<()> {
        let body = response.raw_body(bytes);
        if response.status == 200 && memchr::memmem::find(body, self.bytes).is_some() {
            return Ok(());
        }
        bail!("{}: {}", response.status, String::from_utf8_lossy(body))
    }
}
