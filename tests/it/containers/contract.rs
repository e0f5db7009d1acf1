use serde_json::{Value, json};

use crate::support::{Host, until};

use super::{engines, host, register_script};

/// A host where the same promises are asked of skills of one kind.
async fn of_components() -> Host {
    Host::start().with("program").await.with("spin").await.with("memory-hog").await.with("output-flood").await
}

async fn of_containers(engine: &str) -> Host {
    let host = host(engine);
    // As the guest of this name does it: prints a text, and ends with a code.
    let program = r#"a=$(cat); code=$(echo "$a" | sed -n 's/.*"code":\([0-9]*\).*/\1/p');
        echo "$a" | sed -n 's/.*"text":"\([^"]*\)".*/\1/p'; exit ${code:-0}"#;
    register_script(&host, "program", program).await;
    register_script(&host, "spin", "while :; do :; done").await;
    register_script(&host, "memory-hog", "tail /dev/zero").await;
    register_script(&host, "output-flood", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done")
        .await;
    host
}

/// What each kind of sandbox promises.
async fn keeps_its_promises(kind: &str, host: Host) {
    let fuel = json!(1_000_000_000_000_u64);
    for (skill, args, limits, outcome) in [
        ("program", json!({ "way": "print", "text": "7" }), json!({}), "success -"),
        ("program", json!({ "way": "print", "text": "x", "code": 1 }), json!({}), "error exit_nonzero"),
        ("spin", json!({}), json!({ "timeoutMs": 1500, "fuel": fuel }), "timeout timeout"),
        ("memory-hog", json!({ "abort": true }), json!({ "memoryMb": 32 }), "error out_of_memory"),
        ("output-flood", json!({ "bytes": 5_000_000 }), json!({}), "error output_too_large"),
    ] {
        let ran = host.run(skill, args, limits).await.body;
        let ended = format!("{} {}", ran["status"].as_str().unwrap(), ran["error"]["code"].as_str().unwrap_or("-"));
        assert_eq!(ended, outcome, "{kind}: {ran}");
        assert_eq!(ran["killed"], json!(outcome.starts_with("timeout")), "{kind}: {ran}");
        // The record says what the reply said.
        let kept = host.get(&format!("/api/skills/executions/{}", ran["id"].as_str().unwrap())).await.body;
        for field in ["status", "output", "error", "exitCode", "stdout", "stderr", "digest", "durationMs"] {
            assert_eq!(kept[field], ran[field], "{kind}: {field}");
        }
    }
    let printed = host.run("program", json!({ "way": "print", "text": "[1]" }), json!({})).await.body;
    assert_eq!((&printed["output"], &printed["exitCode"]), (&json!([1]), &json!(0)), "{kind}: {printed}");
    let retried = json!({ "skillId": "spin", "args": {}, "limits": { "timeoutMs": 30_000, "attemptTimeoutMs": 700, "fuel": fuel },
                          "retry": { "maxRetries": 1, "on": ["timeout"], "backoffMs": 1 } });
    let ran = host.send(reqwest::Method::POST, "/api/skills/executions", retried).await.body;
    assert_eq!((&ran["status"], &ran["attempts"]), (&json!("timeout"), &json!(2)), "{kind}: {ran}");
    let (ran, cancelled) = tokio::join!(host.run("spin", json!({}), json!({ "fuel": fuel })), cancel(&host));
    assert_eq!((&ran.body["status"], &cancelled["status"]), (&json!("cancelled"), &json!("cancelled")), "{kind}");
    assert_eq!(ran.body["killed"], true, "{kind}");
}

/// Cancels what runs.
async fn cancel(host: &Host) -> Value {
    let running = until(async || {
        let page = host.get("/api/skills/executions?status=running").await;
        page.body["executions"][0]["id"].as_str().map(str::to_owned)
    });
    let path = format!("/api/skills/executions/{}/cancel", running.await);
    host.send(reqwest::Method::POST, &path, Value::Null).await.body
}

#[tokio::test]
async fn components_and_containers_keep_the_same_promises() {
    keeps_its_promises("wasm", of_components().await).await;
    for engine in engines() {
        keeps_its_promises(engine, of_containers(engine).await).await;
    }
}
