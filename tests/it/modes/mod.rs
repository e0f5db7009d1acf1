//! Runs that nobody waits for, and runs that are watched.

/// Runs that run again after a crash.
mod again;
/// The command line.
mod command;
/// Events of runs, and `mode: "stream"`.
mod events;
/// Kills at random moments.
mod kills;
/// The same without HTTP.
mod library;
/// `mode: "async"`.
mod queue;
mod stream;

use reqwest::{Method, multipart};
use serde_json::{Value, json};

use crate::support::{Host, Reply, guest, reply, until};

pub(crate) const RUN: &str = "/api/skills/executions";

/// Sends a request to run something.
async fn post(host: &Host, body: Value) -> Reply {
    host.send(Method::POST, RUN, body).await
}

/// Submits a run, and gives its id.
async fn submit(host: &Host, skill: &str, args: Value) -> String {
    let sent = post(host, json!({ "skillId": skill, "args": args, "mode": "async" })).await;
    assert_eq!(sent.status, 202, "{}", sent.body);
    assert_eq!(sent.body["status"], "pending");
    sent.body["id"].as_str().unwrap().to_owned()
}

/// An execution as it stands.
async fn look(host: &Host, id: &str) -> Value {
    host.get(&format!("{RUN}/{id}")).await.body
}

/// An execution once it stands so.
async fn once(host: &Host, id: &str, status: &str) -> Value {
    until(async || Some(look(host, id).await).filter(|execution| execution["status"] == status)).await
}

/// Pushes `powers-probe` as `probe@1.0.0` with these grants.
async fn push_probe(host: &Host, grants: Value) {
    let manifest = json!({ "name": "probe", "version": "1.0.0", "grants": grants });
    let form = multipart::Form::new()
        .part("manifest", multipart::Part::text(manifest.to_string()).mime_str("application/json").unwrap())
        .part("component", multipart::Part::bytes(guest("powers-probe")).mime_str("application/wasm").unwrap());
    let pushed = reply(host.request_as(Some(host.key()), Method::POST, "/api/skills").multipart(form)).await;
    assert!(pushed.status.is_success(), "{}", pushed.body);
    until(async || (host.get("/api/skills/probe").await.body["state"] == "ready").then_some(())).await;
}
