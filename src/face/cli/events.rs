//! A run as it goes on: its events, as they come from the server.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::client::Client;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::report::Ran;
use super::{table, value};

/// How long to wait before a stream that broke off is asked for again, and how often in a row.
const AGAIN: Duration = Duration::from_secs(1);
const TRIES: u32 = 30;

/// The events of an answer.
pub(super) struct Events {
    response: Response,
    /// What came and is no whole line yet.
    unread: Vec<u8>,
    event: Event,
}

/// One event; data is JSON on one line.
#[derive(Debug, Default)]
pub(super) struct Event {
    id: Option<String>,
    name: String,
    data: String,
}

impl Events {
    pub(super) fn of(response: Response) -> Self {
        Self { response, unread: Vec::new(), event: Event::default() }
    }

    /// The next event; nothing when there are no more, or the connection broke.
    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.whole() {
                return Some(event);
            }
            let piece = self.response.chunk().await.ok()??;
            self.unread.extend_from_slice(&piece);
        }
    }

    /// The next event that has come whole.
    fn whole(&mut self) -> Option<Event> {
        let mut from = 0;
        let mut found = None;
        while let Some(length) = self.unread[from..].iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&self.unread[from..from + length]);
            from += length + 1;
            if self.event.takes(line.trim_end_matches('\r')) {
                found = Some(std::mem::take(&mut self.event));
                break;
            }
        }
        self.unread.drain(..from);
        found
    }
}

impl Event {
    /// Reads a line; whether it ends an event that has something in it.
    fn takes(&mut self, line: &str) -> bool {
        if line.is_empty() {
            return !self.data.is_empty();
        }
        let (field, text) = line.split_once(':').unwrap_or((line, ""));
        let text = text.strip_prefix(' ').unwrap_or(text);
        match field {
            "id" => self.id = Some(text.to_owned()),
            "event" => text.clone_into(&mut self.name),
            "data" => self.data.push_str(text),
            _ => {}
        }
        false
    }

    /// The event as one line of JSON.
    fn line(&self) -> String {
        let id = self.id.as_deref().and_then(|id| id.parse::<u64>().ok());
        let id = id.map_or("null".to_owned(), |id| id.to_string());
        format!("{{\"id\":{id},\"event\":{},\"data\":{}}}", Value::from(self.name.as_str()), self.data)
    }
}

/// Tells events as they come.
pub(super) struct Teller {
    output: Output,
    /// Whether something of stdout or stderr was told.
    has_printed: bool,
    /// Whether what was printed last ended in the middle of a line.
    in_line: bool,
    /// The number of the newest event.
    newest: Option<String>,
}

impl Teller {
    pub(super) fn new(output: Output) -> Self {
        Self { output, has_printed: false, in_line: false, newest: None }
    }

    /// Tells events up to the end of the run; nothing if they broke off.
    pub(super) async fn tell(&mut self, mut events: Events) -> Result<Option<Ran>, Failure> {
        while let Some(event) = events.next().await {
            self.newest = event.id.clone().or_else(|| self.newest.take());
            if self.output.json {
                self.output.line(&event.line())?;
            } else {
                self.note(&event);
            }
            if event.name == "end" {
                return self.end(Ran::parse(&event.data)?).map(Some);
            }
        }
        Ok(None)
    }

    fn end(&mut self, ran: Ran) -> Result<Ran, Failure> {
        self.finish_line();
        if self.output.json {
            return Ok(ran);
        }
        if ran.succeeded() {
            self.output.json_text(ran.result.as_deref().unwrap_or("null"))?;
        }
        // What a run with secrets prints comes at its end.
        if self.has_printed {
            self.output.note(&ran.outcome())
        } else {
            ran.note(self.output)
        }
        Ok(ran)
    }

    /// One event for people, on stderr.
    fn note(&mut self, event: &Event) {
        let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        let text = |name| table::clean(&value::text(&data, name));
        match event.name.as_str() {
            "stdout" | "stderr" => {
                let piece = text("text");
                self.has_printed = true;
                self.in_line = !piece.ends_with('\n');
                self.output.piece(&piece);
            }
            "log" => {
                let context = table::one_line(&text("context"));
                let context = if context.is_empty() { context } else { format!("{context}: ") };
                self.line(&format!("{} {context}{}", text("level"), text("message").trim_end_matches('\n')));
            }
            "progress" => {
                let total = text("total");
                let total = if total.is_empty() { total } else { format!("/{total}") };
                self.line(table::one_line(&format!("progress {}{total} {}", text("done"), text("message"))).trim_end());
            }
            "gap" => self.line("(some of what it said came too fast and is missing here)"),
            _ => {}
        }
    }

    fn line(&mut self, text: &str) {
        self.finish_line();
        self.output.note(text);
    }

    fn finish_line(&mut self) {
        if std::mem::take(&mut self.in_line) {
            self.output.piece("\n");
        }
    }
}

/// Follows an execution to its end, also over connections that break.
pub(super) async fn follow(output: Output, client: &Client, id: &str) -> Result<Ran, Failure> {
    go_on(Teller::new(output), client, id).await
}

/// Goes on with what was told of it.
pub(super) async fn go_on(mut teller: Teller, client: &Client, id: &str) -> Result<Ran, Failure> {
    let mut tries = 0;
    loop {
        let newest = teller.newest.clone();
        let mut headers = HeaderMap::new();
        let last = newest.as_deref().and_then(|newest| HeaderValue::from_str(newest).ok());
        headers.extend(last.map(|last| (HeaderName::from_static("last-event-id"), last)));
        let asked = client.watch(&["api", "skills", "executions", id, "events"], headers).await;
        match asked {
            Ok(response) => {
                if let Some(ran) = teller.tell(Events::of(response)).await? {
                    return Ok(ran);
                }
            }
            // A server that starts anew is there again soon.
            Err(failure) if failure.exit != Exit::Unreachable || newest.is_none() => return Err(failure),
            Err(_) => {}
        }
        tries = if teller.newest == newest { tries + 1 } else { 0 };
        if tries >= TRIES {
            return Err(broken(id));
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// The failure of a stream that ended before its run.
fn broken(id: &str) -> Failure {
    Failure::unreachable("the stream of events broke off before the run ended")
        .hint(format!("skillvisor logs {id} --follow goes on with it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_line_by_line_and_told_on_one() {
        let mut event = Event::default();
        for line in [":", "", "id: 7", "event: log", "data: {\"a\":", "data: 1}"] {
            assert!(!event.takes(line), "{line}");
        }
        assert!(event.takes(""));
        assert_eq!(event.line(), r#"{"id":7,"event":"log","data":{"a":1}}"#);
    }
}
