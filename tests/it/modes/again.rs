use reqwest::{Method, multipart};
use serde_json::{Value, json};

use crate::support::{Host, guest, reply, until};

use super::{RUN, look, once, submit};

/// Adds to a number, and then computes for some seconds.
fn slow() -> Value {
    json!([["add", "n", 1], ["burn", 400_000_000_u64]])
}

/// Pushes `powers-probe` as `name@1.0.0`.
async fn push(host: &Host, name: &str, idempotent: bool) {
    let manifest = json!({ "name": name, "version": "1.0.0", "grants": { "kv": true }, "idempotent": idempotent,
        "limits": { "timeoutMs": 60_000 } });
    let form = multipart::Form::new()
        .part("manifest", multipart::Part::text(manifest.to_string()).mime_str("application/json").unwrap())
        .part("component", multipart::Part::bytes(guest("powers-probe")).mime_str("application/wasm").unwrap());
    let pushed = reply(host.request_as(Some(host.key()), Method::POST, "/api/skills").multipart(form)).await;
    assert!(pushed.status.is_success(), "{}", pushed.body);
    assert_eq!(pushed.body["idempotent"], idempotent);
    let path = format!("/api/skills/{name}");
    until(async || (host.get(&path).await.body["state"] == "ready").then_some(())).await;
}

async fn counted(host: &Host, skill: &str) -> Value {
    host.run(skill, json!([["get", "n"]]), json!({})).await.body["output"][0].clone()
}

/// Waits until the run has added.
async fn added(host: &Host, skill: &str, count: &str) {
    until(async || (counted(host, skill).await == count).then_some(())).await;
}

#[tokio::test]
async fn an_interrupted_run_of_an_idempotent_skill_runs_again_and_of_another_does_not() {
    let mut host = Host::start();
    for (name, idempotent) in [("safe", true), ("other", false)] {
        push(&host, name, idempotent).await;
    }
    let safe = submit(&host, "safe", slow()).await;
    let other = submit(&host, "other", slow()).await;
    added(&host, "safe", "1").await;
    added(&host, "other", "1").await;
    assert_eq!(look(&host, &safe).await["status"], "running");
    host.kill_and_restart();
    let interrupted = look(&host, &other).await;
    assert_eq!((&interrupted["status"], &interrupted["error"]["code"]), (&json!("error"), &json!("interrupted")));
    let again = once(&host, &safe, "success").await;
    assert_eq!(again["attempts"], 2);
    assert_eq!(again["earlierAttempts"][0]["code"], "interrupted");
    assert_eq!((counted(&host, "safe").await, counted(&host, "other").await), (json!("2"), json!("1")));
    // It has ended, and a crash changes nothing about that.
    host.kill_and_restart();
    assert_eq!(look(&host, &safe).await["status"], "success");
    assert_eq!(counted(&host, "safe").await, "2");
}

#[tokio::test]
async fn a_synchronous_run_begins_again_only_where_its_caller_may_come_back_for_it() {
    let mut host = Host::start();
    push(&host, "safe", true).await;
    let body = json!({ "skillId": "safe", "args": slow() }).to_string();
    let send = |host: &Host, word: Option<&str>| {
        let request = host.request_as(Some(host.key()), Method::POST, RUN).body(body.clone());
        word.map_or_else(
            || request.try_clone().unwrap(),
            |word| request.try_clone().unwrap().header("idempotency-key", word),
        )
    };
    let calls = [None, Some("w")].map(|word| tokio::spawn(send(&host, word).send()));
    added(&host, "safe", "2").await;
    let running = host.get(&format!("{RUN}?status=running")).await.body["total"].clone();
    assert_eq!(running, 2);
    host.kill_and_restart();
    for call in calls {
        assert!(call.await.unwrap().is_err(), "the host is gone");
    }
    // Who comes back with the same word awaits the run that began again.
    let back = reply(send(&host, Some("w"))).await;
    assert_eq!((&back.body["status"], &back.body["attempts"]), (&json!("success"), &json!(2)), "{}", back.body);
    let interrupted = host.get(&format!("{RUN}?status=error")).await.body;
    assert_eq!((&interrupted["total"], &interrupted["executions"][0]["attempts"]), (&json!(1), &json!(1)));
    assert_eq!(counted(&host, "safe").await, "3");
}

#[tokio::test]
async fn what_crash_after_crash_interrupts_is_given_up() {
    let mut host = Host::start();
    push(&host, "safe", true).await;
    let id = submit(&host, "safe", json!([["add", "n", 1], ["spin"]])).await;
    for count in ["1", "2", "3"] {
        added(&host, "safe", count).await;
        host.kill_and_restart();
    }
    let ended = look(&host, &id).await;
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("error"), &json!("interrupted")), "{ended}");
    assert_eq!((&ended["attempts"], counted(&host, "safe").await), (&json!(3), json!("3")));
}
