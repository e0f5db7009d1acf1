mod changes;
mod clients;
mod hostile;
mod stdio;
mod tools;

use std::path::Path;

use reqwest::header::HeaderMap;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::{Host, Reply, guest, reply};

/// The newest revision.
const NEWEST: &str = "2026-07-28";

/// What came back from `/mcp`: the messages, also of a stream that has ended.
struct Answer {
    status: u16,
    headers: HeaderMap,
    messages: Vec<Value>,
}

impl Answer {
    /// The one message.
    fn one(&self) -> &Value {
        assert_eq!(self.messages.len(), 1, "{:?}", self.messages);
        &self.messages[0]
    }

    /// The code of the error that it is.
    fn code(&self) -> &Value {
        &self.one()["error"]["code"]
    }
}

impl Host {
    /// Uploads a guest with a manifest of its own.
    pub(crate) async fn register(&self, key: Option<&str>, manifest: Value, guest_name: &str) -> Reply {
        let component = Part::bytes(guest(guest_name)).mime_str("application/wasm").unwrap();
        let form = Form::new().text("manifest", manifest.to_string()).part("component", component);
        let key = key.unwrap_or_else(|| self.key());
        reply(self.request_as(Some(key), Method::POST, "/api/skills").multipart(form)).await
    }

    /// The skill `hello` as its folder has it.
    pub(crate) async fn with_hello(self) -> Self {
        let text =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("skills/hello/SKILL.md")).unwrap();
        let block = text.split("```json skill\n").nth(1).unwrap().split("```").next().unwrap();
        let made = self.register(None, serde_json::from_str(block).unwrap(), "hello").await;
        assert!(made.status.is_success(), "{}", made.body);
        self
    }

    /// A key with these scopes, for the admin's namespace.
    pub(crate) async fn agent(&self, scopes: &[&str]) -> Value {
        let key = json!({ "name": "agent", "owner": "admin", "scopes": scopes });
        let made = self.send(Method::POST, "/api/keys", key).await;
        assert_eq!(made.status, 201);
        made.body
    }

    fn mcp(&self, key: &str) -> RequestBuilder {
        let request = self.request_as(Some(key), Method::POST, "/mcp");
        request.header("accept", "application/json, text/event-stream").header("content-type", "application/json")
    }

    /// A request of the newest revision.
    async fn ask(&self, key: &str, method: &str, params: Value) -> Answer {
        answer(self.asking(key, method, params)).await
    }

    fn asking(&self, key: &str, method: &str, mut params: Value) -> RequestBuilder {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": NEWEST,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        });
        let mut request = self.mcp(key).header("mcp-protocol-version", NEWEST).header("mcp-method", method);
        if let Some(name) = params["name"].as_str() {
            request = request.header("mcp-name", name);
        }
        request.body(json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string())
    }

    /// A call of a tool in the newest revision, and its result.
    async fn call(&self, key: &str, tool: &str, arguments: Value) -> Value {
        let answer = self.ask(key, "tools/call", json!({ "name": tool, "arguments": arguments })).await;
        assert!(answer.one()["result"].is_object(), "{}", answer.one());
        answer.one()["result"].clone()
    }

    /// The names of all tools of a key.
    async fn tools(&self, key: &str) -> Vec<String> {
        let answer = self.ask(key, "tools/list", json!({})).await;
        let tools = answer.one()["result"]["tools"].as_array().unwrap_or_else(|| panic!("{}", answer.one())).clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Opens a session of an older revision, and gives its id.
    async fn session(&self, key: &str) -> String {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let opened = answer(self.mcp(key).body(body.to_string())).await;
        assert_eq!(opened.one()["result"]["protocolVersion"], "2025-06-18", "{}", opened.one());
        let id = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();
        let body = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(answer(self.mcp(key).header("mcp-session-id", &id).body(body.to_string())).await.status, 202);
        id
    }
}

async fn answer(request: RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.unwrap();
    let is_stream = headers.get("content-type").is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let texts: Vec<&str> = match is_stream {
        true => text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).collect(),
        false => vec![text.trim()],
    };
    let messages = texts.into_iter().filter(|text| !text.is_empty());
    let messages = messages.map(|text| serde_json::from_str(text).unwrap_or_else(|_| json!(text))).collect();
    Answer { status, headers, messages }
}
