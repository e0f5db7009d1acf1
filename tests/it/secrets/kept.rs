use reqwest::{Method, multipart};
use serde_json::{Value, json};

use crate::support::{Host, guest, reply, until};

use super::ask;

async fn put(host: &Host, name: &str, value: &str) {
    let body = json!({ "value": value, "for": "https://api.example", "header": "Authorization" });
    let stored = ask(host, host.key(), Method::PUT, &format!("/api/secrets/{name}"), body).await;
    assert!(stored.status.is_success(), "{}", stored.body);
}

/// How many calls the instance had that `state-leak` ran in.
async fn count(host: &Host) -> Value {
    let ran = ask(host, host.key(), Method::POST, "/api/skills/executions", json!({ "skillId": "kept", "args": {} }));
    let ran = ran.await.body;
    assert_eq!(ran["status"], "success", "{ran}");
    ran["output"]["count"].clone()
}

#[tokio::test]
async fn no_kept_instance_that_knew_a_secret_is_used_after_it_was_rotated_or_removed() {
    let host = Host::start();
    put(&host, "TOKEN", "the-first-value").await;
    let grants = json!({ "network": ["public"], "secrets": ["TOKEN", "OTHER"] });
    let manifest = json!({ "name": "kept", "version": "1.0.0", "reuse": true, "grants": grants });
    let form = multipart::Form::new()
        .part("manifest", multipart::Part::text(manifest.to_string()).mime_str("application/json").unwrap())
        .part("component", multipart::Part::bytes(guest("state-leak")).mime_str("application/wasm").unwrap());
    let made = reply(host.request_as(Some(host.key()), Method::POST, "/api/skills").multipart(form)).await;
    assert!(made.status.is_success(), "{}", made.body);
    until(async || (host.get("/api/skills/kept").await.body["state"] == "ready").then_some(())).await;
    assert_eq!([count(&host).await, count(&host).await], [1, 2]);
    put(&host, "TOKEN", "the-second-value").await;
    assert_eq!([count(&host).await, count(&host).await], [1, 2]);
    // One that is new, and one that no run gets any more: what is the same again was stored anew.
    put(&host, "OTHER", "another-value").await;
    assert_eq!([count(&host).await, count(&host).await], [1, 2]);
    let gone = ask(&host, host.key(), Method::DELETE, "/api/secrets/OTHER", json!({})).await;
    assert!(gone.status.is_success(), "{}", gone.body);
    put(&host, "OTHER", "another-value").await;
    assert_eq!([count(&host).await, count(&host).await], [1, 2]);
}
