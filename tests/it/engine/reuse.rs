use reqwest::{Method, multipart};
use serde_json::{Value, json};

use crate::support::{Host, reply};

use super::{key, push, push_as, run, try_push};

fn reuse() -> Value {
    json!({ "reuse": true })
}

/// A host whose `state-leak`, which counts its runs in its memory, keeps its instances.
async fn host(arguments: &[&str]) -> Host {
    let host = Host::start_with(arguments);
    let pushed = push(&host, host.key(), "state-leak", reuse()).await;
    assert_eq!((&pushed.body["reuse"], &pushed.body["warnings"]), (&json!(true), &json!([])));
    host
}

async fn count(host: &Host, key: &str, limits: Value) -> Value {
    let ran = run(host, key, json!({ "skillId": "state-leak@1.0.0", "limits": limits })).await;
    assert_eq!(ran["status"], "success", "{ran}");
    ran["output"]["count"].clone()
}

#[tokio::test]
async fn a_kept_instance_counts_on_for_its_caller_and_each_call_is_counted_from_zero() {
    let host = host(&["--reuse-max-calls", "3"]).await;
    let mut fuel = Vec::new();
    for wanted in [1, 2, 3, 1, 2] {
        let ran = run(&host, host.key(), json!({ "skillId": "state-leak" })).await;
        assert_eq!(ran["output"]["count"], wanted, "{ran}");
        assert!(ran["usage"]["memoryPeakBytes"].as_u64().unwrap() >= 65_536, "{ran}");
        fuel.push(ran["usage"]["fuel"].as_u64().unwrap());
    }
    assert!(fuel[1] > 0 && fuel[1] <= fuel[0] && fuel[2].abs_diff(fuel[1]) < 200, "{fuel:?}");
    // Not for a call that may have less memory than it has; enough fuel for one call is enough for each.
    assert_eq!(host.outcome("state-leak", json!({}), json!({ "memoryMb": 1 })).await, "error out_of_memory");
    assert_eq!(count(&host, host.key(), json!({ "fuel": fuel[0] * 2 })).await, 3);
}

