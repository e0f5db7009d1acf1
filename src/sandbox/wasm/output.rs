//! What a guest prints: kept up to a cap, the rest thrown away.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime::format_err;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

use crate::model::{Limits, RunError};
use crate::sandbox::program::output;
use crate::sandbox::{Journal, Stream};

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

/// stdout or stderr of one guest, kept in the journal of its run.
#[derive(Clone, Debug)]
pub(super) struct CappedOutput {
    cap: usize,
    overflow: Overflow,
    stream: Stream,
    journal: Arc<Journal>,
}

impl CappedOutput {
    /// An output that keeps `cap` bytes.
    pub(super) fn new(cap: usize, overflow: Overflow, (journal, stream): (&Arc<Journal>, Stream)) -> Self {
        Self { cap, overflow, stream, journal: Arc::clone(journal) }
    }

    /// Whether more was written than is kept.
    pub(super) fn is_full(&self) -> bool {
        self.journal.printed(self.stream, |printed| printed.truncated)
    }

    /// What was printed, as the output of a program.
    pub(super) fn output(&self, limits: &Limits) -> Result<String, RunError> {
        self.journal.printed(self.stream, |printed| output(printed, limits))
    }

    /// What was kept, as clean text, and whether something was thrown away.
    pub(super) fn take(&self) -> (String, bool) {
        self.journal.take_printed(self.stream, self.cap)
    }

    /// Keeps what fits; whether all that was written so far did.
    fn keep(&self, bytes: &[u8]) -> bool {
        self.journal.print(self.stream, bytes, self.cap)
    }
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
        if !self.keep(&bytes) && self.overflow == Overflow::Ends {
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

    fn output(cap: usize) -> CappedOutput {
        CappedOutput::new(cap, Overflow::Forgotten, (&Arc::default(), Stream::Stdout))
    }

    #[test]
    fn what_does_not_fit_is_forgotten_and_said_so() {
        let output = output(5);
        output.keep(b"abc");
        output.keep(b"defg");
        assert_eq!(output.take(), ("abcde".to_owned(), true));
    }

    #[test]
    fn replacements_do_not_make_more_of_it_than_the_cap() {
        let output = output(100);
        output.keep(&[0xff; 100]);
        let (text, truncated) = output.take();
        assert!(text.len() <= 100 && truncated, "{} bytes", text.len());
    }

    #[test]
    fn control_characters_and_broken_utf8_do_not_come_through() {
        let output = output(100);
        output.keep(b"a\x1b[31mb\r\n\tc\xff\x00\xe2\x80\xae");
        assert_eq!(output.take(), ("a[31mb\n\tc\u{fffd}".to_owned(), false));
    }
}
