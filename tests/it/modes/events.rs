use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, reply, until};

use super::stream::{ask, begin, follow, names};
use super::{RUN, look, once, post, push_probe, submit};

/// A host with `probe`, which may call `slow-host-call`.
async fn host() -> Host {
    let host = Host::start().with("slow-host-call").await;
    push_probe(&host, json!({ "skills": ["slow-host-call"] })).await;
    host
}

fn wait(ms: u64) -> Value {
    json!(["call", "slow-host-call", { "ms": ms }])
}

fn id_at(location: &str) -> &str {
    location.rsplit('/').next().unwrap()
}

async fn cancel(host: &Host, id: &str) -> Value {
    host.send(Method::POST, &format!("{RUN}/{id}/cancel"), Value::Null).await.body
}

#[tokio::test]
async fn a_run_is_followed_from_its_first_word_to_its_end() {
    let host = host().await;
    let steps = json!([["log", "part", "one\ntwo"], ["progress", 1, 2, "half"], wait(300), ["old-log", "", "three"]]);
    let (mut events, location) = begin(&host, None, "probe", steps).await;
    let first = events.next().await.unwrap();
    assert_eq!(look(&host, id_at(&location)).await["status"], "running", "its word comes before its end");
    assert_eq!((first.name.as_str(), &first.data["message"]), ("log", &json!("one\ntwo")));
    assert_eq!((&first.data["level"], &first.data["context"]), (&json!("warn"), &json!("part")));
    let rest = events.rest().await;
    assert_eq!(names(&rest), ["progress", "log", "output", "end"]);
    let told = (&rest[0].data["done"], &rest[0].data["total"], &rest[0].data["message"], &rest[0].data["attempt"]);
    assert_eq!(told, (&json!(1.0), &json!(2.0), &json!("half"), &json!(1)));
    assert_eq!(rest[2].data[2], json!({ "sleptMs": 300 }));
    assert!(rest.iter().map(|event| event.id).is_sorted_by(|a, b| a < b) && first.id < rest[0].id, "{rest:?}");
    assert_eq!(rest[3].data, look(&host, id_at(&location)).await);
    assert_eq!(rest[3].data["status"], "success");
}

#[tokio::test]
async fn what_is_printed_comes_in_pieces_that_are_the_whole() {
    let host = Host::start().with("output-flood").await.with("program").await;
    let (mut events, _) = begin(&host, None, "output-flood", json!({ "bytes": 300_000, "to": "stderr" })).await;
    let events = events.rest().await;
    let pieces: String = events.iter().filter_map(|event| event.data["text"].as_str()).collect();
    let end = &events.last().unwrap().data;
    assert!(events.len() > 3 && events[0].name == "stderr", "{:?}", names(&events));
    assert_eq!((pieces.len(), Some(pieces.as_str())), (300_000, end["stderr"].as_str()));
    // Clean, and whole characters only.
    let (mut events, _) = begin(&host, None, "program", json!({ "way": "binary" })).await;
    let events = events.rest().await;
    let pieces: String = events.iter().filter_map(|event| event.data["text"].as_str()).collect();
    assert_eq!(json!(pieces), events.last().unwrap().data["stdout"]);
    assert_eq!(pieces, "a\u{fffd}[31mb\n");
}

#[tokio::test]
async fn who_comes_late_or_again_hears_what_is_kept_and_nothing_twice() {
    let host = host().await;
    let id = submit(&host, "probe", json!([["log", "", "one"], ["log", "", "two"], wait(60_000)])).await;
    until(async || {
        (host.get(&format!("{RUN}?skill=slow-host-call&status=running")).await.body["total"] == 1).then_some(())
    })
    .await;
    let mut events = follow(&host, &id, None).await;
    let (one, two) = (events.next().await.unwrap(), events.next().await.unwrap());
    assert_eq!((&one.data["message"], &two.data["message"]), (&json!("one"), &json!("two")));
    drop(events);
    let mut again = follow(&host, &id, one.id).await;
    assert_eq!(again.next().await.unwrap().id, two.id);
    // Of another life of the host, perhaps.
    let mut lost = follow(&host, &id, Some(1_000_000)).await;
    let gap = lost.next().await.unwrap();
    assert_eq!((gap.name.as_str(), gap.id, &gap.data["dropped"]), ("gap", None, &Value::Null));
    assert_eq!(lost.next().await.unwrap().data["message"], "one");
    assert_eq!(cancel(&host, &id).await["status"], "cancelled");
    let rest = again.rest().await;
    assert_eq!((names(&rest), &rest[0].data["status"]), (vec!["end"], &json!("cancelled")));
    // Now from the record.
    let ended = follow(&host, &id, one.id).await.rest().await;
    assert_eq!((names(&ended), ended[0].id, &ended[0].data), (vec!["end"], rest[0].id, &rest[0].data));
    assert_eq!(ask(&host, &id, rest[0].id).await.status(), 204);
    let ran = host.run("probe", json!([]), json!({})).await.body["id"].as_str().unwrap().to_owned();
    let events = follow(&host, &ran, None).await.rest().await;
    assert_eq!((names(&events), &events[0].data), (vec!["output", "end"], &json!([])));
    assert_eq!(names(&follow(&host, &ran, events[0].id).await.rest().await), ["end"]);
}

