//! What a guest prints: kept up to a cap, the rest thrown away.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use wasmtime::format_err;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

use crate::model::steers;

/// Most bytes a guest may hand over in one write.
const WRITE_SIZE: usize = 64 << 10;

/// What happens to what is written past the cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overflow {
    /// It is forgotten, and writing succeeds: a chatty guest still ends by itself.
    Forgotten,
    /// It ends the guest: what it writes is its output, and more than that may have.
    Ends,
}

/// stdout or stderr of one guest.
#[derive(Clone, Debug)]
pub(super) struct CappedOutput {
    cap: usize,
    overflow: Overflow,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    truncated: bool,
}

impl CappedOutput {
    /// An output that keeps `cap` bytes.
    pub(super) fn new(cap: usize, overflow: Overflow) -> Self {
        Self { cap, overflow, kept: Arc::default() }
    }

    /// Whether more was written than is kept.
    pub(super) fn is_full(&self) -> bool {
        self.kept.lock().truncated
    }

    /// What was kept so far, as it is if it is UTF-8.
    pub(super) fn text(&self) -> Option<String> {
        String::from_utf8(self.kept.lock().bytes.clone()).ok()
    }

    /// What was kept so far, as clean text.
    pub(super) fn clean(&self) -> String {
        clean(&self.kept.lock().bytes, self.cap).0
    }

    /// What was kept, as clean text, and whether something was thrown away.
    pub(super) fn take(&self) -> (String, bool) {
        let kept = std::mem::take(&mut *self.kept.lock());
        let (text, cut) = clean(&kept.bytes, self.cap);
        (text, kept.truncated || cut)
    }

    fn keep(&self, bytes: &[u8]) {
        let mut kept = self.kept.lock();
        let room = self.cap - kept.bytes.len();
        if bytes.len() > room {
            kept.truncated = true;
        }
        kept.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// UTF-8 with replacement characters for what is not, without what steers a reader's screen,
/// but for line ends and tabs: what a guest prints must not drive the terminal that shows it. A
/// replacement is longer than what it stands for, so the text is cut at `cap` bytes once more;
/// whether it was, comes second.
pub(super) fn clean(bytes: &[u8], cap: usize) -> (String, bool) {
    let mut text = String::with_capacity(bytes.len().min(cap));
    for chunk in bytes.utf8_chunks() {
        let broken = (!chunk.invalid().is_empty()).then_some(char::REPLACEMENT_CHARACTER);
        for c in chunk.valid().chars().filter(|c| !is_unwanted(*c)).chain(broken) {
            if text.len() + c.len_utf8() > cap {
                return (text, true);
            }
            text.push(c);
        }
    }
    (text, false)
}

fn is_unwanted(c: char) -> bool {
    steers(c) && c != '\n' && c != '\t'
}

impl IsTerminal for CappedOutput {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for CappedOutput {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for CappedOutput {
    async fn ready(&mut self) {}
}

impl OutputStream for CappedOutput {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.keep(&bytes);
        if self.overflow == Overflow::Ends && self.is_full() {
            return Err(StreamError::Trap(format_err!("stdout is full")));
        }
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_SIZE)
    }
}

impl AsyncWrite for CappedOutput {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.keep(bytes);
        if self.overflow == Overflow::Ends && self.is_full() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_forgotten_and_said_so() {
        let output = CappedOutput::new(5, Overflow::Forgotten);
        output.keep(b"abc");
        output.keep(b"defg");
        assert_eq!(output.take(), ("abcde".to_owned(), true));
    }

    #[test]
    fn replacements_do_not_make_more_of_it_than_the_cap() {
        let output = CappedOutput::new(100, Overflow::Forgotten);
        output.keep(&[0xff; 100]);
        let (text, truncated) = output.take();
        assert!(text.len() <= 100 && truncated, "{} bytes", text.len());
    }

    #[test]
    fn control_characters_and_broken_utf8_do_not_come_through() {
        let output = CappedOutput::new(100, Overflow::Forgotten);
        output.keep(b"a\x1b[31mb\r\n\tc\xff\x00\xe2\x80\xae");
        assert_eq!(output.take(), ("a[31mb\n\tc\u{fffd}".to_owned(), false));
    }
}
