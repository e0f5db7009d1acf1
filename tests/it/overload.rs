use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::support::{Host, Reply, guest, reply, until};

/// A new key of the owner of the skills: its secret.
async fn key(host: &Host, ceilings: Value) -> String {
    let body = json!({ "name": "k", "owner": "admin", "ceilings": ceilings });
    let made = host.send(Method::POST, "/api/keys", body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.body["secret"].as_str().unwrap().to_owned()
}

/// The answer to a run, with its headers.
async fn answer(host: &Host, key: &str, skill: &str) -> Response {
    let body = json!({ "skillId": skill, "args": {} }).to_string();
    host.request_as(Some(key), Method::POST, "/api/skills/executions").body(body).send().await.unwrap()
}

async fn run(host: &Host, key: &str, body: Value) -> Reply {
    reply(host.request_as(Some(key), Method::POST, "/api/skills/executions").body(body.to_string())).await
}

#[track_caller]
fn header<'a>(answer: &'a Response, name: &str) -> &'a str {
    answer.headers().get(name).unwrap().to_str().unwrap()
}

#[tokio::test]
async fn a_key_starts_as_many_runs_a_minute_as_its_rate_and_hears_how_many_are_left() {
    let host = Host::start().with("echo").await;
    let key = key(&host, json!({ "rates": { "executionsPerMinute": 1 } })).await;
    // What does not become a run for another reason takes nothing.
    let unknown = answer(&host, &key, "nothing").await;
    assert_eq!((unknown.status().as_u16(), header(&unknown, "ratelimit")), (404, "\"executions\";r=1"));
    let first = answer(&host, &key, "echo").await;
    assert_eq!((first.status().as_u16(), header(&first, "ratelimit-policy")), (200, "\"executions\";q=1;w=60"));
    assert!(header(&first, "ratelimit").starts_with("\"executions\";r=0;t="), "{:?}", first.headers());

    let second = answer(&host, &key, "echo").await;
    assert_eq!(second.status(), 429);
    let wait: u32 = header(&second, "retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(header(&second, "ratelimit-policy"), "\"executions\";q=1;w=60");
    assert_eq!(second.json::<Value>().await.unwrap()["code"], "rate_limited");
    assert_eq!(host.get("/api/skills/executions").await.body["total"], 1);

    let free = answer(&host, host.key(), "echo").await;
    assert_eq!((free.status().as_u16(), free.headers().get("ratelimit")), (200, None));
}

#[tokio::test]
async fn a_days_executions_are_counted_also_across_a_kill() {
    let mut host = Host::start().with("echo").await;
    let key = key(&host, json!({ "budgets": { "executionsPerDay": 2 } })).await;
    assert_eq!(answer(&host, &key, "echo").await.status(), 200);
    host.kill_and_restart();
    assert_eq!(answer(&host, &key, "echo").await.status(), 200);
    for _ in 0..2 {
        let refused = answer(&host, &key, "echo").await;
        assert_eq!(refused.status(), 429);
        let wait: u32 = header(&refused, "retry-after").parse().unwrap();
        assert!((1..=86_400).contains(&wait), "{wait}");
        assert_eq!(refused.json::<Value>().await.unwrap()["code"], "budget_exhausted");
        host.kill_and_restart();
    }
    assert_eq!(answer(&host, host.key(), "echo").await.status(), 200);
}

#[tokio::test]
async fn a_days_fuel_is_used_to_the_last_unit_and_no_further() {
    let mut host = Host::start().with("spin").await;
    let key = key(&host, json!({ "budgets": { "fuelPerDay": 30_000_000 } })).await;
    let spin = |fuel: Value| json!({ "skillId": "spin", "args": {}, "limits": { "fuel": fuel } });
    let first = run(&host, &key, spin(json!(20_000_000))).await;
    assert_eq!(first.body["error"]["code"], "out_of_fuel", "{}", first.body);
    assert_eq!(first.body["usage"]["fuel"], 20_000_000);
    host.kill_and_restart();
    // Without an end means what is left.
    let second = run(&host, &key, spin(json!("unlimited"))).await;
    assert_eq!(second.body["error"]["code"], "out_of_fuel", "{}", second.body);
    assert_eq!(second.body["usage"]["fuel"], 10_000_000);
    assert_eq!(run(&host, &key, spin(json!(1))).await.summary(), "429 budget_exhausted");
}

/// Submits a run that nobody waits for, and gives its id.
async fn submit(host: &Host, key: &str, mut body: Value) -> String {
    body["mode"] = json!("async");
    let sent = run(host, key, body).await;
    assert_eq!(sent.status, 202, "{}", sent.body);
    sent.body["id"].as_str().unwrap().to_owned()
}

/// A run once it has ended.
async fn ended(host: &Host, id: &str) -> Value {
    let path = format!("/api/skills/executions/{id}");
    until(async || Some(host.get(&path).await.body).filter(|run| run["finishedAt"].is_string())).await
}

