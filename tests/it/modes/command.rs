use std::process::Stdio;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::support::{Ended, Host, command, run, until};

use super::{RUN, look, once, push_probe, submit};

async fn on(host: &Host, arguments: &[&str]) -> Ended {
    let mut command = command(&host.dir.path().join("data"), arguments);
    tokio::task::spawn_blocking(move || run(&mut command)).await.unwrap()
}

async fn host() -> Host {
    let host = Host::start().with("slow-host-call").await.with("program").await;
    push_probe(&host, json!({ "kv": true })).await;
    host
}

#[tokio::test]
async fn a_run_is_begun_and_left_and_followed_later() {
    let host = host().await;
    let begun = on(&host, &["exec", "slow-host-call", "--args", "{\"ms\":700}", "--async"]).await.expect(0);
    let id = begun.stdout.trim_end();
    assert!(begun.stderr.contains(&format!("skillvisor logs {id}")), "{}", begun.stderr);
    let followed = on(&host, &["logs", id, "--follow"]).await.expect(0);
    assert_eq!(followed.stdout.trim_end(), "{\"sleptMs\":700}");
    assert!(followed.stderr.contains("success: slow-host-call@1.0.0"), "{}", followed.stderr);
    assert_eq!(look(&host, id).await["status"], "success");
    let told = on(&host, &["exec", "slow-host-call", "--args", "{\"ms\":1}", "--async", "--json"]).await.expect(0);
    assert_eq!(told.json()["status"], "pending");
    on(&host, &["exec", "slow-host-call", "--async", "--stream"]).await.expect(2);
    on(&host, &["logs", "01980000-0000-7000-8000-000000000000", "--follow"]).await.expect(4);
}

#[tokio::test]
async fn a_run_is_shown_while_it_goes_on_and_its_output_comes_last() {
    let host = host().await;
    let steps = r#"[["log","part","one"],["progress",1,2,"half"]]"#;
    let streamed = on(&host, &["exec", "probe", "--args", steps, "--stream"]).await.expect(0);
    assert_eq!(streamed.stdout, "[null,null]\n");
    let lines: Vec<_> = streamed.stderr.lines().collect();
    assert_eq!(lines[..2], ["warn part: one", "progress 1.0/2.0 half"], "{lines:?}");
    assert!(lines[2].starts_with("success: probe@1.0.0"), "{lines:?}");
    let print = r#"{"way":"print","text":"half a line"}"#;
    let printed = on(&host, &["exec", "program", "--args", print, "--stream"]).await.expect(0);
    assert!(printed.stderr.starts_with("half a line\nsuccess: "), "{}", printed.stderr);
    let failed = on(&host, &["exec", "probe", "--args", "[[\"fail\"]]", "--stream"]).await.expect(1);
    assert!(failed.stdout.is_empty() && failed.stderr.contains("code: trap"), "{}", failed.stderr);
    on(&host, &["exec", "none", "--stream"]).await.expect(4);
    let events = on(&host, &["exec", "probe", "--args", steps, "--stream", "--json"]).await.expect(0);
    let events: Vec<Value> = events.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["log", "progress", "output", "end"]);
    assert_eq!(events[3]["data"]["status"], "success");
}

#[tokio::test]
async fn a_word_makes_a_request_run_once() {
    let host = host().await;
    let arguments = ["exec", "probe", "--args", r#"[["add","n",1]]"#, "--idempotency-key", "w"];
    for _ in 0..2 {
        assert_eq!(on(&host, &arguments).await.expect(0).stdout, "[1]\n");
    }
    assert_eq!(on(&host, &[&arguments[..], &["--stream"]].concat()).await.code, 6, "another request");
    on(&host, &["exec", "probe", "--idempotency-key", "two words"]).await.expect(6);
    assert_eq!(host.get(RUN).await.body["total"], 1);
}

#[tokio::test]
async fn executions_are_listed_as_they_end() {
    let host = host().await;
    let before = host.run("probe", json!([]), json!({})).await.body["id"].clone();
    let slow = submit(&host, "slow-host-call", json!({ "ms": 60_000 })).await;
    let mut following = command(&host.dir.path().join("data"), &["logs", "--follow", "--json"]);
    following.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = tokio::process::Command::from(following).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || serde_json::from_str::<Value>(&lines.next_line().await.unwrap().unwrap()).unwrap();
    assert_eq!(next().await["id"], before);
    let quick = host.run("probe", json!([]), json!({})).await.body["id"].clone();
    assert_eq!(next().await["id"], quick);
    host.send(Method::POST, &format!("{RUN}/{slow}/cancel"), Value::Null).await;
    let last = next().await;
    assert_eq!((&last["id"], &last["status"]), (&json!(slow), &json!("cancelled")));
    child.kill().await.unwrap();
}

#[tokio::test]
async fn a_command_without_a_server_begins_nothing_that_waits_and_can_cancel_it() {
    let host = Host::start_with(&["--concurrency-per-owner", "1"]).with("slow-host-call").await;
    push_probe(&host, json!({ "kv": true })).await;
    let running = submit(&host, "slow-host-call", json!({ "ms": 60_000 })).await;
    once(&host, &running, "running").await;
    let add = json!([["add", "n", 1]]);
    let (one, two) = (submit(&host, "probe", add.clone()).await, submit(&host, "probe", add).await);
    let dir = host.kill();
    let data = dir.path().join("data");
    let alone = async |arguments: &[&str]| {
        let mut command = command(&data, arguments);
        tokio::task::spawn_blocking(move || run(&mut command)).await.unwrap()
    };
    let refused = alone(&["exec", "probe", "--async"]).await.expect(2);
    assert!(refused.stderr.contains("needs a server"), "{}", refused.stderr);
    let waiting = alone(&["logs", "--status", "pending", "--json"]).await.expect(0).json();
    assert_eq!(waiting["total"], 2);
    assert_eq!(alone(&["cancel", &one, "--json"]).await.expect(0).json()["status"], "cancelled");
    assert_eq!(alone(&["cancel", &one]).await.code, 5);
    let host = Host::start_in(dir, &[]);
    assert_eq!(once(&host, &two, "success").await["output"], json!([1]));
    until(async || (host.get(&format!("{RUN}?status=pending")).await.body["total"] == 0).then_some(())).await;
}
