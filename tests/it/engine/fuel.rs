use reqwest::Method;
use serde_json::{Value, json};

use crate::support::Host;

use super::{key, push, run};

fn unlimited() -> Value {
    json!({ "limits": { "fuel": "unlimited" } })
}

/// How many files of the cache there are for a component.
fn files_of(host: &Host, digest: &str) -> usize {
    let hex = digest.trim_start_matches("sha256:");
    let engines = std::fs::read_dir(host.dir.path().join("data/cache")).unwrap();
    let files = engines.flat_map(|engine| std::fs::read_dir(engine.unwrap().path()).unwrap());
    files.filter(|file| file.as_ref().unwrap().file_name().to_str().unwrap().starts_with(hex)).count()
}

#[tokio::test]
async fn fuel_without_an_end_is_for_skills_and_callers_that_both_may_have_it() {
    let host = Host::start();
    let (may, may_not) = (key(&host, "o", unlimited()).await, key(&host, "o", json!({})).await);
    let pushed = push(&host, &may, "fuel-burner", unlimited()).await;
    assert_eq!((&pushed.body["limits"]["fuel"], &pushed.body["warnings"]), (&json!("unlimited"), &json!([])));
    let burn = json!({ "skillId": "fuel-burner", "args": { "iterations": 1000 } });
    let free = run(&host, &may, burn.clone()).await;
    assert_eq!((&free["status"], &free["usage"]["fuel"]), (&json!("success"), &json!(0)), "{free}");
    let counted = run(&host, &may_not, burn).await;
    assert_eq!(counted["output"], free["output"]);
    assert!(counted["usage"]["fuel"].as_u64().unwrap() > 1000, "{counted}");

    // The key that registered it may not: nobody may.
    let pushed = push(&host, &may_not, "spin", unlimited()).await;
    assert_eq!(pushed.body["limits"]["fuel"], 10_000_000_000_u64);
    assert!(pushed.body["warnings"][0].as_str().unwrap().contains("and not unlimited"), "{}", pushed.body);
    let mut spin = json!({ "skillId": "spin", "limits": { "fuel": "unlimited", "timeoutMs": 200 } });
    let bounded = run(&host, &may, spin.clone()).await;
    assert!(bounded["usage"]["fuel"].as_u64().unwrap() > 0, "{bounded}");
    let little = json!({ "limits": { "fuel": 1_000_000 } });
    let little = key(&host, "o", little).await;
    spin["limits"]["timeoutMs"] = json!(20_000);
    assert_eq!(run(&host, &little, spin).await["error"]["code"], "out_of_fuel");
}

#[tokio::test]
async fn all_other_limits_hold_where_fuel_is_not_counted() {
    let mut host = Host::start().with("spin").await.with("memory-hog").await.with("slow-host-call").await;
    for (guest, args, limits, outcome) in [
        ("spin", json!({}), json!({ "timeoutMs": 200 }), "timeout timeout"),
        ("spin", json!({}), json!({ "timeoutMs": 200, "cpuPercent": 5 }), "timeout timeout"),
        ("slow-host-call", json!({}), json!({ "timeoutMs": 200 }), "timeout timeout"),
        ("memory-hog", json!({ "abort": true }), json!({ "memoryMb": 32 }), "error out_of_memory"),
    ] {
        let mut limits = limits;
        limits["fuel"] = json!("unlimited");
        // The first run may have to wait until it is compiled once more.
        host.run(guest, json!({}), json!({ "fuel": "unlimited" , "timeoutMs": 20_000, "memoryMb": 1 })).await;
        assert_eq!(host.outcome(guest, args, limits).await, outcome, "{guest}");
    }
    host.kill_and_restart();
    let limits = json!({ "timeoutMs": 200, "fuel": "unlimited" });
    assert_eq!(host.outcome("spin", json!({}), limits).await, "timeout timeout");
}

#[tokio::test]
async fn the_code_of_both_engines_goes_with_its_skill() {
    let host = Host::start().with("hello").await;
    let digest = host.get("/api/skills/hello").await.body["digest"].as_str().unwrap().to_owned();
    assert_eq!(files_of(&host, &digest), 2);
    let limits = json!({ "fuel": "unlimited" });
    assert_eq!(host.outcome("hello", json!({ "name": "Ada" }), limits).await, "success -");
    assert_eq!(files_of(&host, &digest), 4);
    assert_eq!(host.send(Method::DELETE, "/api/skills/hello@1.0.0", json!({})).await.status, 204);
    assert_eq!(files_of(&host, &digest), 0);
}

#[tokio::test]
async fn a_skill_without_a_limit_on_fuel_calls_others_with_their_own() {
    let host = Host::start();
    let leaf = json!({ "grants": { "config": { "v": "1" } } });
    super::push_as(&host, host.key(), ("leaf", "powers-probe"), leaf).await;
    let mut root = unlimited();
    root["grants"] = json!({ "skills": ["leaf"] });
    super::push_as(&host, host.key(), ("root", "powers-probe"), root).await;
    let steps = json!([["call", "leaf", [["id"], ["config", "v"]]]]);
    let root = run(&host, host.key(), json!({ "skillId": "root", "args": steps })).await;
    assert_eq!((&root["usage"]["fuel"], &root["output"][0][1]), (&json!(0), &json!("1")), "{root}");
    let child = root["output"][0][0].as_str().unwrap();
    let child = host.get(&format!("/api/skills/executions/{child}")).await.body;
    assert!(child["usage"]["fuel"].as_u64().unwrap() > 0, "{child}");
}