#[tokio::test]
async fn what_is_refused_is_a_problem_and_no_stream_and_what_is_anothers_is_not_there() {
    let host = host().await.with("typed").await;
    for (request, expected) in [
        (json!({ "skillId": "none", "mode": "stream" }), "404 not_found"),
        (json!({ "skillId": "probe", "mode": "stream", "limits": { "argsBytes": 1 } }), "413 too_large"),
        (
            json!({ "skillId": "probe", "mode": "stream", "digest": format!("sha256:{}", "0".repeat(64)) }),
            "409 digest_mismatch",
        ),
    ] {
        assert_eq!(post(&host, request.clone()).await.summary(), expected, "{request}");
    }
    assert_eq!(host.get(RUN).await.body["total"], 0);
    let ran = host.run("probe", json!([]), json!({})).await.body["id"].as_str().unwrap().to_owned();
    let key = json!({ "name": "other", "scopes": ["skills:execute", "executions:read"] });
    let key = host.send(Method::POST, "/api/keys", key).await.body["secret"].as_str().unwrap().to_owned();
    let mut seen = Vec::new();
    for id in [ran.as_str(), "0198c0de-0000-7000-8000-000000000000", "nonsense"] {
        let request = host.request_as(Some(&key), Method::GET, &format!("{RUN}/{id}/events"));
        let refused = reply(request.header("last-event-id", (1_u64 << 53) - 1)).await;
        seen.push((refused.summary(), refused.body["detail"].clone()));
    }
    assert!(seen.iter().all(|one| one == &seen[0]) && seen[0].0 == "404 not_found", "{seen:?}");
    let request = host.request_as(Some(host.key()), Method::GET, &format!("{RUN}/{ran}/events"));
    assert_eq!(reply(request.header("last-event-id", "one")).await.summary(), "400 malformed");
}

