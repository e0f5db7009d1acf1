use reqwest::Method;
use serde_json::{Value, json};

use super::{new_key, send, texts, version};
use crate::support::{Host, command, run, until};

/// Runs a skill and says what ran, or why nothing did.
async fn ran(host: &Host, skill: &str) -> String {
    let run = host.run(skill, json!({}), json!({})).await;
    run.body["skillId"].as_str().map_or_else(|| run.summary(), str::to_owned)
}

fn waits(skill: &Value) -> bool {
    skill["approval"] == "pending"
}

#[tokio::test]
async fn a_version_that_may_do_more_waits_until_somebody_accepts_it_and_callers_stay_with_the_one_before() {
    let mut host = Host::start_with(&["--approval", "required"]);
    assert!(!waits(&version(&host, host.key(), "1.0.0", json!({})).await));
    let grown = version(&host, host.key(), "1.1.0", json!({ "kv": true })).await;
    assert!(waits(&grown));
    assert_eq!(grown["warnings"], json!(["it may keep values, which 1.0.0 might not"]));
    assert_eq!(ran(&host, "echo").await, "echo@1.0.0");
    assert_eq!(ran(&host, "echo@^1").await, "echo@1.0.0");
    host.kill_and_restart();
    assert_eq!(ran(&host, "echo@1.1.0").await, "409 approval_required");
    let id = grown["id"].as_str().unwrap();
    assert_eq!(ran(&host, id).await, "409 approval_required");
    let alias = host.send(Method::PUT, "/api/skills/echo/aliases/stable", json!({ "version": "1.1.0" })).await;
    assert_eq!(alias.summary(), "409 approval_required");
    let enabled = host.send(Method::PATCH, "/api/skills/echo@1.1.0", json!({ "enabled": true })).await;
    assert!(waits(&enabled.body));

    let difference = host.get("/api/skills/echo@1.1.0/diff").await.body;
    assert_eq!((&difference["from"], &difference["approval"]), (&json!("echo@1.0.0"), &json!("pending")));
    assert_eq!(texts(&difference["changes"], "path"), ["/grants/kv"]);
    assert_eq!(host.send(Method::POST, "/api/skills/echo/approve", Value::Null).await.summary(), "400 malformed");
    let approved = host.send(Method::POST, &format!("/api/skills/{id}/approve"), Value::Null).await.body;
    assert_eq!(approved["approval"], "approved");
    assert!(approved["approvedBy"].is_string() && approved["approvedAt"].is_string());
    assert_eq!(ran(&host, "echo").await, "echo@1.1.0");
    assert!(!waits(&version(&host, host.key(), "1.1.1", json!({ "kv": true })).await), "no more than was accepted");
    host.kill_and_restart();
    until(async || (ran(&host, "echo@1.1.0").await == "echo@1.1.0").then_some(())).await;
}

#[tokio::test]
async fn what_nobody_accepted_is_no_measure_for_the_next_version() {
    let host = Host::start_with(&["--approval", "required"]);
    let grants = || json!({ "kv": true });
    assert!(waits(&version(&host, host.key(), "1.0.0", grants()).await), "the first version with grants");
    assert!(waits(&version(&host, host.key(), "1.0.1", grants()).await));
    assert!(waits(&version(&host, host.key(), "0.9.0", grants()).await));
    assert!(!waits(&version(&host, host.key(), "0.8.0", json!({})).await));
    assert_eq!(ran(&host, "echo").await, "echo@0.8.0");
}

#[tokio::test]
async fn a_version_that_comes_back_under_wider_ceilings_has_to_be_accepted_again() {
    let host = Host::start_with(&["--approval", "required"]);
    let narrow = new_key(&host, json!({ "name": "n", "owner": "team" })).await;
    let wide = json!({ "name": "w", "owner": "team", "ceilings": { "network": ["public"] } });
    let wide = new_key(&host, wide).await;
    let grants = || json!({ "network": ["https://a.example"] });
    version(&host, &narrow, "1.0.0", grants()).await;
    let id = version(&host, &narrow, "1.1.0", grants()).await["id"].as_str().unwrap().to_owned();
    for path in [format!("/api/skills/{id}/approve")] {
        let body = host.send(Method::POST, &path, Value::Null).await.body;
        assert_eq!(body["approval"], "approved");
    }
    let deleted = host.send(Method::DELETE, &format!("/api/skills/{id}"), Value::Null).await;
    assert_eq!(deleted.status, 204);
    assert!(waits(&version(&host, &wide, "1.1.0", grants()).await));
}

#[tokio::test]
async fn only_keys_with_the_scope_accept_and_only_for_their_owner() {
    let host = Host::start_with(&["--approval", "required"]);
    let writer = new_key(&host, json!({ "name": "w", "owner": "team" })).await;
    let scopes = json!(["skills:read", "skills:approve"]);
    let approver = new_key(&host, json!({ "name": "a", "owner": "team", "scopes": scopes })).await;
    let stranger = new_key(&host, json!({ "name": "s", "scopes": scopes })).await;
    version(&host, &writer, "1.0.0", json!({ "kv": true })).await;
    let approve = async |key: &str| {
        send(&host, key, (Method::POST, "/api/skills/echo@1.0.0/approve"), Value::Null).await.summary()
    };
    assert_eq!(approve(&writer).await, "403 insufficient_scope");
    assert_eq!(approve(&stranger).await, "404 not_found");
    assert_eq!(approve(&approver).await, "200 -");
    assert_eq!(approve(&approver).await, "200 -");
}

#[tokio::test]
async fn without_the_setting_what_grows_is_told_and_runs() {
    let host = Host::start();
    version(&host, host.key(), "1.0.0", json!({})).await;
    let grown = version(&host, host.key(), "2.0.0", json!({ "workspace": "read" })).await;
    assert_eq!(grown["approval"], "none");
    assert_eq!(grown["warnings"], json!(["it may read its owner's files, which 1.0.0 might not"]));
    assert_eq!(ran(&host, "echo").await, "echo@2.0.0");
    let data = host.dir.path().join("data");
    let on = |arguments: &[&str]| run(&mut command(&data, arguments)).expect(0);
    let page = on(&["diff", "echo", "--from", "1.0.0"]).stdout;
    assert!(page.contains("+ /grants/workspace: it may read its owner's files"), "{page}");
    assert!(on(&["diff", "echo@1.0.0"]).stdout.contains("against nothing"));
    assert!(on(&["approve", "echo@2.0.0"]).stderr.contains("needs no approval"));
    assert_eq!(host.get("/api/skills/echo/diff?from=^9").await.summary(), "404 not_found");
    assert_eq!(host.get("/api/skills/echo/diff?from=^^").await.summary(), "400 malformed");
}
