//! What a skill may ask of the engine: its pace, fuel without an end, instances that are kept, async functions.

/// WASI 0.3 and async functions.
mod concurrent;
/// Fuel that is not counted.
mod fuel;
/// Instances that are kept between calls.
mod reuse;

use reqwest::{Method, multipart};
use serde_json::{Value, json};

use crate::support::{Host, Reply, guest, reply, until};

/// Pushes a guest under its own name with this manifest.
async fn push(host: &Host, key: &str, name: &str, manifest: Value) -> Reply {
    push_as(host, key, (name, name), manifest).await
}

/// Pushes a guest as `name@1.0.0`.
async fn push_as(host: &Host, key: &str, (name, guest_name): (&str, &str), manifest: Value) -> Reply {
    let mut whole = json!({ "name": name, "version": "1.0.0" });
    whole.as_object_mut().unwrap().extend(manifest.as_object().unwrap().clone());
    let pushed = try_push(host, key, whole, guest_name).await;
    assert!(pushed.status.is_success(), "{name}: {}", pushed.body);
    let path = format!("/api/skills/{}", pushed.body["id"].as_str().unwrap());
    until(async || (host.get(&path).await.body["state"] != "compiling").then_some(())).await;
    pushed
}

async fn try_push(host: &Host, key: &str, manifest: Value, guest_name: &str) -> Reply {
    let form = multipart::Form::new()
        .part("manifest", multipart::Part::text(manifest.to_string()).mime_str("application/json").unwrap())
        .part("component", multipart::Part::bytes(guest(guest_name)).mime_str("application/wasm").unwrap());
    reply(host.request_as(Some(key), Method::POST, "/api/skills").multipart(form)).await
}

/// A new key with these ceilings: its secret.
async fn key(host: &Host, owner: &str, ceilings: Value) -> String {
    let scopes = ["skills:read", "skills:write", "skills:execute"];
    let body = json!({ "name": "k", "owner": owner, "scopes": scopes, "ceilings": ceilings });
    let made = host.send(Method::POST, "/api/keys", body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.body["secret"].as_str().unwrap().to_owned()
}

/// Runs a skill with a key; gives the execution.
async fn run(host: &Host, key: &str, body: Value) -> Value {
    let request = host.request_as(Some(key), Method::POST, "/api/skills/executions").body(body.to_string());
    let reply = reply(request).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body
}

#[tokio::test]
async fn a_slowed_guest_gets_through_a_part_of_the_work_and_ends_at_its_deadline() {
    let host = Host::start().with("spin").await.with("hello").await;
    let work_at = async |percent: u64| {
        let limits = json!({ "timeoutMs": 800, "fuel": 1_000_000_000_000_u64, "cpuPercent": percent });
        let ended = host.run("spin", json!({}), limits).await;
        assert_eq!(ended.body["error"]["code"], "timeout", "{}", ended.body);
        ended.body["usage"]["fuel"].as_u64().unwrap()
    };
    let (slow, whole, more) = (work_at(4).await, work_at(100).await, work_at(400).await);
    assert!(slow * 3 < whole && slow * 3 < more, "{slow} of {whole} and of {more}");
    // What needs less than its share is there as ever.
    assert_eq!(host.outcome("hello", json!({ "name": "Ada" }), json!({ "cpuPercent": 1 })).await, "success -");
}
