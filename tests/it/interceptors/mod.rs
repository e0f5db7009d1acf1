//! Code around executions: builtin, as components, as webhooks.

/// Components.
mod components;
/// Those of a program that has the host as a library.
mod native;
/// Being told of ends.
mod outbox;
/// A server that webhooks are sent to.
mod receiver;
/// Webhooks that runs wait for.
mod webhooks;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, Reply, reply};

/// A host on which the operator opened the machine's own loopback.
fn open_host() -> Host {
    open_host_with(&[])
}

fn open_host_with(more: &[&str]) -> Host {
    let arguments: Vec<_> = ["--egress-allow-cidrs", "127.0.0.1/32"].iter().chain(more).copied().collect();
    Host::start_with(&arguments)
}

/// Makes a key that may set interceptors up, with this network ceiling.
async fn key(host: &Host, owner: &str, network: &[&str]) -> String {
    let scopes = ["skills:read", "skills:write", "skills:execute", "executions:read", "interceptors:write"];
    let body = json!({ "name": "k", "owner": owner, "scopes": scopes, "ceilings": { "network": network } });
    let made = host.send(Method::POST, "/api/keys", body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.body["secret"].as_str().unwrap().to_owned()
}

async fn create_as(host: &Host, key: &str, body: Value) -> Reply {
    reply(host.request_as(Some(key), Method::POST, "/api/interceptors").body(body.to_string())).await
}

/// Sets an interceptor up, and gives it.
async fn create(host: &Host, body: Value) -> Value {
    let made = create_as(host, host.key(), body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.body
}

async fn run_as(host: &Host, key: &str, skill: &str, args: Value) -> Value {
    let body = json!({ "skillId": skill, "args": args });
    let ran = reply(host.request_as(Some(key), Method::POST, "/api/skills/executions").body(body.to_string())).await;
    assert_eq!(ran.status, 200, "{}", ran.body);
    ran.body
}

async fn run(host: &Host, skill: &str, args: Value) -> Value {
    run_as(host, host.key(), skill, args).await
}

/// What each interceptor did: name, phase, action and problem.
fn decisions(execution: &Value) -> Vec<String> {
    let all = execution["interceptors"].as_array().map(Vec::as_slice).unwrap_or_default();
    let word = |one: &Value, name: &str| one[name].as_str().unwrap_or("-").to_owned();
    let line = |one: &Value| ["name", "phase", "action", "problem"].map(|name| word(one, name)).join(" ");
    all.iter().map(line).collect()
}

#[tokio::test]
async fn builtin_ones_refuse_arguments_and_take_secrets_out_of_what_comes_out() {
    let host = Host::start().with("echo").await;
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let plain = run(&host, "echo", json!({ "t": token })).await;
    assert_eq!((&plain["output"]["t"], &plain["interceptors"]), (&json!(token), &Value::Null));
    create(&host, json!({ "name": "clean", "kind": "builtin", "builtin": "redaction", "config": { "patterns": ["canary-[0-9]+"] } })).await;
    create(
        &host,
        json!({ "name": "small", "kind": "builtin", "builtin": "argument-policy", "config": { "maxDepth": 2 } }),
    )
    .await;
    create(&host, json!({ "name": "log", "kind": "builtin", "builtin": "structured-log", "global": true })).await;
    let ran = run(&host, "echo", json!({ "t": token, "n": 12345678901234567890_u64, "c": ["canary-17"] })).await;
    assert_eq!(ran["output"], json!({ "t": "[redacted]", "n": 12345678901234567890_u64, "c": ["[redacted]"] }));
    assert_eq!(decisions(&ran), ["clean after replace -"]);
    let deep = run(&host, "echo", json!({ "a": [[1]] })).await;
    assert_eq!((&deep["status"], &deep["error"]["code"]), (&json!("error"), &json!("rejected")), "{deep}");
    assert!(deep["error"]["message"].as_str().unwrap().contains("`small` refused: the arguments are nested"), "{deep}");
    assert_eq!(decisions(&deep), ["small before reject -"]);
    let id = deep["id"].as_str().unwrap();
    let record = host.get(&format!("/api/skills/executions/{id}")).await.body;
    assert_eq!(record["interceptors"], deep["interceptors"], "the record has what the reply had");
    assert!(host.log().contains("An execution comes to its end") && !host.log().contains("canary-17"));
}

#[tokio::test]
async fn who_may_set_them_up_and_around_whose_runs_they_stand() {
    let host = Host::start().with("echo").await;
    let (ann, bob) = (key(&host, "ann", &[]).await, key(&host, "bob", &[]).await);
    for owner in [&ann, &bob] {
        let upload = host.request_as(Some(owner), Method::POST, "/api/skills?name=own&version=1.0.0");
        let upload = upload.header("content-type", "application/wasm").body(crate::support::guest("echo"));
        assert!(reply(upload).await.status.is_success());
    }
    let policy = json!({ "name": "p", "kind": "builtin", "builtin": "argument-policy", "config": { "maxBytes": 2 } });
    let made = create_as(&host, &ann, policy.clone()).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(create_as(&host, &ann, policy.clone()).await.summary(), "409 conflict");
    let (id, args) = (made.body["id"].as_str().unwrap(), json!({ "long": true }));
    assert_eq!(run_as(&host, &ann, "own", args.clone()).await["error"]["code"], "rejected");
    assert_eq!(run_as(&host, &bob, "own", args.clone()).await["status"], "success");
    // A foreign one and one that is not there are the same.
    let path = format!("/api/interceptors/{id}");
    let none = "/api/interceptors/0198c0de-0000-7000-8000-000000000000".to_owned();
    for method in [Method::GET, Method::PATCH, Method::DELETE] {
        let mut texts = Vec::new();
        for path in [&path, &none] {
            let request = host.request_as(Some(&bob), method.clone(), path).body("{}");
            let foreign = reply(request).await;
            assert_eq!(foreign.summary(), "404 not_found", "{method}");
            texts.push(foreign.body["detail"].clone());
        }
        assert_eq!(texts[0], texts[1]);
    }
    let list = reply(host.request_as(Some(&bob), Method::GET, "/api/interceptors")).await;
    assert_eq!(list.body["total"], 0);
    let mut global = policy.clone();
    global["global"] = true.into();
    assert_eq!(create_as(&host, &bob, global.clone()).await.summary(), "403 forbidden");
    let foreign =
        reply(host.request_as(Some(&bob), Method::POST, "/api/interceptors?owner=ann").body(policy.to_string()));
    assert_eq!(foreign.await.summary(), "403 forbidden");
    let weak = host.send(Method::POST, "/api/keys", json!({ "name": "w" })).await.body["secret"].clone();
    let weak = weak.as_str().unwrap();
    assert_eq!(create_as(&host, weak, policy.clone()).await.summary(), "403 insufficient_scope");
    let off = host.send(Method::PATCH, &path, json!({ "enabled": false })).await;
    assert_eq!((off.status.as_u16(), &off.body["enabled"]), (200, &json!(false)));
    assert_eq!(run_as(&host, &ann, "own", args.clone()).await["status"], "success");
    create(&host, global).await;
    assert_eq!(run_as(&host, &bob, "own", args.clone()).await["error"]["code"], "rejected");
    for bad in [
        json!({ "name": "b", "kind": "builtin", "builtin": "nonsense" }),
        json!({ "name": "b", "kind": "builtin", "builtin": "redaction", "url": "https://a.example/" }),
        json!({ "name": "b", "kind": "builtin", "builtin": "redaction", "timeoutMs": 0 }),
        json!({ "name": "b", "kind": "builtin", "builtin": "redaction", "phases": [] }),
        json!({ "name": "b", "kind": "builtin", "builtin": "redaction", "blocking": false }),
        json!({ "name": "B!", "kind": "builtin", "builtin": "redaction" }),
        json!({ "name": "b", "kind": "webhook" }),
        json!({ "name": "b", "kind": "wasm" }),
    ] {
        assert_eq!(create_as(&host, host.key(), bad.clone()).await.summary(), "422 invalid_args", "{bad}");
    }
}

#[tokio::test]
async fn they_hold_from_the_start_on_and_one_that_cannot_be_read_refuses() {
    let mut host = Host::start().with("echo").await;
    let policy = json!({ "name": "p", "kind": "builtin", "builtin": "argument-policy", "config": { "maxBytes": 2 } });
    create(&host, policy).await;
    host.kill_and_restart();
    let args = json!({ "long": true });
    assert_eq!(decisions(&run(&host, "echo", args.clone()).await), ["p before reject -"]);
    let dir = host.kill();
    let db = rusqlite::Connection::open(dir.path().join("data/skillvisor.db")).unwrap();
    db.execute("UPDATE interceptors SET record = '{'", []).unwrap();
    drop(db);
    let host = Host::start_in(dir, &[]);
    let ran = run(&host, "echo", json!({})).await;
    assert_eq!((&ran["error"]["code"], &ran["output"]), (&json!("rejected"), &Value::Null), "{ran}");
    assert!(decisions(&ran).contains(&"p before failed failed".to_owned()), "{ran}");
}

#[tokio::test]
async fn the_command_line_sets_them_up_and_takes_them_away() {
    use crate::support::{command, run};
    let host = Host::start();
    let dir = host.dir.path().join("data");
    let config = r#"{"maxBytes":9}"#;
    let create =
        ["interceptors", "create", "p", "--kind", "builtin", "--builtin", "argument-policy", "--settings", config];
    let made = run(&mut command(&dir, &[&create[..], &["--order", "-3", "--json"]].concat())).expect(0).json();
    assert_eq!((&made["order"], &made["config"]["maxBytes"]), (&json!(-3), &json!(9)));
    let changed = ["interceptors", "change", "p", "--optional", "--timeout", "50", "--json"];
    let changed = run(&mut command(&dir, &changed)).expect(0).json();
    assert_eq!((&changed["optional"], &changed["timeoutMs"]), (&json!(true), &json!(50)));
    let list = run(&mut command(&dir, &["interceptors", "list"])).expect(0).stdout;
    assert!(list.contains("argument-policy") || list.contains("builtin"), "{list}");
    run(&mut command(&dir, &["interceptors", "show", "p"])).expect(0);
    run(&mut command(&dir, &["interceptors", "delete", "p"])).expect(0);
    run(&mut command(&dir, &["interceptors", "show", "p"])).expect(4);
}
