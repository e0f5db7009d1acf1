//! What the HTTP request around a message says of it (streamable HTTP, SEP-2243).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value;

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Where a message of 2026-07-28 or later says its revision.
const PER_REQUEST: &str = "io.modelcontextprotocol/protocolVersion";

/// The session of a client of an older revision.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) id: HeaderValue,
    pub(super) version: Option<HeaderValue>,
}

/// What of a message decides where it goes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Head {
    pub(super) id: Option<Value>,
    pub(super) method: Option<String>,
    params: Params,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Params {
    #[serde(rename = "_meta")]
    meta: Option<Value>,
    name: Option<Value>,
    uri: Option<Value>,
    #[serde(rename = "requestId")]
    request_id: Option<Value>,
}

impl Head {
    /// The head of a message; nothing is known of what is none.
    pub(super) fn of(line: &str) -> Self {
        serde_json::from_str(line).unwrap_or_default()
    }

    /// Whether it waits for an answer.
    pub(super) fn is_request(&self) -> bool {
        self.method.is_some() && self.id.is_some()
    }

    pub(super) fn is(&self, method: &str) -> bool {
        self.method.as_deref() == Some(method)
    }

    /// The request that it cancels.
    pub(super) fn cancels(&self) -> Option<&Value> {
        self.params.request_id.as_ref().filter(|_| self.is("notifications/cancelled"))
    }

    /// The headers around it.
    pub(super) fn headers(&self, session: Option<&Session>) -> HeaderMap {
        let mut headers = of_session(session);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let own = self.params.meta.as_ref().and_then(|meta| meta.get(PER_REQUEST)).and_then(Value::as_str);
        if let Some(version) = own.and_then(|version| HeaderValue::from_str(version).ok()) {
            headers.insert(VERSION, version);
            headers.remove(SESSION);
        }
        if let Some(method) = self.method.as_deref().and_then(|method| HeaderValue::from_str(method).ok()) {
            headers.insert(METHOD, method);
        }
        let name = self.params.name.as_ref().or(self.params.uri.as_ref()).and_then(Value::as_str);
        if let Some(name) = name.and_then(|name| HeaderValue::from_str(&plain(name)).ok()) {
            headers.insert(NAME, name);
        }
        headers
    }
}

/// The headers that a session's requests have.
pub(super) fn of_session(session: Option<&Session>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(session) = session {
        headers.insert(SESSION, session.id.clone());
        headers.extend(session.version.clone().map(|version| (VERSION, version)));
    }
    headers
}

/// A word as a header may have it.
fn plain(word: &str) -> String {
    let fits = word.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) && word.trim() == word && !word.starts_with("=?");
    if fits { word.to_owned() } else { format!("=?base64?{}?=", BASE64_STANDARD.encode(word)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_what_the_message_says() {
        let line = r#"{"id":1,"method":"tools/call","params":{"name":"größe","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let session = Session { id: HeaderValue::from_static("s"), version: None };
        let headers = Head::of(line).headers(Some(&session));
        assert_eq!(headers[VERSION], "2026-07-28");
        assert_eq!((headers.get(SESSION), &headers[METHOD]), (None, &HeaderValue::from_static("tools/call")));
        assert_eq!(headers[NAME], "=?base64?Z3LDtsOfZQ==?=");
        let older = Head::of(r#"{"id":"a","method":"tools/list","params":null}"#);
        assert!(older.is_request() || older.method.is_none());
        let older = Head::of(r#"{"id":"a","method":"tools/list"}"#);
        assert_eq!(older.headers(Some(&session))[SESSION], "s");
        assert!(older.is_request());
        let cancels = Head::of(r#"{"method":"notifications/cancelled","params":{"requestId":7}}"#);
        assert_eq!((cancels.cancels(), cancels.is_request()), (Some(&Value::from(7)), false));
    }
}
