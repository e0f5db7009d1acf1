//! Messages out of an answer: one as it is, or several as a stream of events.

use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;

/// An answer that is read message by message.
pub(super) struct Messages {
    response: Response,
    is_stream: bool,
    /// What came and is no whole line yet.
    unread: Vec<u8>,
    /// The data of the event that is being read.
    data: Vec<u8>,
    ended: bool,
}

impl Messages {
    pub(super) fn of(response: Response) -> Self {
        let kind = response.headers().get(CONTENT_TYPE);
        let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        Self { response, is_stream, unread: Vec::new(), data: Vec::new(), ended: false }
    }

    /// The next message, on one line; nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<String>, reqwest::Error> {
        loop {
            if self.is_stream
                && let Some(message) = self.event()
            {
                return Ok(Some(message));
            }
            if self.ended {
                return Ok(None);
            }
            match self.response.chunk().await? {
                Some(piece) => self.unread.extend_from_slice(&piece),
                None => {
                    self.ended = true;
                    if !self.is_stream {
                        return Ok(one_line(&self.unread));
                    }
                }
            }
        }
    }

    /// The next event that has come whole and has something in it.
    fn event(&mut self) -> Option<String> {
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            let line = line.trim_ascii_end();
            if let Some(data) = line.strip_prefix(b"data:") {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            } else if line.is_empty() {
                let data = std::mem::take(&mut self.data);
                if let Some(message) = one_line(&data) {
                    return Some(message);
                }
            }
        }
        None
    }
}

/// A message of the protocol as one line; nothing if it is none.
fn one_line(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?.trim();
    if !text.starts_with('{') {
        return None;
    }
    if !text.contains(['\n', '\r']) {
        return Some(text.to_owned());
    }
    serde_json::from_str::<Value>(text).ok().map(|value| value.to_string())
}
