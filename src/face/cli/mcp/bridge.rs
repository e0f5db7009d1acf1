//! Between stdin and stdout on one side and `/mcp` on the other.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use reqwest::header::HeaderValue;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio::io::BufReader;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::client::Client;
use super::super::exit::Failure;
use super::super::output::Output;
use super::head::{self, Head, SESSION, Session};
use super::lines::{self, Line};
use super::streams::Messages;

/// One client on stdin and stdout.
#[derive(Clone)]
pub(super) struct Bridge(Arc<Parts>);

struct Parts {
    client: Client,
    output: Output,
    session: Mutex<Option<Session>>,
    /// Requests that wait for their answers, by their ids as text.
    waiting: Mutex<HashMap<String, CancellationToken>>,
    calls: TaskTracker,
    /// Ends what only waits for news.
    closing: CancellationToken,
    /// Cancelled when nobody reads stdout any more.
    unread: CancellationToken,
}

impl Bridge {
    pub(super) fn new(client: Client, output: Output) -> Self {
        Self(Arc::new(Parts {
            client,
            output,
            session: Mutex::default(),
            waiting: Mutex::default(),
            calls: TaskTracker::new(),
            closing: CancellationToken::new(),
            unread: CancellationToken::new(),
        }))
    }

    /// Carries lines until stdin ends and all calls are answered.
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let mut input = BufReader::new(tokio::io::stdin());
        loop {
            let line = tokio::select! {
                line = lines::next(&mut input) => line,
                () = self.0.unread.cancelled() => return Ok(()),
            };
            match line.map_err(|error| Failure::internal(format!("cannot read stdin: {error}")))? {
                Line::Whole(line) => self.take(&line).await,
                Line::TooLong => self.fault(-32600, "the message is too long", &Value::Null),
                Line::End => break,
            }
        }
        self.0.closing.cancel();
        self.0.calls.close();
        tokio::select! {
            () = self.0.calls.wait() => {}
            () = self.0.unread.cancelled() => {}
        }
        let session = self.0.session.lock().take();
        if let Some(session) = session {
            let _ = self.0.client.message(Method::DELETE, head::of_session(Some(&session)), None).await;
        }
        Ok(())
    }

    /// Sends one message on its way.
    async fn take(&self, line: &[u8]) {
        let Ok(text) = std::str::from_utf8(line) else {
            return self.fault(-32700, "the line is not UTF-8", &Value::Null);
        };
        let head = Head::of(text);
        if let Some(cancelled) = head.cancels() {
            let waiting = self.0.waiting.lock().remove(&cancelled.to_string());
            // Who leaves cancels: this is enough where there are no sessions.
            if let Some(waiting) = waiting {
                waiting.cancel();
            }
        }
        let text = text.trim().to_owned();
        if head.is_request() && !head.is("initialize") {
            let call = self.clone();
            self.0.calls.spawn(async move { call.carry(head, text).await });
        } else {
            // What comes next relies on it.
            self.carry(head, text).await;
        }
    }

    /// Sends a message and gives its answers on.
    async fn carry(&self, head: Head, text: String) {
        let id = head.id.clone().unwrap_or_default();
        let cancelled = CancellationToken::new();
        if head.is_request() {
            self.0.waiting.lock().insert(id.to_string(), cancelled.clone());
        }
        let is_news = head.is("subscriptions/listen");
        let answered = tokio::select! {
            // First, so that what was cancelled is not answered, even where its answer has come too.
            biased;
            () = cancelled.cancelled() => return,
            () = self.0.closing.cancelled(), if is_news => return,
            answered = self.exchange(&head, text) => answered,
        };
        self.0.waiting.lock().remove(&id.to_string());
        if let Err(why) = answered.filter_unanswered(&head) {
            self.fault(-32603, &why, &id);
        }
        if head.is("notifications/initialized") {
            self.listen();
        }
    }

    async fn exchange(&self, head: &Head, text: String) -> Exchange {
        let session = self.0.session.lock().clone();
        let sent = self.0.client.message(Method::POST, head.headers(session.as_ref()), Some(text)).await;
        let response = match sent {
            Ok(response) => response,
            Err(failure) => return Exchange::Failed(failure.detail),
        };
        let opened = response.headers().get(SESSION).cloned().filter(|_| head.is("initialize"));
        let status = response.status();
        let mut messages = Messages::of(response);
        let mut is_answered = false;
        loop {
            match messages.next().await {
                Ok(Some(message)) if is_message(&message) => {
                    is_answered |= is_answer(&message);
                    if let Some(id) = &opened {
                        self.begin(id, &message);
                    }
                    self.line(&message);
                }
                Ok(Some(problem)) => return Exchange::Failed(told(&problem, status.as_u16())),
                Ok(None) if is_answered || status.as_u16() == 202 => return Exchange::Answered,
                Ok(None) => {
                    return Exchange::Failed(format!("the server answered {} without a message", status.as_u16()));
                }
                Err(_) => return Exchange::Failed("the connection to the server broke".to_owned()),
            }
        }
    }

    /// Takes note of the session that an answer to `initialize` opened.
    fn begin(&self, id: &HeaderValue, answer: &str) {
        let answer: Value = serde_json::from_str(answer).unwrap_or_default();
        let version = answer.pointer("/result/protocolVersion").and_then(Value::as_str);
        let version = version.and_then(|version| HeaderValue::from_str(version).ok());
        *self.0.session.lock() = Some(Session { id: id.clone(), version });
    }

    /// Gives on what the server says by itself in a session.
    fn listen(&self) {
        let Some(session) = self.0.session.lock().clone() else { return };
        let bridge = self.clone();
        tokio::spawn(async move {
            let mut headers = head::of_session(Some(&session));
            headers.insert(reqwest::header::ACCEPT, HeaderValue::from_static("text/event-stream"));
            let Ok(response) = bridge.0.client.message(Method::GET, headers, None).await else { return };
            bridge.news(response).await;
        });
    }

    async fn news(&self, response: Response) {
        let mut messages = Messages::of(response);
        loop {
            let message = tokio::select! {
                message = messages.next() => message,
                () = self.0.closing.cancelled() => return,
            };
            match message {
                // An answer comes here only to what was cancelled: who asked has left.
                Ok(Some(message)) if is_answer(&message) => {}
                Ok(Some(message)) if is_message(&message) => self.line(&message),
                _ => return,
            }
        }
    }

    fn fault(&self, code: i32, text: &str, id: &Value) {
        self.line(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": text } }).to_string());
    }

    fn line(&self, text: &str) {
        if self.0.output.line(text).is_err() {
            self.0.unread.cancel();
        }
    }
}

/// How an exchange ended.
enum Exchange {
    Answered,
    Failed(String),
}

impl Exchange {
    /// Why a request has no answer. Nobody waits for one to anything else.
    fn filter_unanswered(self, head: &Head) -> Result<(), String> {
        match self {
            Self::Failed(why) if head.is_request() => Err(why),
            _ => Ok(()),
        }
    }
}

fn is_message(text: &str) -> bool {
    text.contains("\"jsonrpc\"")
        && serde_json::from_str::<Value>(text).is_ok_and(|value| value.get("jsonrpc").is_some())
}

fn is_answer(text: &str) -> bool {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    value.get("result").is_some() || value.get("error").is_some()
}

/// What a problem says.
fn told(problem: &str, status: u16) -> String {
    let problem: Value = serde_json::from_str(problem).unwrap_or_default();
    let word = |name: &str| problem.get(name).and_then(Value::as_str);
    match (word("code"), word("detail")) {
        (Some(code), Some(detail)) => format!("{code}: {detail}"),
        _ => format!("the server answered {status}"),
    }
}