#[tokio::test]
async fn no_instance_goes_from_one_key_or_one_power_to_another() {
    let host = host(&[]).await;
    let open = json!({ "reuse": true });
    let (one, same_owner) = (key(&host, "o", open.clone()).await, key(&host, "o", open.clone()).await);
    let (other, without) = (key(&host, "p", open).await, key(&host, "o", json!({})).await);
    // What the host's own skill library has is for every key.
    let mut manifest = reuse();
    manifest["owner"] = json!("system");
    push_as(&host, host.key(), ("shared", "state-leak"), manifest).await;
    let count = async |key: &str, more: Value| {
        let mut body = json!({ "skillId": "shared" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        run(&host, key, body).await["output"]["count"].clone()
    };
    assert_eq!(count(&one, json!({})).await, 1);
    assert_eq!(count(&one, json!({})).await, 2);
    assert_eq!(count(&other, json!({})).await, 1);
    assert_eq!(count(&same_owner, json!({})).await, 1);
    assert_eq!(count(&one, json!({ "networkEnabled": false })).await, 1);
    for _ in 0..2 {
        assert_eq!(count(&without, json!({})).await, 1);
    }
    assert_eq!(count(&one, json!({})).await, 3);

    // The key that registers it may not.
    let pushed = push_as(&host, &without, ("mine", "state-leak"), reuse()).await;
    assert!(pushed.body["warnings"][0].as_str().unwrap().contains("ceilings.reuse"), "{}", pushed.body);
    for _ in 0..2 {
        assert_eq!(run(&host, &one, json!({ "skillId": "mine" })).await["output"]["count"], 1);
    }
}

#[tokio::test]
async fn what_was_ended_or_holds_something_is_not_kept_and_nothing_of_one_call_is_in_another() {
    let host = Host::start();
    let mut manifest = reuse();
    manifest["grants"] = json!({ "workspace": "write" });
    push(&host, host.key(), "powers-probe", manifest).await;
    push(&host, host.key(), "trap", reuse()).await;
    push(&host, host.key(), "wasi-probe", reuse()).await;
    for skill in ["trap", "wasi-probe"] {
        let args = json!({ "kind": "unreachable" });
        let outcomes = [run(&host, host.key(), json!({ "skillId": skill, "args": args })).await["status"].clone(), {
            run(&host, host.key(), json!({ "skillId": skill, "args": args })).await["status"].clone()
        }];
        assert_eq!(outcomes[0], outcomes[1], "{skill}");
    }
    // It logs; the log of a call is its own.
    for text in ["first", "second"] {
        let ran = run(&host, host.key(), json!({ "skillId": "powers-probe", "args": [["log", "c", text]] })).await;
        let log = ran["log"].as_array().unwrap();
        assert_eq!((log.len(), &log[0]["message"]), (1, &json!(text)), "{ran}");
    }
    push(&host, host.key(), "state-leak", reuse()).await;
    assert_eq!(count(&host, host.key(), json!({})).await, 1);
    assert_eq!(count(&host, host.key(), json!({})).await, 2);
    // What printed holds the stream that it printed to: it is not kept, and nobody else sees the text.
    let prints = json!({ "skillId": "state-leak", "args": { "print": true } });
    let printed = run(&host, host.key(), prints).await;
    assert_eq!((&printed["output"]["count"], &printed["stdout"]), (&json!(3), &json!("3\n")), "{printed}");
    let after = run(&host, host.key(), json!({ "skillId": "state-leak" })).await;
    assert_eq!((&after["output"]["count"], &after["stdout"]), (&json!(1), &json!("")), "{after}");
    // A run that is cut off takes its instance along.
    let cut = run(&host, host.key(), json!({ "skillId": "state-leak", "limits": { "fuel": 1 } })).await;
    assert_eq!(cut["error"]["code"], "out_of_fuel", "{cut}");
    assert_eq!(count(&host, host.key(), json!({})).await, 1);
}

#[tokio::test]
async fn kept_instances_give_their_room_to_whoever_needs_it() {
    let host = host(&["--concurrency-host", "2", "--reuse-max-idle", "100"]).await.with("hello").await;
    for name in ["a", "b", "c", "d"] {
        push_as(&host, host.key(), (name, "state-leak"), reuse()).await;
    }
    for round in 0..10 {
        let asked = ["a", "hello", "b", "c", "hello", "d", "state-leak"];
        let limits = || json!({ "timeoutMs": 20_000 });
        let ended = asked.map(|skill| host.outcome(skill, json!({ "name": "Ada" }), limits()));
        assert_eq!(futures_util::future::join_all(ended).await, ["success -"; 7], "{round}");
    }
    assert!(count(&host, host.key(), json!({})).await.as_u64() >= Some(1));
}

#[tokio::test]
async fn what_ends_with_each_call_cannot_be_kept() {
    let host = Host::start();
    for name in ["program", "http-handler", "module"] {
        let manifest = json!({ "name": name, "version": "1.0.0", "reuse": true });
        let refused = try_push(&host, host.key(), manifest, name).await;
        assert_eq!(refused.summary(), "422 not_supported", "{name}: {}", refused.body);
        assert_eq!(refused.body["errors"][0]["pointer"], "/reuse", "{}", refused.body);
    }
}

#[tokio::test]
async fn typed_functions_of_a_kept_instance_go_on_from_call_to_call() {
    let host = Host::start();
    let text = r#"(component
        (core module $m (global $n (mut i32) (i32.const 0))
            (func (export "next") (param i32) (result i32)
                (global.set $n (i32.add (global.get $n) (local.get 0))) (global.get $n))
            (func (export "fail") unreachable))
        (core instance $i (instantiate $m))
        (func (export "next") (param "by" u32) (result u32) (canon lift (core func $i "next")))
        (func (export "fail") (canon lift (core func $i "fail"))))"#;
    let manifest = json!({ "name": "counter", "version": "1.0.0", "reuse": true });
    let form = multipart::Form::new()
        .part("manifest", multipart::Part::text(manifest.to_string()).mime_str("application/json").unwrap())
        .part("component", multipart::Part::bytes(wat::parse_str(text).unwrap()).mime_str("application/wasm").unwrap());
    let pushed = reply(host.request_as(Some(host.key()), Method::POST, "/api/skills").multipart(form)).await;
    assert!(pushed.status.is_success(), "{}", pushed.body);
    let next = async |by: u32| {
        let body = json!({ "skillId": "counter#next", "args": { "by": by } });
        run(&host, host.key(), body).await["output"].clone()
    };
    assert_eq!((next(1).await, next(10).await, next(100).await), (json!(1), json!(11), json!(111)));
    // Arguments that do not fit are refused before the instance is asked for, and change nothing.
    let misfit = host.run("counter#next", json!({ "by": -1 }), json!({})).await;
    assert_eq!(misfit.summary(), "422 invalid_args");
    assert_eq!(next(1).await, 112);
    // One that trapped is not kept.
    let failed = run(&host, host.key(), json!({ "skillId": "counter#fail", "args": {} })).await;
    assert_eq!(failed["error"]["code"], "trap", "{failed}");
    assert_eq!((next(1).await, next(1).await), (json!(1), json!(2)));
}
