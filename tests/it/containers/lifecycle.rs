use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, until};

use super::{engines, host, left, register, register_script, until_there_are};

/// Catches what tells it to end, and goes on.
const STUBBORN: &str = "trap '' TERM INT HUP; while :; do sleep 1; done";

async fn executions(host: &Host, status: &str) -> Vec<Value> {
    let page = host.get(&format!("/api/skills/executions?status={status}")).await;
    page.body["executions"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_container_that_ignores_the_signal_is_gone_when_its_deadline_is_answered() {
    for engine in engines() {
        let host = host(engine);
        register_script(&host, "stubborn", STUBBORN).await;
        let ran = host.run("stubborn", json!({}), json!({ "timeoutMs": 1500 })).await.body;
        assert_eq!((&ran["error"]["code"], &ran["killed"]), (&json!("timeout"), &json!(true)), "{engine}: {ran}");
        assert_eq!(ran["exitCode"], Value::Null);
        assert_eq!(left(engine, &host), [""; 0], "{engine}");
    }
}

#[tokio::test]
async fn cancelling_and_leaving_end_the_container() {
    for engine in engines() {
        let host = host(engine);
        register_script(&host, "stubborn", STUBBORN).await;
        let (ran, _) = tokio::join!(host.run("stubborn", json!({}), json!({})), async {
            until_there_are(engine, &host, 1).await;
            let id = executions(&host, "running").await[0]["id"].as_str().unwrap().to_owned();
            host.send(Method::POST, &format!("/api/skills/executions/{id}/cancel"), Value::Null).await
        });
        assert_eq!(ran.body["status"], "cancelled", "{engine}: {}", ran.body);
        assert_eq!(left(engine, &host), [""; 0], "{engine}");
        // Who leaves cancels too.
        tokio::select! {
            ran = host.run("stubborn", json!({}), json!({})) => panic!("{engine}: {}", ran.body),
            () = until_there_are(engine, &host, 1) => {}
        }
        until(async || (executions(&host, "cancelled").await.len() == 2).then_some(())).await;
        assert_eq!(left(engine, &host), [""; 0], "{engine}");
    }
}

#[tokio::test]
async fn a_host_that_stops_leaves_nothing_running() {
    for engine in engines() {
        let host = host(engine);
        register_script(&host, "stubborn", STUBBORN).await;
        let body = json!({ "skillId": "stubborn", "args": {}, "mode": "async" });
        for _ in 0..3 {
            assert_eq!(host.send(Method::POST, "/api/skills/executions", body.clone()).await.status, 202);
        }
        until_there_are(engine, &host, 3).await;
        let arguments = ["--containers-engine", engine, "--shutdown-drain", "0s"];
        let dir = host.stop();
        let again = Host::start_in(dir, &arguments);
        assert_eq!(left(engine, &again), [""; 0], "{engine}");
    }
}

#[tokio::test]
async fn what_a_killed_host_left_is_removed_by_its_next_start() {
    for engine in engines() {
        let mut host = host(engine);
        register_script(&host, "stubborn", STUBBORN).await;
        register(&host, "cat", &["cat"]).await;
        let body = json!({ "skillId": "stubborn", "args": {}, "mode": "async" });
        for _ in 0..3 {
            assert_eq!(host.send(Method::POST, "/api/skills/executions", body.clone()).await.status, 202);
        }
        until_there_are(engine, &host, 3).await;
        let old = left(engine, &host);
        host.kill_and_restart();
        until(async || left(engine, &host).iter().all(|name| !old.contains(name)).then_some(())).await;
        assert_eq!(executions(&host, "error").await.len(), 3, "{engine}");
        // It runs at once, and what is new is not taken for old.
        let ran = until(async || {
            let ran = host.run("cat", json!({ "a": 1 }), json!({})).await;
            (ran.status == 200).then_some(ran.body)
        });
        assert_eq!(ran.await["output"], json!({ "a": 1 }), "{engine}");
        let own = host.dir.path().join("data/containers");
        // Nothing but the list of system calls.
        until(async || (std::fs::read_dir(&own).unwrap().count() == 1).then_some(())).await;
    }
}

#[tokio::test]
async fn only_the_system_ends_a_container_for_its_memory_whatever_its_code_says() {
    for engine in engines() {
        let host = host(engine);
        for (name, script, code, exit) in [
            ("says-so", "exit 137", "exit_nonzero", 137),
            ("code", "exit 3", "exit_nonzero", 3),
            ("not-done", "exit 125", "exit_nonzero", 125),
            ("pretends", "echo 'Error: no' >&2; exit 1", "exit_nonzero", 1),
            ("child", "tail /dev/zero; exit 9", "out_of_memory", 9),
            ("itself", "exec tail /dev/zero", "out_of_memory", 137),
            ("absent", "exec /no/such/thing", "exit_nonzero", 127),
        ] {
            register_script(&host, name, script).await;
            let ran = host.run(name, json!({}), json!({ "memoryMb": 32 })).await.body;
            assert_eq!(
                (&ran["error"]["code"], &ran["exitCode"]),
                (&json!(code), &json!(exit)),
                "{engine}: {name}: {ran}"
            );
        }
        assert_eq!(left(engine, &host), [""; 0], "{engine}");
    }
}
