use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, until};

use super::{host, key, push, run, steps};

/// A host with `probe`, which may keep things.
async fn keeping() -> Host {
    host(json!({ "kv": true })).await
}

#[tokio::test]
async fn both_drafts_read_write_count_and_list_the_same_keys() {
    let host = keeping().await;
    let asked = json!([
        ["set", "k", "v"],
        ["old-get", "k"],
        ["old-set", "k", "w"],
        ["get", "k"],
        ["exists", "none"],
        ["get", "none"],
        ["add", "n", 5],
        ["old-add", "n", 2],
        ["add", "n", -10],
        ["get", "n"],
        ["delete", "k"],
        ["old-exists", "k"],
        ["delete", "k"]
    ]);
    let expected = json!([null, "v", null, "w", false, null, 5, 7, -3, "-3", null, false, null]);
    assert_eq!(steps(&host, asked).await, expected);
    let asked = json!([["set-many", { "a": "1", "b": "2" }], ["get-many", ["a", "none", "b"]],
        ["old-get-many", ["a", "none", "b"]], ["in", "other", "keys"], ["keys"], ["old-keys"],
        ["old-delete-many", ["a", "b", "none"]], ["count"]]);
    let expected = json!([
        null,
        [["a", "1"], ["none", null], ["b", "2"]],
        ["1", null, "2"],
        [[], null],
        [["n", "a", "b"], null],
        [["n", "a", "b"], null],
        null,
        1
    ]);
    assert_eq!(steps(&host, asked).await, expected);
}

#[tokio::test]
async fn what_was_kept_is_there_after_the_host_was_killed() {
    let mut host = keeping().await;
    assert_eq!(steps(&host, json!([["set", "k", "v"], ["add", "n", 41]])).await, json!([null, 41]));
    host.kill_and_restart();
    until(async || (host.get("/readyz").await.status == 200).then_some(())).await;
    assert_eq!(steps(&host, json!([["get", "k"], ["add", "n", 1]])).await, json!(["v", 42]));
}

#[tokio::test]
async fn without_the_grant_the_store_denies_access_and_the_run_says_what_would_allow_it() {
    let host = host(json!({})).await;
    let execution = run(&host, host.key(), "probe", json!([["get", "k"], ["old-set", "k", "v"]])).await;
    let denied = json!({ "error": "Error::AccessDenied" });
    assert_eq!(execution["output"], json!([denied, denied]));
    let denials = execution["denials"].as_array().unwrap();
    assert_eq!(
        (denials.len(), &denials[0]["import"], &denials[0]["grant"]),
        (1, &json!("wasi:keyvalue/store"), &json!("kv: true"))
    );
}

#[tokio::test]
async fn two_owners_and_two_skills_never_see_each_others_keys() {
    let host = Host::start();
    let global = json!({ "name": "probe", "version": "1.0.0", "owner": "system", "grants": { "kv": true } });
    assert!(super::push_manifest(&host, host.key(), global).await.status.is_success());
    let (ada, bob) = (key(&host, "ada", json!({})).await, key(&host, "bob", json!({})).await);
    let set = |value: &str| json!([["set", "k", value], ["count"]]);
    let get = || json!([["get", "k"], ["count"], ["get-many", ["k"]], ["keys"]]);
    assert_eq!(run(&host, &ada, "probe", set("ada")).await["output"], json!([null, 1]));
    let nothing = json!([null, 0, [["k", null]], [[], null]]);
    assert_eq!(run(&host, &bob, "probe", get()).await["output"], nothing);
    // Ada's own skill of the same name is another skill.
    assert!(push(&host, &ada, "probe", json!({ "kv": true })).await.status.is_success());
    assert_eq!(run(&host, &ada, "probe", get()).await["output"], nothing);
    assert!(push(&host, &bob, "other", json!({ "kv": true })).await.status.is_success());
    assert_eq!(run(&host, &bob, "probe", set("bob")).await["output"], json!([null, 1]));
    assert_eq!(run(&host, &bob, "other", get()).await["output"], nothing);
}

#[tokio::test]
async fn increments_and_swaps_of_parallel_runs_all_count() {
    let host = keeping().await;
    let args = json!({ "repeat": 5, "steps": [["add", "n", 1], ["append", "t", "x"]] });
    let runs = (0..12).map(|_| run(&host, host.key(), "probe", args.clone()));
    for execution in futures_util::future::join_all(runs).await {
        assert_eq!(execution["status"], "success", "{execution}");
    }
    assert_eq!(steps(&host, json!([["get", "n"], ["length", "t"]])).await, json!(["60", 60]));
}

#[tokio::test]
async fn what_is_too_long_or_no_number_is_refused_and_nothing_is_changed() {
    let host = keeping().await;
    let asked = json!([
        ["set", 1025, "v"],
        ["set", "", "v"],
        ["set", "big", 1_048_577],
        ["set", "n", "x"],
        ["add", "n", 1],
        ["keys", "no cursor"],
        ["get", "n"],
        ["count"]
    ]);
    let answers = steps(&host, asked).await;
    let error = |at: usize| answers[at]["error"].as_str().unwrap_or_default().to_owned();
    assert!(error(0).contains("1 to 1024 bytes") && error(1).contains("1 to 1024 bytes"), "{answers}");
    assert!(error(2).contains("1048576") && error(4).contains("decimal") && error(5).contains("cursor"), "{answers}");
    assert_eq!((&answers[6], &answers[7]), (&json!("x"), &json!(1)));
    let execution = run(&host, host.key(), "probe", json!([["set", 5_000_000, "v"]])).await;
    assert_eq!(execution["error"]["code"], "output_too_large", "{execution}");
}

#[tokio::test]
async fn a_flood_ends_at_the_quota_of_its_owner_and_others_keep_theirs() {
    let host = Host::start();
    let small = json!({ "ceilings": { "storage": { "kvBytes": 20_000 } } });
    let (ada, bob) = (key(&host, "ada", small).await, key(&host, "bob", json!({})).await);
    for key in [&ada, &bob] {
        assert!(push(&host, key, "probe", json!({ "kv": true })).await.status.is_success());
    }
    let flood = || json!([["fill", 300, 1000], ["count"], ["in", "other", "set", "k", 5000]]);
    let execution = run(&host, &ada, "probe", flood()).await;
    let answers = &execution["output"];
    let text = answers.to_string();
    assert!(text.contains("ceilings.storage.kvBytes") && answers[1] == json!(19), "{execution}");
    assert!(answers[2]["error"].is_string(), "{execution}");
    let execution = run(&host, &bob, "probe", flood()).await;
    assert_eq!(execution["output"], json!([300, 300, null]), "{execution}");
    let freed = json!([["delete", "key-0"], ["set", "key-0", 900], ["count"]]);
    assert_eq!(run(&host, &ada, "probe", freed).await["output"], json!([null, null, 19]));
}

#[tokio::test]
async fn the_deadline_holds_for_guests_that_wait_for_their_turn() {
    let host = keeping().await;
    let endless = json!({ "repeat": 1_000_000, "steps": [["set", "k", 100_000]] });
    let body = json!({ "skillId": "probe", "args": endless, "limits": { "timeoutMs": 400 } });
    let runs = (0..40).map(|_| host.send(Method::POST, "/api/skills/executions", body.clone()));
    for reply in futures_util::future::join_all(runs).await {
        assert_eq!(reply.body["status"], "timeout", "{}", reply.body);
    }
    assert_eq!(steps(&host, json!([["exists", "k"]])).await, Value::from(vec![true]));
}
