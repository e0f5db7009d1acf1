//! A site with pages of all kinds.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// What a path answers: the head without its first line's version, and the body.
type Pages = BTreeMap<&'static str, (String, Vec<u8>)>;

/// A server on a port of its own. It ends when dropped.
pub(super) struct Site {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<String>>>,
    _serving: AbortOnDropHandle<()>,
}

impl Site {
    pub(super) async fn start(pages: Pages) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (pages, heard) = (Arc::new(pages), Arc::clone(&asked));
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (pages, heard) = (Arc::clone(&pages), Arc::clone(&heard));
                tokio::spawn(async move { drop(serve(stream, &pages, &heard).await) });
            }
        });
        Self { url, asked, _serving: AbortOnDropHandle::new(serving) }
    }

    /// The requests so far, each with its head and its body.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub(super) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }
}

/// An answer of this type.
pub(super) fn page(content_type: &str, body: impl Into<Vec<u8>>) -> (String, Vec<u8>) {
    (format!("200 OK\r\ncontent-type: {content_type}"), body.into())
}

/// A redirect.
pub(super) fn to(location: &str) -> (String, Vec<u8>) {
    (format!("302 Found\r\nlocation: {location}"), Vec::new())
}

/// An answer in gzip.
pub(super) fn gzip(content_type: &str, body: &[u8]) -> (String, Vec<u8>) {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body).unwrap();
    (format!("200 OK\r\ncontent-type: {content_type}\r\ncontent-encoding: gzip"), encoder.finish().unwrap())
}

async fn serve(stream: TcpStream, pages: &Pages, asked: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await?;
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    asked.lock().unwrap().push(format!("{head}{}", String::from_utf8_lossy(&body)));
    if path == "/silence" {
        return std::future::pending().await;
    }
    if path == "/endless" {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n").await?;
        loop {
            stream.write_all(&[b'x'; 16 << 10]).await?;
        }
    }
    let none = ("404 Not Found\r\ncontent-type: text/plain".to_owned(), b"none".to_vec());
    let (head, body) = pages.get(path.as_str()).unwrap_or(&none);
    let head = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await
}
