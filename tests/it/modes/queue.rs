use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, guest, reply, until};

use super::{RUN, look, once, post, push_probe, submit};

/// A host on which one run of an owner goes on at a time.
async fn one_at_a_time(more: &[&str]) -> Host {
    let host = Host::start_with(&[&["--concurrency-per-owner", "1"], more].concat()).with("slow-host-call").await;
    push_probe(&host, json!({ "kv": true })).await;
    host
}

/// Lets a run of so many milliseconds go on, and gives its id.
async fn busy(host: &Host, ms: u64) -> String {
    let id = submit(host, "slow-host-call", json!({ "ms": ms })).await;
    once(host, &id, "running").await;
    id
}

async fn cancel(host: &Host, id: &str) -> crate::support::Reply {
    host.send(Method::POST, &format!("{RUN}/{id}/cancel"), Value::Null).await
}

/// How often `probe` has added.
async fn added(host: &Host) -> Value {
    host.run("probe", json!([["get", "n"]]), json!({})).await.body["output"][0].clone()
}

#[tokio::test]
async fn what_waits_when_the_host_is_killed_runs_once_each_and_in_its_order() {
    let mut host = one_at_a_time(&[]).await;
    let running = busy(&host, 60_000).await;
    let mut waiting = Vec::new();
    for _ in 0..20 {
        waiting.push(submit(&host, "probe", json!([["add", "n", 1]])).await);
    }
    let listed = host.get(&format!("{RUN}?status=pending&limit=100")).await.body;
    assert_eq!(listed["total"], 20);
    let listed: Vec<_> = listed["executions"].as_array().unwrap().iter().rev().map(|one| one["id"].clone()).collect();
    assert_eq!(json!(listed), json!(waiting));
    host.kill_and_restart();
    assert_eq!(once(&host, &running, "error").await["error"]["code"], "interrupted");
    for (number, id) in (1..).zip(&waiting) {
        let ran = once(&host, id, "success").await;
        assert_eq!((&ran["output"], &ran["attempts"]), (&json!([number]), &json!(1)), "{ran}");
        assert!(ran["startedAt"].as_str() >= ran["createdAt"].as_str(), "{ran}");
    }
    host.kill_and_restart();
    assert_eq!(added(&host).await, "20");
    assert_eq!(host.get(&format!("{RUN}?status=pending")).await.body["total"], 0);
}

#[tokio::test]
async fn what_is_killed_while_it_runs_and_waits_is_never_done_twice() {
    let mut host = one_at_a_time(&[]).await;
    let mut submitted = Vec::new();
    for _ in 0..3 {
        for _ in 0..15 {
            submitted.push(submit(&host, "probe", json!([["add", "n", 1]])).await);
        }
        // Some have run by now, and one may be running.
        once(&host, submitted.iter().rev().nth(10).unwrap(), "success").await;
        host.kill_and_restart();
    }
    let mut outputs = Vec::new();
    let mut interrupted = 0;
    for id in &submitted {
        let ended = until(async || Some(look(&host, id).await).filter(|one| one["finishedAt"].is_string())).await;
        match ended["status"].as_str().unwrap() {
            "success" => outputs.push(ended["output"][0].as_i64().unwrap()),
            _ => interrupted += i64::from(ended["error"]["code"] == "interrupted"),
        }
    }
    assert!(outputs.is_sorted_by(|a, b| a < b), "{outputs:?}");
    let successes = i64::try_from(outputs.len()).unwrap();
    assert!(interrupted <= 3 && successes + interrupted == 45, "{successes} and {interrupted}");
    let added: i64 = added(&host).await.as_str().unwrap().parse().unwrap();
    assert!((successes..=successes + interrupted).contains(&added), "{added}");
}

#[tokio::test]
async fn a_run_can_be_cancelled_while_it_waits_while_it_runs_and_not_after() {
    let mut host = one_at_a_time(&[]).await;
    let running = busy(&host, 60_000).await;
    let waiting = submit(&host, "probe", json!([["add", "n", 1]])).await;
    let cancelled = cancel(&host, &waiting).await;
    assert_eq!((cancelled.status.as_u16(), &cancelled.body["status"]), (200, &json!("cancelled")));
    let told = (&cancelled.body["attempts"], &cancelled.body["startedAt"], &cancelled.body["killed"]);
    assert_eq!(told, (&json!(0), &Value::Null, &json!(true)));
    assert_eq!(cancel(&host, &waiting).await.summary(), "409 already_finished");
    assert_eq!(cancel(&host, &running).await.body["status"], "cancelled");
    assert_eq!(cancel(&host, &running).await.summary(), "409 already_finished");
    host.kill_and_restart();
    assert_eq!(added(&host).await, Value::Null);
    assert_eq!(look(&host, &waiting).await["status"], "cancelled");
}

