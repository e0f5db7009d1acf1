use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, Reply, command, reply, run, until};

/// A key of `team` with these ceilings: its secret.
async fn key(host: &Host, rest: Value) -> String {
    let mut body = json!({ "name": "k", "owner": "team" });
    for (name, value) in rest.as_object().unwrap() {
        body[name] = value.clone();
    }
    let made = host.send(Method::POST, "/api/keys", body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.body["secret"].as_str().unwrap().to_owned()
}

async fn send(host: &Host, key: &str, method: Method, path: &str, body: Value) -> Reply {
    let request = host.request_as(Some(key), method, path).header("content-type", "application/json");
    reply(if body.is_null() { request } else { request.body(body.to_string()) }).await
}

async fn execute(host: &Host, key: &str, body: Value) -> Reply {
    send(host, key, Method::POST, "/api/skills/executions", body).await
}

/// A host with these skills for everybody.
async fn host(skills: &[&str], arguments: &[&str]) -> Host {
    let host = Host::start_with(arguments);
    for name in skills {
        let path = format!("/api/skills?name={name}&version=1.0.0&owner=system");
        let request = host.request_as(Some(host.key()), Method::POST, &path).header("content-type", "application/wasm");
        let pushed = reply(request.body(crate::support::guest(name))).await;
        assert!(pushed.status.is_success(), "{}", pushed.body);
        let path = format!("/api/skills/{}", pushed.body["id"].as_str().unwrap());
        until(async || (host.get(&path).await.body["state"] == "ready").then_some(())).await;
    }
    host
}

#[tokio::test]
async fn usage_tells_outcomes_storage_and_budgets_also_after_a_kill_and_as_a_command() {
    let mut host = host(&["hello", "trap"], &[]).await;
    let key = key(
        &host,
        json!({ "ceilings": { "budgets": { "fuelPerDay": 1_000_000_000 }, "storage": { "resultBytes": 5000 } } }),
    )
    .await;
    let mut fuel = 0;
    for _ in 0..3 {
        let ran = execute(&host, &key, json!({ "skillId": "hello", "args": { "name": "Ada" } })).await;
        fuel += ran.body["usage"]["fuel"].as_u64().unwrap();
    }
    let trapped = execute(&host, &key, json!({ "skillId": "trap", "args": { "kind": "unreachable" } })).await;
    assert_eq!(trapped.body["error"]["code"], "trap");
    fuel += trapped.body["usage"]["fuel"].as_u64().unwrap();
    let usage = async |host: &Host, key: &str, query: &str| {
        let told = send(host, key, Method::GET, &format!("/api/usage{query}"), Value::Null).await;
        assert_eq!(told.status, 200, "{}", told.body);
        told.body
    };
    let before = usage(&host, &key, "").await;
    assert_eq!(before["total"]["outcomes"], json!({ "success": 3, "trap": 1 }));
    assert_eq!((&before["total"]["executions"], &before["total"]["fuel"]), (&json!(4), &json!(fuel)));
    assert!(before["total"]["durationMs"].as_f64().unwrap() >= before["total"]["longestMs"].as_f64().unwrap());
    assert_eq!(before["days"].as_array().unwrap().len(), 1);
    let kept = &before["storage"]["resultBytes"];
    assert!(kept["used"].as_u64().unwrap() > 0 && kept["limit"] == 5000, "{kept}");
    assert_eq!(before["budgets"][0]["fuelPerDay"], json!({ "used": fuel, "limit": 1_000_000_000 }));
    host.kill_and_restart();
    assert_eq!(usage(&host, &key, "").await, before);
    // An admin key sees any owner's; another owner's key, and one without the scope, sees none.
    let seen = usage(&host, host.key(), "?owner=team").await;
    assert_eq!(seen["total"], before["total"]);
    assert_eq!(usage(&host, host.key(), "").await["total"]["executions"], 0);
    let foreign = send(&host, &key, Method::GET, "/api/usage?owner=admin", Value::Null).await;
    assert_eq!(foreign.summary(), "403 forbidden");
    let blind = self::key(&host, json!({ "scopes": ["skills:execute"] })).await;
    let refused = send(&host, &blind, Method::GET, "/api/usage", Value::Null).await;
    assert_eq!(refused.summary(), "403 insufficient_scope");
    for wrong in ["?since=yesterday", "?since=2026-02-02&until=2026-02-01", "?since=2000-01-01", "?day=1"] {
        let refused = send(&host, &key, Method::GET, &format!("/api/usage{wrong}"), Value::Null).await;
        assert_eq!(refused.summary(), "400 malformed", "{wrong}");
    }
    let data = host.dir.path().join("data");
    let told = run(&mut command(&data, &["usage", "--owner", "team"])).expect(0);
    assert!(told.stdout.contains("3 success, 1 trap"), "{}", told.stdout);
    assert_eq!(
        run(&mut command(&data, &["usage", "--owner", "team", "--json"])).expect(0).json()["total"],
        before["total"]
    );
}

#[tokio::test]
async fn a_full_quota_of_results_refuses_what_would_begin_until_the_oldest_are_forgotten() {
    let mut host = host(&["echo"], &["--retention-results", "4s"]).await;
    let key = key(&host, json!({ "ceilings": { "storage": { "resultBytes": 3000 } } })).await;
    let body = json!({ "skillId": "echo", "args": "x".repeat(2000) });
    // What begins below the quota goes on to its end, and keeps what it says.
    for _ in 0..2 {
        assert_eq!(execute(&host, &key, body.clone()).await.body["status"], "success");
    }
    let refused = execute(&host, &key, body.clone()).await;
    assert_eq!(refused.summary(), "507 storage_full");
    assert!(refused.body["detail"].as_str().unwrap().contains("ceilings.storage.resultBytes"), "{}", refused.body);
    let queued = json!({ "skillId": "echo", "args": "x", "mode": "async" });
    assert_eq!(execute(&host, &key, queued).await.summary(), "507 storage_full");
    let total = send(&host, &key, Method::GET, "/api/skills/executions", Value::Null).await.body["total"].clone();
    assert_eq!(total, 2, "nothing was started");
    // Another key of the same owner without the ceiling is not held back, and what it keeps counts.
    let free = self::key(&host, json!({})).await;
    assert_eq!(execute(&host, &free, json!({ "skillId": "echo", "args": "x" })).await.body["status"], "success");
    host.kill_and_restart();
    // Whichever comes first: the quota holds over the restart, and ends when the results do.
    let after = execute(&host, &key, body.clone()).await;
    assert!(after.summary() == "507 storage_full" || after.body["status"] == "success", "{}", after.body);
    until(async || (execute(&host, &key, body.clone()).await.status == 200).then_some(())).await;
}

#[tokio::test]
async fn who_asks_for_more_than_the_ceilings_allow_is_told_what_the_run_got() {
    let host = host(&["hello"], &[]).await;
    let key = key(&host, json!({})).await;
    let limits = json!({ "memoryMb": 300, "fuel": "unlimited", "timeoutMs": 5000 });
    let ran = execute(&host, &key, json!({ "skillId": "hello", "limits": limits })).await;
    let warnings: Vec<_> = ran.body["warnings"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].starts_with("limits.memoryMb is 256") && warnings[1].starts_with("limits.fuel is 10000000000"));
    let plain = execute(&host, &key, json!({ "skillId": "hello", "limits": { "memoryMb": 64 } })).await;
    assert!(plain.body.get("warnings").is_none(), "{}", plain.body);
    let data = host.dir.path().join("data");
    let mut told = command(&data, &["exec", "hello", "--limit", "memoryMb=300"]);
    assert!(run(told.env("SKILLVISOR_KEY", &key)).expect(0).stderr.contains("warning: limits.memoryMb is 256"));
    let gone = run(&mut command(&data, &["exec", "weather@^9"])).expect(4);
    assert!(gone.stderr.contains("no such skill: weather@^9"), "{}", gone.stderr);
}
