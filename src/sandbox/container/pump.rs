//! What a container prints, read as it comes.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;

use crate::sandbox::Stream;

/// Bytes that are read at a time.
const CHUNK: usize = 64 << 10;
/// Most of the engine's own words that are kept.
const WORDS: usize = 8 << 10;

/// Who hears what is printed.
pub(super) trait Sink: Send + Sync {
    /// Keeps bytes; whether the container may go on.
    fn take(&self, stream: Stream, bytes: &[u8]) -> bool;
}

/// Reads a stream to its end, also when nobody wants more of it: a full pipe would hold the container.
pub(super) async fn pump(
    mut from: impl AsyncRead + Unpin,
    stream: Stream,
    sink: Arc<dyn Sink>,
    full: CancellationToken,
) -> Vec<u8> {
    let mut chunk = vec![0; CHUNK];
    // The client tells on stderr why it could not start anything. That names paths of this machine, so it
    // is held back until it is known whose words these are.
    let mut held = Held { bytes: Vec::new(), holds: stream == Stream::Stderr };
    loop {
        let read = match from.read(&mut chunk).await {
            Ok(0) | Err(_) => return held.bytes,
            Ok(read) => read,
        };
        let goes_on = held.pass(&chunk[..read], |bytes| sink.take(stream, bytes));
        if !goes_on {
            full.cancel();
        }
    }
}

struct Held {
    bytes: Vec<u8>,
    holds: bool,
}

impl Held {
    fn pass(&mut self, bytes: &[u8], mut on: impl FnMut(&[u8]) -> bool) -> bool {
        if !self.holds {
            return on(bytes);
        }
        self.bytes.extend_from_slice(bytes);
        if is_of_client(&self.bytes) && self.bytes.len() <= WORDS {
            return true;
        }
        self.holds = false;
        on(&std::mem::take(&mut self.bytes))
    }
}

/// Whether these may be the first words of a client that failed.
fn is_of_client(words: &[u8]) -> bool {
    let begins = [&b"Error: "[..], b"docker: ", b"error ", b"Cannot connect"];
    begins.iter().any(|begin| words.starts_with(begin) || begin.starts_with(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_the_clients_own_words_is_held_back() {
        let passed = |pieces: &[&str]| {
            let (mut held, mut through) = (Held { bytes: Vec::new(), holds: true }, Vec::new());
            for piece in pieces {
                held.pass(piece.as_bytes(), |bytes| {
                    through.extend_from_slice(bytes);
                    true
                });
            }
            (String::from_utf8(through).unwrap(), String::from_utf8(held.bytes).unwrap())
        };
        assert_eq!(passed(&["Er", "ror: no such", " image"]), (String::new(), "Error: no such image".into()));
        assert_eq!(passed(&["Er", "rata", " Error: x"]), ("Errata Error: x".into(), String::new()));
        let long = format!("Error: {}", "x".repeat(WORDS));
        assert_eq!(passed(&[&long]).0, long);
    }
}
