use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, until};

use super::receiver::{Receiver, said};
use super::{create, open_host, open_host_with, run};

async fn told(host: &Host, url: &str) -> String {
    let body = json!({ "name": "audit", "kind": "webhook", "url": url, "blocking": false });
    let made = create(host, body).await;
    assert_eq!(made["phases"], json!(["after"]));
    made["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_webhook_is_told_of_each_end_after_it_is_on_record() {
    let (host, receiver) = (open_host().with("echo").await.with("trap").await, Receiver::saying(204, json!({})).await);
    told(&host, &receiver.url("/runs")).await;
    let fine = run(&host, "echo", json!({ "a": 1 })).await;
    let failed = run(&host, "trap", json!({})).await;
    assert_eq!(fine["interceptors"], Value::Null, "nobody was asked");
    let heard = receiver.messages("execution.ended", 2).await;
    for ran in [&fine, &failed] {
        let data = heard.iter().map(|heard| &heard.body["data"]).find(|data| data["execution"]["id"] == ran["id"]);
        let data = data.unwrap();
        assert_eq!((&data["execution"]["status"], &data["output"]), (&ran["status"], &ran["output"]));
        assert_eq!(data["error"]["code"], ran["error"]["code"]);
    }
}

#[tokio::test]
async fn what_a_webhook_has_not_heard_when_the_host_is_killed_it_hears_afterwards() {
    let mut host = open_host().with("echo").await.with("spin").await;
    // Hears and says nothing, until it has come often enough.
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let receiver = Receiver::start(move |_| {
        let before = counted.fetch_add(1, Ordering::Relaxed);
        async move {
            if before < 1 {
                std::future::pending::<()>().await;
            }
            said(200, &json!({}))
        }
    })
    .await;
    told(&host, &receiver.url("/")).await;
    let ran = run(&host, "echo", json!({})).await;
    receiver.messages("execution.ended", 1).await;
    // One more is under way, and never comes to an end of its own.
    let body = json!({ "skillId": "spin", "args": {}, "mode": "async" });
    let lost = host.send(Method::POST, "/api/skills/executions", body).await.body["id"].clone();
    let path = format!("/api/skills/executions/{}", lost.as_str().unwrap());
    until(async || (host.get(&path).await.body["status"] == "running").then_some(())).await;
    host.kill_and_restart();
    let heard = receiver.messages("execution.ended", 3).await;
    let of = |id: &Value| heard.iter().filter(|heard| heard.body["data"]["execution"]["id"] == *id).collect::<Vec<_>>();
    let again = of(&ran["id"]);
    assert_eq!(again.len(), 2);
    assert_eq!(again[0].header("webhook-id"), again[1].header("webhook-id"));
    assert_eq!(of(&lost)[0].body["data"]["error"]["code"], "interrupted");
}

#[tokio::test]
async fn what_cannot_be_told_becomes_a_dead_letter_that_can_be_tried_again() {
    let host = open_host_with(&["--webhooks-max-attempts", "2"]).with("echo").await;
    let works = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&works);
    let receiver = Receiver::start(move |_| {
        let status = if asked.load(Ordering::Relaxed) == 0 { 503 } else { 200 };
        async move { said(status, &json!({})) }
    })
    .await;
    let id = told(&host, &receiver.url("/")).await;
    let ran = run(&host, "echo", json!({})).await;
    let letters = format!("/api/interceptors/{id}/dead-letters");
    let dead = until(async || Some(host.get(&letters).await.body).filter(|page| page["total"] == 1)).await;
    let letter = &dead["deadLetters"][0];
    assert_eq!((&letter["n"], &letter["executionId"], &letter["attempts"]), (&json!(1), &ran["id"], &json!(2)));
    assert_eq!(letter["problem"], "it answered with the status 503");
    assert_eq!(receiver.heard().len(), 2);
    assert_eq!(host.send(Method::POST, &format!("{letters}/9/retry"), Value::Null).await.summary(), "404 not_found");
    works.store(1, Ordering::Relaxed);
    assert_eq!(host.send(Method::POST, &format!("{letters}/1/retry"), Value::Null).await.status, 204);
    receiver.messages("execution.ended", 3).await;
    until(async || (host.get(&letters).await.body["total"] == 0).then_some(())).await;
}
