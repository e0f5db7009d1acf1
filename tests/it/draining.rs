use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, guest, reply, until};

const RUN: &str = "/api/skills/executions";

/// How each run of these stands: skill and status.
async fn standing(host: &Host) -> Vec<(String, String)> {
    let page = host.get(&format!("{RUN}?limit=100")).await.body;
    let text = |run: &Value, name: &str| run[name].as_str().unwrap().to_owned();
    let mut all: Vec<_> =
        page["executions"].as_array().unwrap().iter().map(|run| (text(run, "skillId"), text(run, "status"))).collect();
    all.sort();
    all
}

/// Pushes a skill that calls another one.
async fn push_caller(host: &Host) {
    let manifest = json!({ "name": "caller", "version": "1.0.0", "grants": { "skills": ["slow-host-call"] } });
    let form = reqwest::multipart::Form::new()
        .part("manifest", reqwest::multipart::Part::text(manifest.to_string()).mime_str("application/json").unwrap())
        .part(
            "component",
            reqwest::multipart::Part::bytes(guest("powers-probe")).mime_str("application/wasm").unwrap(),
        );
    let pushed = reply(host.request_as(Some(host.key()), Method::POST, "/api/skills").multipart(form)).await;
    assert!(pushed.status.is_success(), "{}", pushed.body);
    until(async || (host.get("/api/skills/caller").await.body["state"] == "ready").then_some(())).await;
}

#[tokio::test]
async fn what_does_not_end_while_the_host_drains_is_cancelled_however_it_was_asked_for() {
    let host =
        Host::start_with(&["--shutdown-drain", "400ms", "--concurrency-per-owner", "5"]).with("slow-host-call").await;
    push_caller(&host).await;
    let slow = json!({ "ms": 60_000 });
    let send = |skill: &str, args: &Value, mode: &str| {
        let body = json!({ "skillId": skill, "args": args, "mode": mode }).to_string();
        host.request_as(Some(host.key()), Method::POST, RUN).body(body)
    };
    let submitted = reply(send("slow-host-call", &slow, "async")).await;
    assert_eq!(submitted.status, 202);
    let sync = tokio::spawn(reply(send("slow-host-call", &slow, "sync")));
    let parent = tokio::spawn(reply(send("caller", &json!([["call", "slow-host-call", slow]]), "sync")));
    let stream = send("slow-host-call", &slow, "stream").send().await.unwrap();
    let running = async || host.get(&format!("{RUN}?status=running")).await.body["total"] == 5;
    until(async || running().await.then_some(())).await;
    // It has no place, and waits for the next start.
    assert_eq!(reply(send("slow-host-call", &json!({ "ms": 1 }), "async")).await.status, 202);
    let dir = tokio::task::spawn_blocking(move || host.stop()).await.unwrap();
    for answered in [sync, parent] {
        let answered = answered.await.unwrap();
        assert_eq!(
            (answered.status.as_u16(), &answered.body["status"]),
            (200, &json!("cancelled")),
            "{}",
            answered.body
        );
    }
    let events = stream.text().await.unwrap();
    assert!(events.contains("event: end") && events.contains("\"cancelled\""), "{events}");
    let host = Host::start_in(dir, &[]);
    let cancelled = |skill: &str| (format!("{skill}@1.0.0"), "cancelled".to_owned());
    let mut wanted = vec![cancelled("caller"); 1];
    wanted.extend(vec![cancelled("slow-host-call"); 4]);
    wanted.push(("slow-host-call@1.0.0".to_owned(), "success".to_owned()));
    until(async || (standing(&host).await == wanted).then_some(())).await;
}
