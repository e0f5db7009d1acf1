//! `/api/skills/executions/{id}/events`: a run as it goes on, as server-sent events.

use std::fmt::Write as _;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use serde_json::json;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::executor::{Following, Told};
use crate::host::Host;
use crate::model::{Clock, Code, Error, Execution, ExecutionId, Heard, KeyId, Saying};

use super::App;
use super::auth::Authed;
use super::problem::Problem;
use super::read::Segment;
use super::wire;

/// The number of the last event that a client has heard.
const LAST_EVENT_ID: &str = "last-event-id";
/// The numbers of the last two events of every run: the largest that every client can count to
/// (2^53 - 1), and the one before it. So they are known again, also where nothing else is.
const OUTPUT: u64 = END - 1;
const END: u64 = (1 << 53) - 1;
/// How often the key behind a stream is looked at.
const KEY_CHECK: Duration = Duration::from_millis(2500);
/// After how many of those without a word a comment says that the stream lives.
const HEARTBEAT: u32 = 6;
/// Events are sent together up to this many bytes.
const PIECE: usize = 64 << 10;

/// Follows an execution
///
/// Server-sent events: `progress`, `log`, `stdout` and `stderr` while it runs, then `output`, if
/// there is one, and `end` with the execution. `gap` says how many events are no longer kept, or
/// that it is not known how many. `Last-Event-ID` goes on behind that event; 204 if that was the
/// last one. Of an execution that has ended only `output` and `end` are told. Without the scope
/// `executions:read` only what the key itself started.
#[utoipa::path(
    get, path = "/api/skills/executions/{id}/events", tag = "executions",
    params(
        ("id" = uuid::Uuid, Path, description = "Id of an execution"),
        ("Last-Event-ID" = Option<u64>, Header, description = "The last event that was heard"),
    ),
    responses(
        (status = 200, description = "Its events", content_type = "text/event-stream", body = String),
        (status = 204, description = "The client has heard its end"),
    ),
)]
pub(crate) async fn follow(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(id): Segment,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let id: ExecutionId = id.parse().map_err(|_| Error::not_found("execution"))?;
    let after = headers.get(LAST_EVENT_ID).map(last_event).transpose()?.unwrap_or_default();
    let key = caller.key.id.clone();
    let following = app.host.executor.follow(caller, id, after).await?;
    if after >= END {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(stream(&app, following, (after, key), ()))
}

fn last_event(value: &HeaderValue) -> Result<u64, Error> {
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Error::new(Code::Malformed, "Last-Event-ID must be the `id` of an event of this execution"))
}

/// The events of a run behind number `after`, for as long as the key opens something; `kept` is
/// let go with the stream.
pub(super) fn stream<K: Send + 'static>(
    app: &App,
    following: Following,
    (after, key): (u64, KeyId),
    kept: K,
) -> Response {
    let mut ticks = interval(KEY_CHECK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let events = Events { host: app.host.clone(), following, after, key, ticks, silent: 0, _kept: kept };
    let body = Body::from_stream(stream::unfold(events, Events::next));
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        // A proxy that gathers the answer would hold back what happens now.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, body).into_response()
}

/// A stream of events on its way.
struct Events<K> {
    host: Host,
    following: Following,
    after: u64,
    key: KeyId,
    ticks: Interval,
    /// How often the key was looked at since the last word.
    silent: u32,
    _kept: K,
}

impl<K> Events<K> {
    async fn next(mut self) -> Option<(Result<Bytes, std::convert::Infallible>, Self)> {
        loop {
            tokio::select! {
                biased;
                _ = self.ticks.tick() => {
                    // Nothing for a key that was revoked or has expired meanwhile.
                    self.host.access.live(&self.key)?;
                    self.silent += 1;
                    if self.silent >= HEARTBEAT {
                        self.silent = 0;
                        return Some((Ok(Bytes::from_static(b":\n\n")), self));
                    }
                }
                told = self.following.next() => {
                    self.silent = 0;
                    let text = match told? {
                        Told::Heard(heard) => self.heard(&heard),
                        Told::End(execution) => end(&execution, self.after),
                    };
                    return Some((Ok(text.into()), self));
                }
            }
        }
    }

    /// An event, and what else is there already.
    fn heard(&mut self, first: &Heard) -> String {
        let mut text = String::new();
        put(&mut text, first);
        while text.len() < PIECE
            && let Some(heard) = self.following.ready()
        {
            put(&mut text, &heard);
        }
        text
    }
}

fn put(text: &mut String, heard: &Heard) {
    let event = match heard {
        Heard::Event(event) => event,
        Heard::Gap(dropped) => {
            event_text(text, None, ("gap", &json!({ "dropped": dropped }).to_string()));
            return;
        }
    };
    let attempt = event.attempt;
    let (name, data) = match &event.said {
        Saying::Progress(report) => {
            let at = Clock::rfc3339(report.at);
            let (done, total, message) = (report.done, report.total, &report.message);
            let data = json!({ "attempt": attempt, "at": at, "done": done, "total": total, "message": message });
            ("progress", data)
        }
        Saying::Log(line) => {
            let (at, level) = (Clock::rfc3339(line.at), line.level);
            let (context, message) = (&line.context, &line.message);
            let data = json!({ "attempt": attempt, "at": at, "level": level, "context": context, "message": message });
            ("log", data)
        }
        Saying::Stdout(piece) => ("stdout", json!({ "attempt": attempt, "text": piece })),
        Saying::Stderr(piece) => ("stderr", json!({ "attempt": attempt, "text": piece })),
    };
    event_text(text, Some(event.id), (name, &data.to_string()));
}

/// The last events of a run, but for what came up to number `after`.
fn end(execution: &Execution, after: u64) -> String {
    let mut text = String::new();
    if let Some(output) = execution.output.as_ref().filter(|_| after < OUTPUT) {
        event_text(&mut text, Some(OUTPUT), ("output", output.get()));
    }
    event_text(&mut text, Some(END), ("end", &wire::execution(execution)));
    text
}

fn event_text(text: &mut String, id: Option<u64>, (name, data): (&str, &str)) {
    if let Some(id) = id {
        let _ = writeln!(text, "id: {id}");
    }
    let _ = writeln!(text, "event: {name}");
    text.push_str("data: ");
    // Between the parts of a JSON text, a line end is as good as a space; inside of them there is none.
    text.extend(data.chars().map(|c| if matches!(c, '\n' | '\r') { ' ' } else { c }));
    text.push_str("\n\n");
}
