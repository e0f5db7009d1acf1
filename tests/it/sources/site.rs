//! A server over TLS that skills may be fetched from, with manners of all kinds.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use crate::support::guest;
use crate::tls::Authority;

/// What is served at a path: status line, head and body.
pub(super) type Page = (&'static str, String, Vec<u8>);
type Pages = Arc<dyn Fn(&str, &str) -> Option<Page> + Send + Sync>;

/// A server on a port of its own. It ends when dropped.
pub(super) struct Site {
    pub(super) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    _serving: AbortOnDropHandle<()>,
}

impl Site {
    /// Serves files, and `pages`, which get path and head of each request.
    pub(super) async fn start(
        authority: &Authority,
        pages: impl Fn(&str, &str) -> Option<Page> + Send + Sync + 'static,
    ) -> Self {
        let key = PrivateKeyDer::from_pem_file(authority.file("key.pem")).unwrap();
        let certificate = CertificateDer::from_pem_file(authority.file("cert.pem")).unwrap();
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, pages): (_, Pages) = (Arc::clone(&requests), Arc::new(pages));
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, seen, pages) = (acceptor.clone(), Arc::clone(&seen), Arc::clone(&pages));
                // A client that leaves in the middle is none of our business.
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        drop(serve(stream, &seen, &pages).await);
                    }
                });
            }
        });
        Self { address, requests, _serving: AbortOnDropHandle::new(serving) }
    }

    /// Serves files alone.
    pub(super) async fn plain(authority: &Authority) -> Self {
        Self::start(authority, |_, _| None).await
    }

    pub(super) fn origin(&self) -> String {
        format!("https://{}", self.address)
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin())
    }

    /// The heads of all requests so far.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }
}

async fn serve(
    stream: tokio_rustls::server::TlsStream<TcpStream>,
    seen: &Mutex<Vec<String>>,
    pages: &Pages,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        stream.read_exact(&mut body).await?;
        seen.lock().push(head.clone());
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let page = pages(&path, &head).or_else(|| file(&path));
        let Some((status, head, body)) = page else {
            misbehave(&mut stream, &path).await?;
            continue;
        };
        let length = body.len();
        stream.write_all(format!("HTTP/1.1 {status}\r\n{head}content-length: {length}\r\n\r\n").as_bytes()).await?;
        stream.write_all(&body).await?;
        stream.flush().await?;
    }
}

/// A page that sends on.
pub(super) fn moved(to: &str) -> Page {
    ("302 Found", format!("location: {to}\r\n"), Vec::new())
}

fn file(path: &str) -> Option<Page> {
    let typed = |kind: &str| format!("content-type: {kind}\r\n");
    match path {
        "/hello.wasm" | "/open/hello.wasm" | "/signed.wasm?sig=abc" => {
            Some(("200 OK", typed("application/wasm"), guest("hello")))
        }
        "/html.wasm" => Some(("200 OK", typed("text/html"), b"<!doctype html><p>top secret".to_vec())),
        "/empty.wasm" => Some(("200 OK", String::new(), Vec::new())),
        "/text.wasm" => Some(("200 OK", String::new(), b"\0asm of a kind".to_vec())),
        "/moved.wasm" => Some(moved("hello.wasm")),
        "/inward.wasm" => Some(moved("https://169.254.169.254/latest/meta-data/")),
        "/clear.wasm" => Some(moved("http://169.254.169.254/latest/meta-data/")),
        "/loop.wasm" => Some(moved("/loop.wasm")),
        "/file.wasm" => Some(moved("file:///etc/passwd")),
        "/broken.wasm" => Some(("500 Internal Server Error", String::new(), b"stack trace".to_vec())),
        "/private.wasm" => Some(("401 Unauthorized", String::new(), Vec::new())),
        "/drip.wasm" | "/endless.wasm" | "/short.wasm" | "/headers.wasm" => None,
        _ => Some(("404 Not Found", String::new(), b"not here".to_vec())),
    }
}

async fn misbehave(stream: &mut (impl AsyncWriteExt + Unpin), path: &str) -> std::io::Result<()> {
    let begin = "HTTP/1.1 200 OK\r\n";
    match path {
        "/drip.wasm" => {
            stream.write_all(format!("{begin}content-length: 1000\r\n\r\n\0asm").as_bytes()).await?;
            loop {
                stream.write_all(b".").await?;
                stream.flush().await?;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
        "/endless.wasm" => {
            stream.write_all(format!("{begin}\r\n\0asm").as_bytes()).await?;
            loop {
                stream.write_all(&[b'x'; 16 << 10]).await?;
            }
        }
        "/headers.wasm" => {
            stream.write_all(begin.as_bytes()).await?;
            for number in 0..100_000 {
                stream.write_all(format!("x-{number}: {number}\r\n").as_bytes()).await?;
            }
            stream.flush().await
        }
        _ => {
            stream.write_all(format!("{begin}content-length: 100\r\n\r\n\0asm").as_bytes()).await?;
            stream.flush().await?;
            Err(std::io::ErrorKind::ConnectionAborted.into())
        }
    }
}
