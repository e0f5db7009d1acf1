//! A server that counts how often it was asked for each path.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

type Counts = Arc<Mutex<HashMap<String, usize>>>;

/// The server, on a port of its own. It ends when dropped.
pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
    counts: Counts,
    _serving: AbortOnDropHandle<()>,
}

impl Sink {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Counts::default();
        let counted = Arc::clone(&counts);
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // A client that dies in the middle is what this is for.
                let counted = Arc::clone(&counted);
                tokio::spawn(async move { drop(serve(stream, &counted).await) });
            }
        });
        Self { address, counts, _serving: AbortOnDropHandle::new(serving) }
    }

    /// How often it was asked for a path.
    pub(crate) fn count(&self, path: &str) -> usize {
        self.counts.lock().get(path).copied().unwrap_or_default()
    }
}

async fn serve(stream: TcpStream, counts: &Counts) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        *counts.lock().entry(path).or_default() += 1;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await?;
    }
}
