use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::Host;

use super::{push, run};

async fn call(host: &Host, function: &str, args: Value, limits: Value) -> Value {
    run(host, host.key(), json!({ "skillId": function, "args": args, "limits": limits })).await
}

#[tokio::test]
async fn an_async_function_is_called_as_any_other() {
    let host = Host::start().with("async-hello").await;
    let names: Vec<_> = host.get("/api/skills/async-hello").await.body["functions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|function| function["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["greet-all", "greet"]);
    // They wait at one time: who waits less is first.
    let guests = json!({ "guests": [["Ada", 60], ["Grace", 1], ["Edsger", 30]] });
    let all = call(&host, "async-hello#greet-all", guests.clone(), json!({})).await;
    assert_eq!(all["output"], json!(["Hello, Grace!", "Hello, Edsger!", "Hello, Ada!"]), "{all}");
    assert!(all["usage"]["fuel"].as_u64().unwrap() > 0 && all["usage"]["memoryPeakBytes"].as_u64().unwrap() > 0);
    let greeted = call(&host, "async-hello#greet", json!({ "name": "Ada" }), json!({})).await;
    assert_eq!(greeted["output"], "Hello, Ada!");
    let nobody = call(&host, "async-hello#greet-all", json!({ "guests": [] }), json!({})).await;
    assert_eq!(
        (&nobody["error"]["code"], &nobody["error"]["detail"]["value"]),
        (&json!("skill_error"), &json!("nobody to greet"))
    );
    let free = call(&host, "async-hello#greet-all", guests, json!({ "fuel": "unlimited" })).await;
    assert_eq!((&free["status"], &free["usage"]["fuel"]), (&json!("success"), &json!(0)), "{free}");
}

#[tokio::test]
async fn a_program_for_wasi_0_3_reads_and_prints() {
    let host = Host::start().with("async-command").await;
    let ran = call(&host, "async-command", json!({ "a": 1 }), json!({})).await;
    assert_eq!(ran["output"], "7 bytes, backwards: }1:\"a\"{", "{ran}");
    assert_eq!(ran["exitCode"], 0);
    let long = json!("x".repeat(5000));
    assert_eq!(host.outcome("async-command", long, json!({ "outputBytes": 1000 })).await, "error output_too_large");
}

#[tokio::test]
async fn async_guests_that_do_not_end_are_ended() {
    let mut host = Host::start().with("async-hostile").await;
    let much = || json!({ "timeoutMs": 300, "fuel": 1_000_000_000_000_u64 });
    for _ in 0..2 {
        for (function, limits, outcome) in [
            ("never", json!({ "timeoutMs": 20_000 }), "error trap"),
            ("sleep", json!({ "timeoutMs": 300 }), "timeout timeout"),
            ("spin", much(), "timeout timeout"),
            ("spin", json!({ "fuel": 10_000_000 }), "error out_of_fuel"),
            ("yielding", much(), "timeout timeout"),
            ("yielding", json!({ "fuel": 1_000_000, "timeoutMs": 20_000 }), "error out_of_fuel"),
            ("flood", json!({ "timeoutMs": 20_000 }), "error trap"),
            ("streams", json!({ "timeoutMs": 20_000 }), "error trap"),
        ] {
            assert_eq!(
                host.outcome(&format!("async-hostile#{function}"), json!({}), limits).await,
                outcome,
                "{function}"
            );
        }
        // Its code is found again after a restart, too.
        host.kill_and_restart();
    }
    assert!(host.peak_mib() < 400, "{} MiB", host.peak_mib());
}

#[tokio::test]
async fn guests_that_wait_keep_nobody_from_working_and_can_be_cancelled() {
    let host = Host::start().with("async-hostile").await;
    let other = super::key(&host, "other", json!({})).await;
    push(&host, &other, "async-hello", json!({})).await;
    // More than one owner's share of the room.
    let waiting =
        join_all((0..40).map(|_| host.outcome("async-hostile#sleep", json!({}), json!({ "timeoutMs": 25_000 }))));
    let work = async {
        let list = "/api/skills/executions?status=running";
        let running = crate::support::until(async || {
            let page = host.get(list).await.body;
            (page["total"] == 40).then_some(page)
        });
        let running = running.await;
        let body = json!({ "skillId": "async-hello#greet", "args": { "name": "Ada" } });
        assert_eq!(run(&host, &other, body).await["output"], "Hello, Ada!");
        for execution in running["executions"].as_array().unwrap() {
            let path = format!("/api/skills/executions/{}/cancel", execution["id"].as_str().unwrap());
            host.send(reqwest::Method::POST, &path, json!({})).await;
        }
    };
    let (ended, ()) = tokio::join!(waiting, work);
    assert_eq!(ended, ["cancelled cancelled"; 40]);
}

#[tokio::test]
async fn what_wasi_0_3_could_reach_is_closed_and_told() {
    let host = Host::start();
    push(&host, host.key(), "async-hostile", json!({ "grants": { "network": ["public"], "workspace": "write" } }))
        .await;
    let probed = call(&host, "async-hostile#probe", json!({}), json!({})).await;
    let refused = json!([
        "Err(ErrorCode::AccessDenied)",
        "Err(ErrorCode::AccessDenied)",
        "Err(ErrorCode::PermanentResolverFailure)",
        "1"
    ]);
    assert_eq!(probed["output"], refused, "{probed}");
    let asked: Vec<_> = probed["denials"].as_array().unwrap().iter().map(|denial| denial["asked"].clone()).collect();
    assert_eq!(asked, ["a TCP socket", "a UDP socket", "the addresses of localhost"], "{probed}");
}

#[tokio::test]
async fn instances_with_async_functions_are_not_kept() {
    let host = Host::start();
    let manifest = json!({ "name": "a", "version": "1.0.0", "reuse": true });
    let refused = super::try_push(&host, host.key(), manifest, "async-hello").await;
    assert_eq!(refused.summary(), "422 not_supported", "{}", refused.body);
}
