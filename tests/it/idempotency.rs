use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::support::{Host, reply, until};

const RUN: &str = "/api/skills/executions";

async fn once(host: &Host, word: &str, body: &Value) -> (Response, bool) {
    let request = host.request_as(Some(host.key()), Method::POST, RUN).header("idempotency-key", word);
    let response = request.body(body.to_string()).send().await.unwrap();
    let replayed = response.headers().get("idempotency-replayed").is_some_and(|value| value == "true");
    (response, replayed)
}

async fn id_of(answer: (Response, bool)) -> (String, bool) {
    let body: Value = serde_json::from_str(&answer.0.text().await.unwrap()).unwrap();
    (body["id"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned(), answer.1)
}

async fn runs(host: &Host) -> Value {
    host.get(RUN).await.body["total"].clone()
}

#[tokio::test]
async fn a_request_that_comes_twice_runs_once_also_after_a_crash() {
    let mut host = Host::start().with("hello").await;
    let body = json!({ "skillId": "hello", "args": { "name": "Ada" } });
    let (first, replayed) = id_of(once(&host, "a-1", &body).await).await;
    assert!(!replayed);
    assert_eq!(id_of(once(&host, "a-1", &body).await).await, (first.clone(), true));
    host.kill_and_restart();
    assert_eq!(id_of(once(&host, "a-1", &body).await).await, (first, true));
    let other = json!({ "skillId": "hello", "args": { "name": "Bob" } });
    assert_eq!(once(&host, "a-1", &other).await.0.status(), 422);
    assert!(!id_of(once(&host, "a-2", &other).await).await.1);
    assert_eq!(runs(&host).await, 2);
}

#[tokio::test]
async fn a_request_that_comes_again_while_the_first_one_runs_awaits_it_and_its_caller_may_leave() {
    let host = Host::start().with("slow-host-call").await;
    let body = json!({ "skillId": "slow-host-call", "args": { "ms": 1500 } });
    tokio::select! {
        _ = once(&host, "b", &body) => panic!("it ended before its caller could leave"),
        () = until(async || (runs(&host).await == 1).then_some(())) => {}
    }
    let all = futures_util::future::join_all((0..5).map(|_| once(&host, "b", &body))).await;
    for (response, replayed) in all {
        assert!(replayed);
        assert_eq!(serde_json::from_str::<Value>(&response.text().await.unwrap()).unwrap()["status"], "success");
    }
    assert_eq!(runs(&host).await, 1);
}

#[tokio::test]
async fn of_many_that_come_at_once_one_runs() {
    let host = Host::start().with("hello").await;
    let body = json!({ "skillId": "hello" });
    let all = futures_util::future::join_all((0..40).map(|n| {
        let (host, body) = (&host, &body);
        async move { id_of(once(host, if n % 2 == 0 { "even" } else { "odd" }, body).await).await }
    }))
    .await;
    assert_eq!(all.iter().filter(|(_, replayed)| !replayed).count(), 2);
    assert_eq!(runs(&host).await, 2);
}

#[tokio::test]
async fn a_refusal_is_not_remembered_and_a_bad_word_is_refused() {
    let host = Host::start();
    let body = json!({ "skillId": "hello" });
    assert_eq!(once(&host, "c", &body).await.0.status(), 404);
    let host = host.with("hello").await;
    assert!(!id_of(once(&host, "c", &body).await).await.1);
    for word in ["", "two words", &"a".repeat(10 << 10)] {
        let request = host.request_as(Some(host.key()), Method::POST, RUN).header("idempotency-key", word);
        assert_eq!(reply(request.body(body.to_string())).await.summary(), "400 malformed", "{}", word.len());
    }
    let stranger = host.request_as(None, Method::POST, RUN).header("idempotency-key", "two words");
    assert_eq!(reply(stranger.body(body.to_string())).await.summary(), "401 unauthenticated");
    // Another key's word is another word.
    let key = host.send(Method::POST, "/api/keys", json!({ "name": "other", "owner": "admin" })).await;
    let key = key.body["secret"].as_str().unwrap();
    let other = host.request_as(Some(key), Method::POST, RUN).header("idempotency-key", "c");
    assert!(other.body(body.to_string()).send().await.unwrap().headers().get("idempotency-replayed").is_none());
    assert_eq!(runs(&host).await, 2);
}
