//! A client that reads server-sent events.

use std::time::Duration;

use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::support::Host;

use super::RUN;

/// One event.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) id: Option<u64>,
    pub(super) name: String,
    pub(super) data: Value,
}

/// The events of an answer, as they come.
pub(super) struct Events {
    response: Response,
    unread: String,
}

impl Events {
    pub(super) fn of(response: Response) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, unread: String::new() }
    }

    /// The next event; nothing at the end.
    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((event, rest)) = self.unread.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.unread = rest;
                // A comment is no event.
                if !event.starts_with(':') {
                    return Some(parsed(&event));
                }
                continue;
            }
            let chunk = tokio::time::timeout(Duration::from_secs(30), self.response.chunk()).await;
            let chunk = chunk.expect("it says something in time").unwrap()?;
            self.unread += std::str::from_utf8(&chunk).expect("each piece is whole");
        }
    }

    /// Waits for a word that is no event.
    pub(super) async fn heartbeat(&mut self) {
        while !self.unread.starts_with(":\n\n") {
            assert_eq!(self.unread, "", "an event came before it");
            let chunk = tokio::time::timeout(Duration::from_secs(60), self.response.chunk()).await;
            let chunk = chunk.expect("it says that it lives").unwrap().expect("it goes on");
            self.unread += std::str::from_utf8(&chunk).expect("each piece is whole");
        }
    }

    /// All that are left.
    pub(super) async fn rest(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

fn parsed(text: &str) -> Event {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let data = field("data").unwrap_or_else(|| panic!("{text}"));
    Event {
        id: field("id").map(|id| id.parse().unwrap()),
        name: field("event").unwrap().to_owned(),
        data: serde_json::from_str(data).unwrap(),
    }
}

/// The names of events, in their order.
pub(super) fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

/// Begins a run and follows it; with where it is.
pub(super) async fn begin(host: &Host, word: Option<&str>, skill: &str, args: Value) -> (Events, String) {
    let body = json!({ "skillId": skill, "args": args, "mode": "stream" }).to_string();
    let mut request = host.request_as(Some(host.key()), Method::POST, RUN).body(body);
    if let Some(word) = word {
        request = request.header("idempotency-key", word);
    }
    let response = request.send().await.unwrap();
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    (Events::of(response), location)
}

/// Asks for the events of an execution behind one of them.
pub(super) async fn ask(host: &Host, id: &str, after: Option<u64>) -> Response {
    let request = host.request_as(Some(host.key()), Method::GET, &format!("{RUN}/{id}/events"));
    let request = match after {
        Some(after) => request.header("last-event-id", after),
        None => request,
    };
    request.send().await.unwrap()
}

/// Follows an execution.
pub(super) async fn follow(host: &Host, id: &str, after: Option<u64>) -> Events {
    Events::of(ask(host, id, after).await)
}