#[tokio::test]
async fn what_sync_refuses_async_refuses_too_and_keeps_nothing_of_it() {
    let host = one_at_a_time(&["--queue-per-owner", "2"]).await.with("typed").await;
    let foreign = format!("sha256:{}", "0".repeat(64));
    for (request, expected) in [
        (json!({ "skillId": "none" }), "404 not_found"),
        (json!({ "skillId": "typed#nothing" }), "404 not_found"),
        (json!({ "skillId": "probe", "digest": foreign }), "409 digest_mismatch"),
        (json!({ "skillId": "probe", "limits": { "argsBytes": 1 } }), "413 too_large"),
        (json!({ "skillId": "probe", "limits": { "timeoutMs": 0 } }), "400 malformed"),
        (json!({ "skillId": "probe", "mode": "later" }), "400 malformed"),
        (json!({ "skillId": "probe", "sessionId": "s".repeat(1000) }), "400 malformed"),
    ] {
        let mut request = request;
        if request.get("mode").is_none() {
            assert_eq!(post(&host, request.clone()).await.summary(), expected, "{request}");
            request["mode"] = json!("async");
        }
        assert_eq!(post(&host, request.clone()).await.summary(), expected, "{request}");
    }
    let key = json!({ "name": "reader", "owner": "admin", "scopes": ["skills:read", "executions:read"] });
    let key = host.send(Method::POST, "/api/keys", key).await.body["secret"].as_str().unwrap().to_owned();
    let body = json!({ "skillId": "probe", "mode": "async" }).to_string();
    let refused = reply(host.request_as(Some(&key), Method::POST, RUN).body(body)).await;
    assert_eq!(refused.summary(), "403 insufficient_scope");
    assert_eq!(host.get(RUN).await.body["total"], 0);

    let running = busy(&host, 60_000).await;
    let waiting = submit(&host, "probe", json!([])).await;
    submit(&host, "probe", json!([])).await;
    let full = post(&host, json!({ "skillId": "probe", "mode": "async" })).await;
    assert_eq!(full.summary(), "429 queue_full");
    assert_eq!(host.get(RUN).await.body["total"], 3);
    cancel(&host, &waiting).await;
    submit(&host, "probe", json!([])).await;
    cancel(&host, &running).await;
}

#[tokio::test]
async fn the_same_request_is_accepted_once_while_it_waits_after_a_kill_and_when_it_has_ended() {
    let mut host = one_at_a_time(&[]).await;
    busy(&host, 60_000).await;
    let send = async |host: &Host| {
        let body = json!({ "skillId": "probe", "args": [["add", "n", 1]], "mode": "async" }).to_string();
        let request = host.request_as(Some(host.key()), Method::POST, RUN).header("idempotency-key", "one");
        let response = request.body(body).send().await.unwrap();
        let replayed = response.headers().contains_key("idempotency-replayed");
        let (status, location) =
            (response.status().as_u16(), response.headers()["location"].to_str().unwrap().to_owned());
        let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        assert_eq!(location, format!("{RUN}/{}", body["id"].as_str().unwrap()));
        (status, replayed, body["id"].as_str().unwrap().to_owned())
    };
    let all = futures_util::future::join_all((0..10).map(|_| send(&host))).await;
    let id = all[0].2.clone();
    assert!(all.iter().all(|one| one.0 == 202 && one.2 == id), "{all:?}");
    assert_eq!(all.iter().filter(|one| !one.1).count(), 1);
    host.kill_and_restart();
    once(&host, &id, "success").await;
    assert_eq!(send(&host).await, (200, true, id));
    assert_eq!(added(&host).await, "1");
}

