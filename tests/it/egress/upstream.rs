//! A server that guests may be sent to, with manners of all kinds.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// A server on a port of its own. It ends when dropped.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    _serving: AbortOnDropHandle<()>,
}

impl Upstream {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = counted.fetch_add(1, Ordering::Relaxed) + 1;
                // A client that leaves in the middle is none of our business.
                tokio::spawn(async move { drop(serve(stream, number).await) });
            }
        });
        Self { address, connections, _serving: AbortOnDropHandle::new(serving) }
    }

    /// How many connections there were.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

async fn serve(stream: TcpStream, number: usize) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    for request in 0.. {
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
        if path == "/fresh" && request > 0 {
            // As a server does that has just decided to wait no longer.
            return Ok(());
        }
        let text = format!("{head}{}", String::from_utf8_lossy(&body));
        answer(&mut stream, &path, number, &text).await?;
    }
    Ok(())
}

async fn answer(stream: &mut BufReader<TcpStream>, path: &str, number: usize, request: &str) -> std::io::Result<()> {
    let begin = "HTTP/1.1 200 OK\r\n";
    match path {
        "/drip" => {
            stream.write_all(format!("{begin}content-length: 1000\r\n\r\n").as_bytes()).await?;
            loop {
                stream.write_all(b".").await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
        "/silence" => std::future::pending().await,
        "/headers" => {
            stream.write_all(begin.as_bytes()).await?;
            for number in 0..100_000 {
                stream.write_all(format!("x-{number}: {number}\r\n").as_bytes()).await?;
            }
            stream.write_all(b"content-length: 0\r\n\r\n").await
        }
        "/endless" => {
            stream.write_all(format!("{begin}\r\n").as_bytes()).await?;
            loop {
                stream.write_all(&[b'x'; 16 << 10]).await?;
            }
        }
        "/short" => {
            stream.write_all(format!("{begin}content-length: 100\r\n\r\nonly this").as_bytes()).await?;
            Err(std::io::ErrorKind::ConnectionAborted.into())
        }
        "/nonsense" => {
            stream.write_all(b"220 mail.example ESMTP\r\n").await?;
            Err(std::io::ErrorKind::ConnectionAborted.into())
        }
        "/inward" => {
            let location = "location: http://169.254.169.254/latest/meta-data/";
            stream.write_all(format!("HTTP/1.1 302 Found\r\n{location}\r\ncontent-length: 0\r\n\r\n").as_bytes()).await
        }
        "/number" => {
            let body = number.to_string();
            stream.write_all(format!("{begin}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await
        }
        _ => stream.write_all(format!("{begin}content-length: {}\r\n\r\n{request}", request.len()).as_bytes()).await,
    }
}
