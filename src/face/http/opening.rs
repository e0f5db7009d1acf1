//! The first bytes of a connection, which tell HTTP/1 from HTTP/2.
//!
//! Until they have come, no timer of either protocol runs. Without this one, a client that
//! sends nothing, or `P` and nothing more, would keep its connection for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// What an HTTP/2 client sends first (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection whose first bytes must come in time.
pub(super) struct Opening<T> {
    inner: T,
    /// How much of the preface has come, and when the rest must have.
    undecided: Option<(usize, Pin<Box<Sleep>>)>,
}

impl<T> Opening<T> {
    pub(super) fn new(inner: T, within: Duration) -> Self {
        Self { inner, undecided: Some((0, Box::pin(tokio::time::sleep(within)))) }
    }

    /// Ends the timer once the bytes that came tell the protocol.
    fn look_at(&mut self, bytes: &[u8]) {
        let Some((come, _)) = &mut self.undecided else { return };
        let same = bytes.iter().zip(&PREFACE[*come..]).take_while(|(byte, wanted)| byte == wanted).count();
        *come += same;
        if same < bytes.len() || *come == PREFACE.len() {
            self.undecided = None;
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Opening<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.inner).poll_read(cx, buf) {
            Poll::Ready(result) => {
                self.look_at(&buf.filled()[before..]);
                Poll::Ready(result)
            }
            Poll::Pending => {
                let Some((_, end)) = &mut self.undecided else { return Poll::Pending };
                end.as_mut().poll(cx).map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "no request came in time")))
            }
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Opening<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Sends `first` and then nothing; says whether the connection stands after its time.
    async fn stands_after(first: &[u8]) -> bool {
        let (mut client, server) = tokio::io::duplex(64);
        let mut server = Opening::new(server, Duration::from_millis(20));
        client.write_all(first).await.unwrap();
        let read = async { while server.read_u8().await.is_ok() {} };
        tokio::time::timeout(Duration::from_millis(200), read).await.is_err()
    }

    #[tokio::test]
    async fn the_timer_runs_until_the_protocol_is_known_and_no_longer() {
        for undecided in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r"] {
            assert!(!stands_after(undecided).await, "{undecided:?}");
        }
        for decided in [&b"G"[..], b"PO", b"GET / HTTP/1.0\r\n\r\n", PREFACE] {
            assert!(stands_after(decided).await, "{decided:?}");
        }
    }
}