#[tokio::test]
async fn what_waits_runs_with_the_rights_and_the_skills_that_there_are_when_its_turn_comes() {
    let mut host = one_at_a_time(&[]).await.with("hello").await.with("echo").await;
    let made = host.send(Method::POST, "/api/keys", json!({ "name": "soon-gone", "owner": "admin" })).await.body;
    let running = busy(&host, 60_000).await;
    let body = json!({ "skillId": "probe", "args": [["add", "n", 1]], "mode": "async" }).to_string();
    let of_key = reply(host.request_as(made["secret"].as_str(), Method::POST, RUN).body(body.clone())).await;
    let of_key = of_key.body["id"].as_str().unwrap().to_owned();
    let (deleted, disabled) = (submit(&host, "hello", json!({})).await, submit(&host, "echo", json!({})).await);
    let gone = host.send(Method::DELETE, &format!("/api/keys/{}", made["id"].as_str().unwrap()), Value::Null).await;
    assert_eq!(gone.status, 204);
    assert_eq!(host.send(Method::DELETE, "/api/skills/hello@1.0.0", Value::Null).await.status, 204);
    assert_eq!(host.send(Method::PATCH, "/api/skills/echo@1.0.0", json!({ "enabled": false })).await.status, 200);
    let ends = async |host: &Host| {
        for (id, code) in [(&of_key, "denied"), (&deleted, "not_found"), (&disabled, "skill_disabled")] {
            let ended = once(host, id, "error").await;
            assert_eq!((&ended["error"]["code"], &ended["startedAt"]), (&json!(code), &Value::Null), "{ended}");
        }
    };
    host.kill_and_restart();
    ends(&host).await;
    assert_eq!(look(&host, &running).await["error"]["code"], "interrupted");
    assert_eq!(added(&host).await, Value::Null);
}

#[tokio::test]
async fn the_deadline_of_a_run_that_waited_begins_when_it_does_and_it_is_tried_again_as_others_are() {
    let host = one_at_a_time(&[]).await.with("trap").await;
    busy(&host, 1500).await;
    let trap = json!({ "skillId": "trap", "args": { "kind": "unreachable" }, "mode": "async",
                       "limits": { "timeoutMs": 1000 }, "retry": { "maxRetries": 2, "backoffMs": 1 } });
    let id = post(&host, trap).await.body["id"].as_str().unwrap().to_owned();
    let ended = once(&host, &id, "error").await;
    assert_eq!((&ended["error"]["code"], &ended["attempts"]), (&json!("trap"), &json!(3)), "{ended}");
    assert!(ended["usage"]["queueMs"].as_f64().unwrap() >= 1000.0, "{ended}");
}

#[tokio::test]
async fn a_host_that_is_stopped_lets_what_runs_end_and_leaves_what_waits_for_the_next_start() {
    let host = one_at_a_time(&[]).await;
    let running = busy(&host, 1000).await;
    let waiting = submit(&host, "probe", json!([["add", "n", 1]])).await;
    let dir = host.stop();
    let database = rusqlite::Connection::open(dir.path().join("data/skillvisor.db")).unwrap();
    let statuses = "SELECT group_concat(status) FROM (SELECT status FROM skill_executions ORDER BY id)";
    let statuses: String = database.query_row(statuses, [], |row| row.get(0)).unwrap();
    assert_eq!(statuses, "success,pending");
    drop(database);
    let host = Host::start_in(dir, &[]);
    assert_eq!(once(&host, &waiting, "success").await["output"], json!([1]));
    assert_eq!(look(&host, &running).await["status"], "success");
}

#[tokio::test]
async fn one_owner_cannot_make_the_host_hold_more_requests_than_it_has_room_for() {
    let host = one_at_a_time(&[]).await;
    assert!(host.upload("echo", guest("echo")).await.status.is_success());
    busy(&host, 60_000).await;
    let before = host.resident_mib();
    let big = json!({ "skillId": "echo", "args": "x".repeat(900_000), "mode": "async" });
    let mut accepted = 0;
    let refused = loop {
        let sent = post(&host, big.clone()).await;
        if sent.status != 202 {
            break sent;
        }
        accepted += 1;
    };
    assert_eq!(refused.summary(), "429 queue_full", "after {accepted}");
    assert!((50..100).contains(&accepted) && host.resident_mib() < before + 200, "{accepted}");
    submit(&host, "echo", json!(1)).await;
}
