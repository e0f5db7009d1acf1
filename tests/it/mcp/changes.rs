//! What clients are told while they wait, and for how long they may.

use std::time::Duration;

use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::support::{Host, guest};

/// A stream of events that is being read.
struct Stream {
    response: Response,
    text: String,
}

impl Stream {
    fn of(response: Response) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new() }
    }

    /// The next message, or nothing where the stream has ended.
    async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some((line, rest)) = self.text.split_once('\n') {
                let data = line.strip_prefix("data:").map(|data| data.trim().to_owned());
                self.text = rest.to_owned();
                if let Some(data) = data.filter(|data| !data.is_empty()) {
                    return Some(serde_json::from_str(&data).unwrap());
                }
            }
            let piece = tokio::time::timeout(Duration::from_secs(60), self.response.chunk()).await;
            let piece = piece.expect("nothing comes").ok().flatten()?;
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }
}

async fn listening(host: &Host, key: &str) -> Stream {
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let response = host.asking(key, "subscriptions/listen", params).send().await.unwrap();
    let mut stream = Stream::of(response);
    let acknowledged = stream.next().await.unwrap();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{acknowledged}");
    stream
}

#[tokio::test]
async fn whoever_listens_is_told_of_every_change_to_the_own_list_and_of_no_others() {
    let host = Host::start();
    let agent = host.agent(&["skills:read", "skills:execute"]).await;
    let path = format!("/api/keys/{}", agent["id"].as_str().unwrap());
    let agent = agent["secret"].as_str().unwrap();
    let session = host.session(agent).await;
    let old = host.request_as(Some(agent), Method::GET, "/mcp").header("accept", "text/event-stream");
    let mut old = Stream::of(old.header("mcp-session-id", &session).send().await.unwrap());
    let mut new = listening(&host, agent).await;
    let stranger = host.send(Method::POST, "/api/keys", json!({ "name": "stranger" })).await;
    let stranger = stranger.body["secret"].as_str().unwrap();
    let upload = |key: &str, name: &str| {
        let path = format!("/api/skills?name={name}&version=1.0.0");
        host.request_as(Some(key), Method::POST, &path)
            .header("content-type", "application/wasm")
            .body(guest("echo"))
            .send()
    };
    assert!(upload(stranger, "secret").await.unwrap().status().is_success());
    let patch = |change: Value| host.send(Method::PATCH, "/api/skills/echo@1.0.0", change);
    for step in ["upload", "off", "on", "auto", "delete"] {
        match step {
            "upload" => assert!(upload(host.key(), "echo").await.unwrap().status().is_success()),
            "off" => assert_eq!(patch(json!({ "enabled": false })).await.status, 200),
            "on" => assert_eq!(patch(json!({ "enabled": true })).await.status, 200),
            "auto" => assert_eq!(patch(json!({ "mode": "auto" })).await.status, 200),
            _ => {
                assert_eq!(patch(json!({ "mode": "on" })).await.status, 200);
                assert_eq!(new.next().await.unwrap()["method"], "notifications/tools/list_changed");
                assert_eq!(old.next().await.unwrap()["method"], "notifications/tools/list_changed");
                assert_eq!(host.send(Method::DELETE, "/api/skills/echo@1.0.0", Value::Null).await.status, 204);
            }
        }
        for stream in [&mut new, &mut old] {
            assert_eq!(stream.next().await.unwrap()["method"], "notifications/tools/list_changed", "{step}");
        }
        assert_eq!(host.tools(agent).await.contains(&"echo".to_owned()), matches!(step, "upload" | "on"), "{step}");
    }
    // Had the stranger's skill been told of, one more would have come by now.
    assert!(upload(host.key(), "last").await.unwrap().status().is_success());
    for stream in [&mut new, &mut old] {
        stream.next().await.unwrap();
    }
    assert_eq!(host.tools(agent).await.len(), 4);
    assert_eq!(host.send(Method::DELETE, &path, Value::Null).await.status, 204);
    for stream in [&mut new, &mut old] {
        while let Some(message) = stream.next().await {
            assert_ne!(message["method"], "notifications/tools/list_changed", "of somebody else's skill");
        }
    }
}

#[tokio::test]
async fn streams_end_with_the_key_behind_them() {
    let host = Host::start();
    let agent = host.agent(&["skills:read", "skills:execute"]).await;
    let secret = agent["secret"].as_str().unwrap();
    let session = host.session(secret).await;
    let old = host.request_as(Some(secret), Method::GET, "/mcp").header("accept", "text/event-stream");
    let mut old = Stream::of(old.header("mcp-session-id", &session).send().await.unwrap());
    let mut new = listening(&host, secret).await;
    let path = format!("/api/keys/{}", agent["id"].as_str().unwrap());
    assert_eq!(host.send(Method::DELETE, &path, Value::Null).await.status, 204);
    while old.next().await.is_some() {}
    while new.next().await.is_some() {}
}

#[tokio::test]
async fn a_server_that_stops_does_not_wait_for_those_who_listen() {
    let host = Host::start_with(&["--shutdown-drain", "10m"]);
    let session = host.session(host.key()).await;
    let old = host.request_as(Some(host.key()), Method::GET, "/mcp").header("accept", "text/event-stream");
    let mut old = Stream::of(old.header("mcp-session-id", &session).send().await.unwrap());
    let mut new = listening(&host, host.key()).await;
    let stopping = tokio::task::spawn_blocking(move || host.stop());
    while old.next().await.is_some() {}
    while new.next().await.is_some() {}
    drop((old, new));
    stopping.await.unwrap();
}
