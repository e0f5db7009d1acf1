use std::sync::Arc;

use axum::response::IntoResponse;
use reqwest::{Method, multipart};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::{guest, reply};

use super::receiver::{Heard, Receiver, said};
use super::{create, create_as, decisions, key, open_host, run, run_as};

fn webhook(url: &str, more: Value) -> Value {
    let mut body = json!({ "name": "hook", "kind": "webhook", "url": url, "timeoutMs": 10_000 });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// Answers as the arguments say: `before` and `after` are the answers.
fn scripted(heard: &Heard) -> Value {
    let phase = heard.body["type"].as_str().unwrap().trim_start_matches("execution.").to_owned();
    let asked = heard.body["data"]["args"][&phase].clone();
    if asked.is_null() { json!({ "action": "continue" }) } else { asked }
}

async fn scripted_receiver() -> Receiver {
    Receiver::start(|heard| std::future::ready(said(200, &scripted(&heard)))).await
}

#[tokio::test]
async fn a_webhook_is_asked_before_and_after_with_its_signature_and_changes_what_it_says() {
    let (host, receiver) = (open_host().with("echo").await.with("trap").await, scripted_receiver().await);
    let made = create(&host, webhook(&receiver.url("/check"), json!({}))).await;
    let secret = made["secret"].as_str().unwrap();
    let shown = host.get("/api/interceptors").await.body;
    assert!(!shown.to_string().contains("whsec_"), "{shown}");
    let ran = run(&host, "echo", json!({ "after": { "action": "replace", "output": "new" } })).await;
    assert_eq!((&ran["status"], &ran["output"]), (&json!("success"), &json!("new")), "{ran}");
    let heard = receiver.heard();
    assert_eq!(heard.len(), 2);
    for (message, kind) in heard.iter().zip(["execution.before", "execution.after"]) {
        assert_eq!((message.path.as_str(), &message.body["type"]), ("/check", &json!(kind)));
        assert_eq!(message.body["data"]["execution"]["id"], ran["id"]);
        assert!(message.is_signed_with(secret) && message.header("webhook-id").starts_with("msg_"));
    }
    let failed = json!({ "after": { "action": "replace", "error": { "message": "hidden" }, "stderr": "" } });
    let ran = run(&host, "trap", failed).await;
    assert_eq!((&ran["error"]["code"], &ran["error"]["message"]), (&json!("skill_error"), &json!("hidden")), "{ran}");
    let reason = format!("use sk_{} instead", "a".repeat(64));
    let ran = run(&host, "echo", json!({ "before": { "action": "reject", "reason": reason } })).await;
    assert_eq!(ran["error"]["message"], "the interceptor `hook` refused: use [redacted] instead");
    // Both secrets sign for a while, and then the new one alone.
    let id = made["id"].as_str().unwrap();
    let path = format!("/api/interceptors/{id}/rotate");
    let newer = host.send(Method::POST, &path, json!({ "graceSeconds": 3600 })).await.body["secret"].clone();
    run(&host, "echo", json!({})).await;
    let last = receiver.heard().pop().unwrap();
    assert!(last.is_signed_with(secret) && last.is_signed_with(newer.as_str().unwrap()));
    let newest = host.send(Method::POST, &path, json!({ "graceSeconds": 0 })).await.body["secret"].clone();
    run(&host, "echo", json!({})).await;
    let last = receiver.heard().pop().unwrap();
    assert!(last.is_signed_with(newest.as_str().unwrap()) && !last.is_signed_with(newer.as_str().unwrap()));
    let files: Vec<_> = std::fs::read_dir(host.dir.path().join("data")).unwrap().flatten().collect();
    for file in files.iter().filter(|file| file.path().is_file()) {
        let bytes = std::fs::read(file.path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(secret) && !text.contains(newest.as_str().unwrap()), "{:?}", file.path());
    }
}

#[tokio::test]
async fn an_upstream_with_bad_manners_refuses_the_run_and_is_named() {
    let host = open_host().with("echo").await;
    let receiver = Receiver::start(|heard| async move {
        match heard.body["data"]["args"]["way"].as_str().unwrap() {
            "redirect" => {
                let to = [("location", "http://169.254.169.254/latest/meta-data/")];
                (axum::http::StatusCode::TEMPORARY_REDIRECT, to, "").into_response()
            }
            "huge" => vec![b'x'; 100 << 20].into_response(),
            "html" => "<html>".into_response(),
            "broken" => said(500, &json!({ "action": "continue" })),
            "silent" => std::future::pending().await,
            _ => said(200, &json!({ "action": "continue" })),
        }
    })
    .await;
    create(&host, webhook(&receiver.url("/"), json!({ "phases": ["before"], "timeoutMs": 3000 }))).await;
    for (way, problem) in [
        ("redirect", "unavailable"),
        ("huge", "invalid_answer"),
        ("html", "invalid_answer"),
        ("broken", "unavailable"),
        ("silent", "timeout"),
    ] {
        let ran = run(&host, "echo", json!({ "way": way })).await;
        assert_eq!(ran["error"]["code"], "rejected", "{way}: {ran}");
        assert_eq!(decisions(&ran), [format!("hook before failed {problem}")], "{way}");
    }
    assert_eq!(run(&host, "echo", json!({ "way": "fine" })).await["status"], "success");
    // The run's own deadline comes first.
    let late = host.run("echo", json!({ "way": "silent" }), json!({ "timeoutMs": 300 })).await.body;
    assert_eq!((&late["status"], &late["error"]["code"]), (&json!("timeout"), &json!("timeout")), "{late}");
    assert!(host.peak_mib() < 1500);
}

#[tokio::test]
async fn a_target_inside_or_above_the_ceiling_is_refused_when_it_is_set_up_and_at_each_delivery() {
    let (host, receiver) = (open_host().with("echo").await, scripted_receiver().await);
    for url in
        ["http://169.254.169.254/", "http://10.0.0.1/x", "http://[::1]:80/", "http://0x7f.2/", "http://127.0.0.2/"]
    {
        let refused = create_as(&host, host.key(), webhook(url, json!({}))).await;
        assert!(["403 denied", "422 invalid_args"].contains(&refused.summary().as_str()), "{url}: {}", refused.body);
    }
    for url in ["ftp://a.example/", "http://user:pw@a.example/", "nonsense", ""] {
        assert_eq!(create_as(&host, host.key(), webhook(url, json!({}))).await.summary(), "422 invalid_args", "{url}");
    }
    let closed = key(&host, "ann", &[]).await;
    assert_eq!(create_as(&host, &closed, webhook(&receiver.url("/"), json!({}))).await.summary(), "403 denied");
    let rule = receiver.url("/in/*");
    let made = host.send(
        Method::POST,
        "/api/keys",
        json!({
            "name": "k", "owner": "bob", "scopes": ["skills:write", "skills:execute", "interceptors:write"],
            "ceilings": { "network": [rule] },
        }),
    );
    let made = made.await.body;
    let bob = made["secret"].as_str().unwrap();
    let upload = host.request_as(Some(bob), Method::POST, "/api/skills?name=own&version=1.0.0");
    reply(upload.header("content-type", "application/wasm").body(guest("echo"))).await;
    assert_eq!(create_as(&host, bob, webhook(&receiver.url("/out"), json!({}))).await.summary(), "403 denied");
    assert_eq!(create_as(&host, bob, webhook(&receiver.url("/in/a"), json!({}))).await.status, 201);
    assert_eq!(run_as(&host, bob, "own", json!({})).await["status"], "success");
    // The key is gone, and with it what it might reach.
    let other = key(&host, "bob", &[]).await;
    host.send(Method::DELETE, &format!("/api/keys/{}", made["id"].as_str().unwrap()), Value::Null).await;
    let ran = run_as(&host, &other, "own", json!({})).await;
    assert_eq!(decisions(&ran)[0], "hook before failed denied", "{ran}");
}

#[tokio::test]
async fn those_of_an_owner_come_before_those_for_everybody_each_in_its_order() {
    let (host, receiver) = (open_host().with("echo").await, scripted_receiver().await);
    for (name, order, global) in [("late", 5, false), ("policy", -9, true), ("early", -5, false), ("same", 5, false)] {
        let more = json!({ "name": name, "order": order, "global": global });
        create(&host, webhook(&receiver.url(&format!("/{name}")), more)).await;
    }
    let ran = run(&host, "echo", json!({})).await;
    assert_eq!(ran["status"], "success", "{ran}");
    let paths: Vec<_> = receiver.heard().into_iter().map(|heard| heard.path).collect();
    assert_eq!(paths, ["/early", "/late", "/same", "/policy", "/early", "/late", "/same", "/policy"]);
}

#[tokio::test]
async fn a_slow_webhook_of_one_owner_holds_up_nobody_else_and_its_run_is_cancelled_at_once() {
    let host = open_host().with("echo").await;
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let receiver = Receiver::start(move |_| {
        let gate = Arc::clone(&opened);
        async move {
            drop(gate.acquire().await);
            said(200, &json!({ "action": "continue" }))
        }
    })
    .await;
    let ann = key(&host, "ann", &["public"]).await;
    let upload = host.request_as(Some(&ann), Method::POST, "/api/skills?name=own&version=1.0.0");
    reply(upload.header("content-type", "application/wasm").body(guest("echo"))).await;
    let made =
        create_as(&host, &ann, webhook(&receiver.url("/"), json!({ "timeoutMs": 30_000, "phases": ["before"] })));
    assert_eq!(made.await.status, 201);
    let mut ids = Vec::new();
    for _ in 0..100 {
        let body = json!({ "skillId": "own", "args": {}, "mode": "async" });
        let request = host.request_as(Some(&ann), Method::POST, "/api/skills/executions").body(body.to_string());
        ids.push(reply(request).await.body["id"].as_str().unwrap().to_owned());
    }
    receiver.messages("execution.before", 20).await;
    for _ in 0..20 {
        assert_eq!(run(&host, "echo", json!({})).await["status"], "success");
    }
    let path = format!("/api/skills/executions/{}/cancel", ids[0]);
    let cancelled = reply(host.request_as(Some(&ann), Method::POST, &path)).await;
    assert_eq!(cancelled.body["status"], "cancelled", "{}", cancelled.body);
    gate.close();
}

#[tokio::test]
async fn followers_hear_nothing_that_an_interceptor_has_not_seen() {
    let host = open_host();
    let manifest = json!({ "name": "probe", "version": "1.0.0" });
    let form = multipart::Form::new()
        .part("manifest", multipart::Part::text(manifest.to_string()).mime_str("application/json").unwrap())
        .part("component", multipart::Part::bytes(guest("powers-probe")).mime_str("application/wasm").unwrap());
    let pushed = reply(host.request_as(Some(host.key()), Method::POST, "/api/skills").multipart(form)).await;
    assert!(pushed.status.is_success(), "{}", pushed.body);
    let config = json!({ "patterns": ["canary-[a-z]+"], "defaults": false });
    create(&host, json!({ "name": "clean", "kind": "builtin", "builtin": "redaction", "config": config })).await;
    let steps = json!([["log", "part", "it is canary-log"], ["progress", 1, 2, "canary-progress"]]);
    let body = json!({ "skillId": "probe", "args": steps, "mode": "stream" });
    let request = host.request_as(Some(host.key()), Method::POST, "/api/skills/executions").body(body.to_string());
    let text = request.send().await.unwrap().text().await.unwrap();
    assert!(!text.contains("canary"), "{text}");
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    assert!(at("event: log") < at("event: end") && at("event: progress") < at("event: end"), "{text}");
    assert!(text.contains("it is [redacted]"), "{text}");
    let record = host.get("/api/skills/executions").await.body["executions"][0]["id"].clone();
    let record = host.get(&format!("/api/skills/executions/{}", record.as_str().unwrap())).await.body;
    assert!(!record.to_string().contains("canary"), "{record}");
}

#[tokio::test]
async fn what_skills_call_is_intercepted_too_a_replay_is_not_and_attempts_are_one_run() {
    let (host, receiver) = (open_host().with("echo").await.with("trap").await, scripted_receiver().await);
    let manifest = json!({ "name": "probe", "version": "1.0.0", "grants": { "skills": ["echo"] } });
    let form = multipart::Form::new()
        .part("manifest", multipart::Part::text(manifest.to_string()).mime_str("application/json").unwrap())
        .part("component", multipart::Part::bytes(guest("powers-probe")).mime_str("application/wasm").unwrap());
    let pushed = reply(host.request_as(Some(host.key()), Method::POST, "/api/skills").multipart(form)).await;
    assert!(pushed.status.is_success(), "{}", pushed.body);
    create(&host, webhook(&receiver.url("/"), json!({}))).await;
    run(&host, "probe", json!([["call", "echo", { "a": 1 }]])).await;
    let skills: Vec<_> =
        receiver.heard().iter().map(|heard| heard.body["data"]["execution"]["skillId"].clone()).collect();
    assert_eq!(skills, ["probe@1.0.0", "echo@1.0.0", "echo@1.0.0", "probe@1.0.0"]);
    for _ in 0..2 {
        let body = json!({ "skillId": "echo", "args": {} }).to_string();
        let request = host.request_as(Some(host.key()), Method::POST, "/api/skills/executions");
        assert_eq!(reply(request.header("idempotency-key", "once").body(body)).await.status, 200);
    }
    assert_eq!(receiver.heard().len(), 6);
    let body = json!({ "skillId": "trap", "args": { "kind": "panic" }, "retry": { "maxRetries": 2, "backoffMs": 1 } });
    let ran = host.send(Method::POST, "/api/skills/executions", body).await.body;
    assert_eq!((&ran["attempts"], receiver.heard().len()), (&json!(3), 8), "{ran}");
}
