//! One connection, over which one request goes at a time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use super::failure::Failure;
use super::guard::{Body, Meter};

/// Most bytes of the head of a response, and of what is read ahead of who asked.
pub(super) const MAX_HEAD: u32 = 32 << 10;
/// Most header fields of a response.
const MAX_FIELDS: usize = 128;

/// A stream of bytes, over TLS or not.
pub(super) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// A connection. It is closed when this is dropped.
pub(super) struct Connection {
    pub(super) sender: SendRequest<Body>,
    counted: Arc<Mutex<Option<Meter>>>,
    _driver: AbortOnDropHandle<()>,
}

impl Connection {
    /// Begins to speak HTTP/1.1, driven on `runtime`.
    pub(super) async fn begin(wire: Box<dyn Wire>, runtime: &Handle) -> Result<Self, Failure> {
        let counted = Arc::new(Mutex::new(None));
        let io = TokioIo::new(Counted { wire, meter: Arc::clone(&counted) });
        let mut builder = Builder::new();
        builder.max_headers(MAX_FIELDS).max_buf_size(MAX_HEAD as usize);
        let (sender, connection) = builder.handshake(io).await.map_err(|_| Failure::Protocol)?;
        let driver = runtime.spawn(async move {
            // Who waits for an answer is told by the sender.
            let _ = connection.await;
        });
        Ok(Self { sender, counted, _driver: AbortOnDropHandle::new(driver) })
    }

    /// Counts from now on for somebody, or for nobody.
    pub(super) fn count_for(&self, meter: Option<Meter>) {
        *self.counted.lock() = meter;
    }
}

/// Counts the bytes of HTTP both ways.
struct Counted {
    wire: Box<dyn Wire>,
    meter: Arc<Mutex<Option<Meter>>>,
}

impl Counted {
    fn add(&self, bytes: usize) {
        if let Some(meter) = self.meter.lock().as_deref() {
            meter.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.wire).poll_read(cx, buffer))?;
        self.add(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.wire).poll_write(cx, bytes))?;
        self.add(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.wire).poll_write_vectored(cx, bytes))?;
        self.add(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(cx)
    }
}
