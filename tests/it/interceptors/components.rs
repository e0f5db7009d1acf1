use reqwest::{Method, multipart};
use serde_json::{Value, json};

use crate::support::{Host, guest, reply, until};

use super::{create, create_as, decisions, key, run};

/// Uploads a component, and gives its digest.
async fn digest(host: &Host, name: &str) -> Value {
    let uploaded = host.upload(name, guest(name)).await;
    assert!(uploaded.status.is_success(), "{}", uploaded.body);
    until(async || (host.get(&format!("/api/skills/{name}")).await.body["state"] == "ready").then_some(())).await;
    uploaded.body["digest"].clone()
}

async fn with(host: &Host, component: &str, more: Value) -> Value {
    let mut body =
        json!({ "name": "guard", "kind": "wasm", "component": digest(host, component).await, "timeoutMs": 5000 });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    create(host, body).await
}

#[tokio::test]
async fn a_component_refuses_adds_and_takes_out_what_it_looks_for() {
    let host = Host::start().with("echo").await.with("additions").await;
    with(&host, "interceptor", json!({})).await;
    let ran = run(&host, "echo", json!({ "card": "no 4111111111111111!", "year": "2026" })).await;
    assert_eq!(ran["output"], json!({ "card": "no [card]!", "year": "2026" }), "{ran}");
    assert_eq!(decisions(&ran), ["guard before continue -", "guard after replace -"]);
    let deleted = host.send(Method::DELETE, "/api/skills/interceptor@1.0.0", Value::Null).await;
    assert_eq!(deleted.summary(), "409 conflict");
    let refused = run(&host, "echo", json!({ "a": "bluebird" })).await;
    assert_eq!(refused["error"]["code"], "rejected");
    let message = "the interceptor `guard` refused: the arguments name a project that is not public";
    assert_eq!(refused["error"]["message"], message);
    assert_eq!(run(&host, "additions", json!({})).await["output"], json!({ "checked": true }));
}

#[tokio::test]
async fn what_a_component_does_instead_of_answering_refuses_the_run_and_is_named() {
    let host = Host::start().with("echo").await;
    let made = with(&host, "interceptor-hostile", json!({ "timeoutMs": 1500 })).await;
    for (way, problem) in [
        ("trap", "trap"),
        ("loop", "out_of_fuel"),
        ("grow", "out_of_memory"),
        ("garbage", "invalid_answer"),
        ("flood", "output_too_large"),
        ("error", "skill_error"),
        ("twice", "invalid_answer"),
    ] {
        for phase in ["before", "after"] {
            let ran = run(&host, "echo", json!({ "intercept": way, "phase": phase })).await;
            assert_eq!((&ran["status"], &ran["error"]["code"]), (&json!("error"), &json!("rejected")), "{way}: {ran}");
            assert_eq!(ran["output"], Value::Null, "{way}");
            let all = decisions(&ran);
            // A machine with much else to do may not come to the end of the fuel in time.
            if way == "flood" {
                let full = ["output_too_large", "out_of_memory"];
                assert!(full.iter().any(|full| all.contains(&format!("guard {phase} failed {full}"))), "{all:?}");
                continue;
            }
            let is_named = |problem: &str| all.contains(&format!("guard {phase} failed {problem}"));
            assert!(is_named(problem) || way == "loop" && is_named("timeout"), "{way} {phase}: {all:?}");
            assert!(!ran.to_string().contains("hunter2"));
        }
    }
    let answer = json!({ "action": "answer" });
    for (args, status, output) in [
        (json!({ "intercept": "args", "phase": "before", "args": { "b": 2 } }), "success", json!({ "b": 2 })),
        (json!({ "intercept": "answer", "phase": "before", "output": answer }), "success", answer.clone()),
        (json!({ "intercept": "output", "phase": "after", "output": [1] }), "success", json!([1])),
        (json!({ "intercept": "reject", "phase": "after", "reason": "no" }), "error", Value::Null),
        (json!({ "intercept": "answer", "phase": "after", "output": 1 }), "error", Value::Null),
    ] {
        let ran = run(&host, "echo", args.clone()).await;
        assert_eq!((&ran["status"], &ran["output"]), (&json!(status), &output), "{args}: {ran}");
    }
    let id = made["id"].as_str().unwrap();
    host.send(Method::PATCH, &format!("/api/interceptors/{id}"), json!({ "optional": true })).await;
    for phase in ["before", "after"] {
        let ran = run(&host, "echo", json!({ "intercept": "trap", "phase": phase })).await;
        assert_eq!(ran["status"], "success", "{ran}");
        assert!(decisions(&ran).contains(&format!("guard {phase} skipped trap")), "{ran}");
    }
}

#[tokio::test]
async fn only_a_component_of_the_owner_that_is_an_interceptor_can_be_one() {
    let host = Host::start().with("echo").await;
    let echo = host.get("/api/skills/echo").await.body["digest"].clone();
    let body = |digest: &Value| json!({ "name": "g", "kind": "wasm", "component": digest });
    assert_eq!(create_as(&host, host.key(), body(&echo)).await.summary(), "422 invalid_component");
    let guard = digest(&host, "interceptor").await;
    let stranger = key(&host, "ann", &[]).await;
    let foreign = create_as(&host, &stranger, body(&guard)).await;
    let absent = create_as(&host, &stranger, body(&json!(format!("sha256:{}", "0".repeat(64))))).await;
    assert_eq!(foreign.summary(), "422 unknown_component");
    assert_eq!(foreign.body, absent.body);
}

#[tokio::test]
async fn changed_arguments_are_checked_again_and_outputs_against_their_schema() {
    let host = Host::start();
    let schema = json!({
        "input": { "type": "object", "properties": { "n": { "type": "integer" } } },
        "output": { "type": "object" },
    });
    let manifest = json!({ "name": "strict", "version": "1.0.0", "schema": schema });
    let form = multipart::Form::new()
        .part("manifest", multipart::Part::text(manifest.to_string()).mime_str("application/json").unwrap())
        .part("component", multipart::Part::bytes(guest("echo")).mime_str("application/wasm").unwrap());
    let pushed = reply(host.request_as(Some(host.key()), Method::POST, "/api/skills").multipart(form)).await;
    assert!(pushed.status.is_success(), "{}", pushed.body);
    with(&host, "interceptor-hostile", json!({})).await;
    let ran = run(&host, "strict", json!({ "intercept": "args", "phase": "before", "args": { "n": "x" } })).await;
    assert_eq!(ran["error"]["code"], "rejected", "{ran}");
    assert!(ran["error"]["message"].as_str().unwrap().contains("/n"), "{ran}");
    for way in [json!(["answer", "before"]), json!(["output", "after"])] {
        let ran = run(&host, "strict", json!({ "intercept": way[0], "phase": way[1], "output": 7 })).await;
        assert_eq!(ran["error"]["code"], "invalid_output", "{ran}");
    }
}