#[tokio::test]
async fn a_client_that_reads_nothing_holds_nobody_up_and_is_told_what_it_missed() {
    let host = Host::start().with("output-flood").await;
    let before = host.resident_mib();
    let flood = json!({ "bytes": 48 << 20, "to": "stdout" });
    let body = json!({ "skillId": "output-flood", "args": flood, "mode": "stream",
                       "limits": { "outputBytes": 48 << 20, "memoryMb": 512 } });
    let request = host.request_as(Some(host.key()), Method::POST, RUN).body(body.to_string());
    let response = request.send().await.unwrap();
    let ended = until(async || {
        host.get(&format!("{RUN}?status=success")).await.body["executions"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    assert!(host.resident_mib() < before + 400, "{} {before}", host.resident_mib());
    let events = super::stream::Events::of(response).rest().await;
    let gap =
        events.iter().find(|event| event.name == "gap").expect("48 MiB are more than what is kept and on its way");
    assert!(gap.data["dropped"].as_u64().unwrap() > 0);
    let end = events.last().unwrap();
    assert_eq!((end.name.as_str(), end.data["id"].as_str()), ("end", Some(ended.as_str())));
    assert_eq!(end.data["stdout"].as_str().unwrap().len(), 48 << 20);
}

#[tokio::test]
async fn who_leaves_ends_a_run_that_was_begun_for_it_alone_and_no_other() {
    let host = host().await;
    let steps = json!([["log", "", "here"], wait(60_000)]);
    let (mut events, location) = begin(&host, None, "probe", steps.clone()).await;
    assert_eq!(events.next().await.unwrap().name, "log");
    drop(events);
    let ended = once(&host, id_at(&location), "cancelled").await;
    assert_eq!(ended["log"][0]["message"], "here");

    let (mut events, location) = begin(&host, Some("w"), "probe", steps.clone()).await;
    assert_eq!(events.next().await.unwrap().name, "log");
    drop(events);
    let (mut again, same) = begin(&host, Some("w"), "probe", steps).await;
    assert_eq!((again.next().await.unwrap().name.as_str(), &same), ("log", &location));
    // A watcher that leaves ends nothing.
    drop(follow(&host, id_at(&location), None).await);
    assert_eq!(look(&host, id_at(&location)).await["status"], "running");
    cancel(&host, id_at(&location)).await;
    assert_eq!(names(&again.rest().await), ["end"]);
    assert_eq!(host.get(&format!("{RUN}?skill=probe")).await.body["total"], 2);
}

#[tokio::test]
async fn what_waits_can_be_followed_before_it_begins_and_each_attempt_is_told_apart() {
    let host = Host::start_with(&["--concurrency-per-owner", "1"]).with("slow-host-call").await;
    push_probe(&host, json!({})).await;
    let first = submit(&host, "slow-host-call", json!({ "ms": 60_000 })).await;
    once(&host, &first, "running").await;
    let body = json!({ "skillId": "probe", "args": [["log", "", "here"], ["fail"]], "mode": "async",
                       "retry": { "maxRetries": 1, "backoffMs": 1 } });
    let id = post(&host, body).await.body["id"].as_str().unwrap().to_owned();
    let mut events = follow(&host, &id, None).await;
    assert_eq!(look(&host, &id).await["status"], "pending");
    cancel(&host, &first).await;
    let mut told = events.rest().await;
    told.retain(|event| event.name != "stderr");
    assert_eq!(names(&told), ["log", "log", "end"]);
    assert_eq!((&told[0].data["attempt"], &told[1].data["attempt"]), (&json!(1), &json!(2)));
    assert_eq!(told[2].data["error"]["code"], "trap");
}

#[tokio::test]
async fn a_stream_ends_with_its_key_and_with_its_host() {
    let host =
        Host::start_with(&["--concurrency-per-owner", "1", "--shutdown-drain", "20s"]).with("slow-host-call").await;
    let key = json!({ "name": "watcher", "owner": "admin", "scopes": ["executions:read"] });
    let key = host.send(Method::POST, "/api/keys", key).await.body;
    let running = submit(&host, "slow-host-call", json!({ "ms": 60_000 })).await;
    once(&host, &running, "running").await;
    let waiting = submit(&host, "slow-host-call", json!({ "ms": 1 })).await;
    let path = format!("{RUN}/{running}/events");
    let response = host.request_as(key["secret"].as_str(), Method::GET, &path).send().await.unwrap();
    let mut watched = super::stream::Events::of(response);
    host.send(Method::DELETE, &format!("/api/keys/{}", key["id"].as_str().unwrap()), Value::Null).await;
    assert!(watched.next().await.is_none(), "a key that was revoked hears no more");
    let mut events = follow(&host, &waiting, None).await;
    cancel(&host, &running).await;
    once(&host, &waiting, "success").await;
    assert_eq!(names(&events.rest().await), ["output", "end"]);
    let running = submit(&host, "slow-host-call", json!({ "ms": 500 })).await;
    once(&host, &running, "running").await;
    let waiting = submit(&host, "slow-host-call", json!({ "ms": 1 })).await;
    let (mut of_running, mut of_waiting) = (follow(&host, &running, None).await, follow(&host, &waiting, None).await);
    let stopped = tokio::task::spawn_blocking(move || host.stop());
    assert_eq!(names(&of_waiting.rest().await), [] as [&str; 0]);
    assert_eq!(names(&of_running.rest().await), ["output", "end"]);
    stopped.await.unwrap();
}

#[tokio::test]
async fn what_a_run_with_secrets_says_is_told_at_its_end_where_they_are_taken_out() {
    let host = Host::start();
    let secret = json!({ "value": "s3cret-value", "for": "https://a.example", "header": "x-token" });
    let stored = host.send(Method::PUT, "/api/secrets/TOKEN", secret).await;
    assert!(stored.status.is_success(), "{}", stored.body);
    push_probe(&host, json!({ "network": ["public"], "secrets": ["TOKEN"] })).await;
    let steps = json!([["log", "", "word"], ["progress", 1, 2, "word"], ["log", "", "more"]]);
    let (mut events, _) = begin(&host, None, "probe", steps).await;
    let events = events.rest().await;
    assert_eq!(names(&events), ["progress", "output", "end"]);
    assert_eq!((&events[0].data["done"], &events[0].data["message"]), (&json!(1.0), &json!("")));
    assert_eq!(events[2].data["log"][1]["message"], "more");
}

#[tokio::test]
async fn a_stream_on_which_nothing_happens_says_that_it_lives() {
    let host = host().await;
    let (mut events, location) = begin(&host, None, "probe", json!([wait(28_000)])).await;
    events.heartbeat().await;
    assert_eq!(look(&host, id_at(&location)).await["status"], "running");
    cancel(&host, id_at(&location)).await;
    assert_eq!(names(&events.rest().await), ["end"]);
}
