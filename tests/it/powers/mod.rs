//! What skills can be granted beside network and workspace: values, a key-value store, other
//! skills; and what a run says about itself.

/// Called skills with async functions.
mod async_children;
/// Other skills.
mod children;
/// The key-value store.
mod keyvalue;

use reqwest::{Method, multipart};
use serde_json::{Value, json};

use crate::support::{Host, Reply, guest, reply, until};

/// Pushes `powers-probe` as `name@1.0.0` with these grants.
async fn push(host: &Host, key: &str, name: &str, grants: Value) -> Reply {
    let manifest = json!({ "name": name, "version": "1.0.0", "grants": grants });
    push_manifest(host, key, manifest).await
}

async fn push_manifest(host: &Host, key: &str, manifest: Value) -> Reply {
    push_guest(host, key, manifest, "powers-probe").await
}

async fn push_guest(host: &Host, key: &str, manifest: Value, name: &str) -> Reply {
    let form = multipart::Form::new()
        .part("manifest", multipart::Part::text(manifest.to_string()).mime_str("application/json").unwrap())
        .part("component", multipart::Part::bytes(guest(name)).mime_str("application/wasm").unwrap());
    let pushed = reply(host.request_as(Some(key), Method::POST, "/api/skills").multipart(form)).await;
    // A busy machine may take longer to compile than an upload waits.
    if let Some(id) = pushed.body["id"].as_str() {
        let path = format!("/api/skills/{id}");
        until(async || (host.get(&path).await.body["state"] != "compiling").then_some(())).await;
    }
    pushed
}

/// A host with `probe`, which has these grants.
async fn host(grants: Value) -> Host {
    let host = Host::start();
    let pushed = push(&host, host.key(), "probe", grants).await;
    assert!(pushed.status.is_success(), "{}", pushed.body);
    host
}

/// A new key: its secret.
async fn key(host: &Host, owner: &str, mut rest: Value) -> String {
    rest["name"] = json!("k");
    rest["owner"] = json!(owner);
    let made = host.send(Method::POST, "/api/keys", rest).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.body["secret"].as_str().unwrap().to_owned()
}

/// Runs a skill with these steps; gives the execution.
async fn run(host: &Host, key: &str, skill: &str, steps: Value) -> Value {
    let body = json!({ "skillId": skill, "args": steps, "limits": { "timeoutMs": 20_000 } });
    let request = host.request_as(Some(key), Method::POST, "/api/skills/executions").body(body.to_string());
    let reply = reply(request).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body
}

/// Runs `probe`, and gives what each step gave.
async fn steps(host: &Host, steps: Value) -> Value {
    let execution = run(host, host.key(), "probe", steps).await;
    assert_eq!(execution["status"], "success", "{execution}");
    execution["output"].clone()
}

#[tokio::test]
async fn what_a_guest_logs_is_in_its_execution_clean_and_capped() {
    let host = host(json!({})).await;
    let args = json!([["log", "part\u{1b}[2J", "one\u{1b}[31m\ntwo"], ["old-log", "", "three"]]);
    let execution = run(&host, host.key(), "probe", args).await;
    let log = execution["log"].as_array().unwrap();
    assert_eq!((&log[0]["level"], &log[0]["context"]), (&json!("warn"), &json!("part[2J")));
    assert_eq!((&log[0]["message"], &log[1]["level"]), (&json!("one[31m\ntwo"), &json!("critical")));
    assert_eq!(execution["logTruncated"], false);
    let id = execution["id"].as_str().unwrap();
    let kept = host.get(&format!("/api/skills/executions/{id}")).await.body;
    assert_eq!((&kept["log"], &kept["logTruncated"]), (&execution["log"], &json!(false)));
    let flood = json!({ "repeat": 5000, "steps": [["log", "x", "y".repeat(500)]] });
    let execution = run(&host, host.key(), "probe", flood).await;
    assert_eq!((&execution["status"], &execution["logTruncated"]), (&json!("success"), &json!(true)));
    assert!(execution["log"].as_array().unwrap().len() <= 1000 && execution.to_string().len() < 400_000);
}

#[tokio::test]
async fn values_and_variables_come_from_the_manifest_and_from_nowhere_else() {
    let host = host(json!({ "config": { "UNITS": "metric" }, "env": { "LANG": "pt" } })).await;
    let asked = json!([
        ["config", "UNITS"],
        ["old-config", "UNITS"],
        ["config", "x"],
        ["all-config"],
        ["env", "LANG"],
        ["env", "PATH"],
        ["config", "LANG"]
    ]);
    let all = json!([["UNITS", "metric"]]);
    assert_eq!(steps(&host, asked.clone()).await, json!(["metric", "metric", null, [all, all], "pt", null, null]));
    push(&host, host.key(), "bare", json!({})).await;
    let execution = run(&host, host.key(), "bare", asked).await;
    assert_eq!(execution["output"], json!([null, null, null, [[], []], null, null, null]));
    let wrong = push(&host, host.key(), "wrong", json!({ "env": { "A=B": "c" } })).await;
    assert_eq!((wrong.status.as_u16(), &wrong.body["errors"][0]["pointer"]), (422, &json!("/grants/env/A=B")));
    let other = push(&host, host.key(), "probe", json!({ "config": { "UNITS": "imperial" } })).await;
    assert_eq!(other.body["code"], "conflict");
}

#[tokio::test]
async fn a_flood_of_progress_reports_ends_by_itself_and_costs_the_host_nothing() {
    let host = host(json!({})).await;
    let before = host.resident_mib();
    let message = "m".repeat(60_000);
    let flood =
        json!({ "repeat": 20_000, "steps": [["progress", 1.5, null, message], ["progress", "no number", 1, ""]] });
    let execution = run(&host, host.key(), "probe", flood).await;
    assert_eq!(execution["status"], "success", "{execution}");
    assert!(host.resident_mib() < before + 200);
}

#[tokio::test]
async fn the_example_that_calls_another_skill_and_keeps_a_file_writes_a_line_for_each_run() {
    let host = Host::start().with("hello").await;
    let grants = json!({ "skills": ["hello@^1"], "workspace": "write" });
    let manifest = json!({ "name": "journal", "version": "1.0.0", "grants": grants });
    assert!(push_guest(&host, host.key(), manifest, "journal").await.status.is_success());
    for lines in 1..=2 {
        let execution = run(&host, host.key(), "journal", json!({ "name": "Ada" })).await;
        assert_eq!(execution["output"], json!({ "greeting": "Hello, Ada!", "lines": lines }), "{execution}");
    }
    let file = host.request_as(Some(host.key()), Method::GET, "/api/workspace/journal.txt").send().await.unwrap();
    assert_eq!(file.text().await.unwrap(), "Hello, Ada!\nHello, Ada!\n");
}

#[tokio::test]
async fn the_example_that_keeps_something_counts_on() {
    let host = Host::start();
    let grants = json!({ "kv": true, "config": { "GREETING": "Olá" } });
    let manifest = json!({ "name": "visits", "version": "1.0.0", "grants": grants });
    assert!(push_guest(&host, host.key(), manifest, "visits").await.status.is_success());
    for visits in 1..=2 {
        let execution = run(&host, host.key(), "visits", json!({ "name": "Ada" })).await;
        assert_eq!(execution["output"], json!({ "greeting": "Olá, Ada", "visits": visits }), "{execution}");
        assert_eq!(execution["log"][0]["message"], format!("visit {visits}"));
    }
}