#[tokio::test]
async fn a_run_that_nobody_waits_for_counts_for_the_rate_when_it_is_accepted() {
    let host = Host::start().with("echo").await;
    let key = key(&host, json!({ "rates": { "executionsPerMinute": 1 } })).await;
    let send = async || {
        let body = json!({ "skillId": "echo", "args": {}, "mode": "async" }).to_string();
        let request = host.request_as(Some(&key), Method::POST, "/api/skills/executions");
        request.header("idempotency-key", "one").body(body).send().await.unwrap()
    };
    // What is known already takes nothing.
    for _ in 0..2 {
        let accepted = send().await;
        assert!(accepted.status().is_success(), "{accepted:?}");
        assert!(header(&accepted, "ratelimit").starts_with("\"executions\";r=0;t="), "{:?}", accepted.headers());
    }
    let second = run(&host, &key, json!({ "skillId": "echo", "args": {}, "mode": "async" })).await;
    assert_eq!(second.summary(), "429 rate_limited");
    assert_eq!(host.get("/api/skills/executions").await.body["total"], 1);
}

#[tokio::test]
async fn what_waits_counts_for_the_day_when_it_begins_also_across_a_kill() {
    let mut host = Host::start_with(&["--concurrency-per-owner", "1"]).with("slow-host-call").await.with("echo").await;
    let key = key(&host, json!({ "budgets": { "executionsPerDay": 2 } })).await;
    let running = submit(&host, &key, json!({ "skillId": "slow-host-call", "args": { "ms": 60_000 } })).await;
    let path = format!("/api/skills/executions/{running}");
    until(async || (host.get(&path).await.body["status"] == "running").then_some(())).await;
    let (second, third) = (json!({ "skillId": "echo", "args": 2 }), json!({ "skillId": "echo", "args": 3 }));
    let (second, third) = (submit(&host, &key, second).await, submit(&host, &key, third).await);
    host.kill_and_restart();
    assert_eq!(ended(&host, &running).await["error"]["code"], "interrupted");
    assert_eq!(ended(&host, &second).await["output"], 2);
    let third = ended(&host, &third).await;
    assert_eq!((&third["error"]["code"], &third["startedAt"]), (&json!("budget_exhausted"), &Value::Null), "{third}");
    host.kill_and_restart();
    assert_eq!(answer(&host, &key, "echo").await.status(), 429);
}

#[tokio::test]
async fn what_nobody_waits_for_waits_also_for_fuel_that_others_of_its_key_may_give_back() {
    let host = Host::start().with("echo").await.with("slow-host-call").await;
    let key = key(&host, json!({ "budgets": { "fuelPerDay": 1_000_000_000 } })).await;
    let all = json!({ "fuel": "unlimited" });
    let slow = json!({ "skillId": "slow-host-call", "args": { "ms": 60_000 }, "limits": all });
    let slow = submit(&host, &key, slow).await;
    let path = format!("/api/skills/executions/{slow}");
    until(async || (host.get(&path).await.body["status"] == "running").then_some(())).await;
    let echo = json!({ "skillId": "echo", "args": 1, "limits": all });
    assert_eq!(run(&host, &key, echo.clone()).await.summary(), "429 budget_exhausted");
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(submit(&host, &key, echo.clone()).await);
    }
    // They are in nobody's way.
    assert_eq!(answer(&host, host.key(), "echo").await.status(), 200);
    for id in &waiting {
        let path = format!("/api/skills/executions/{id}");
        assert_eq!(host.get(&path).await.body["status"], "pending");
    }
    assert_eq!(host.send(Method::POST, &format!("{path}/cancel"), Value::Null).await.status, 200);
    for id in &waiting {
        assert_eq!(ended(&host, id).await["output"], 1);
    }
}

/// Uploads a component as a skill with the key.
async fn upload(host: &Host, key: &str, name: &str, bytes: Vec<u8>) -> Reply {
    let path = format!("/api/skills?name={name}&version=1.0.0");
    let request = host.request_as(Some(key), Method::POST, &path).header("content-type", "application/wasm");
    reply(request.body(bytes)).await
}

#[tokio::test]
async fn an_owner_has_as_many_skills_and_bytes_of_components_as_the_key_that_registers_says() {
    let host = Host::start();
    let echo = guest("echo");
    let few = key(&host, json!({ "storage": { "skills": 2 } })).await;
    let small = key(&host, json!({ "storage": { "componentBytes": echo.len() + 10 } })).await;
    assert!(upload(&host, &few, "one", echo.clone()).await.status.is_success());
    // Bytes that are there already are not there twice.
    assert!(upload(&host, &small, "two", echo.clone()).await.status.is_success());
    assert_eq!(upload(&host, &few, "three", echo.clone()).await.summary(), "507 storage_full");
    let other = upload(&host, &small, "three", guest("spin")).await;
    assert_eq!(other.summary(), "507 storage_full");
    assert!(other.body["detail"].as_str().unwrap().contains("componentBytes"), "{}", other.body);
    assert_eq!(host.get("/api/skills").await.body["total"], 2);
    // The same again is no change, and what is deleted makes room.
    assert!(upload(&host, &few, "one", echo.clone()).await.status.is_success());
    for name in ["one", "two"] {
        let deleted = host.send(Method::DELETE, &format!("/api/skills/{name}@1.0.0"), Value::Null).await;
        assert_eq!(deleted.status, 204, "{}", deleted.body);
    }
    let bytes = guest("spin");
    let room = key(&host, json!({ "storage": { "componentBytes": bytes.len() } })).await;
    assert!(upload(&host, &room, "three", bytes).await.status.is_success());
}
