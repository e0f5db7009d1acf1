//! Skills with async functions that others call.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;

use crate::support::{Host, until};

use super::{push, run};

/// The engine for async functions has room for fewer runs than the host admits, and for half of them
/// of one owner. Whoever is called has a place all the same, or its callers would wait for each other.
#[tokio::test]
async fn called_async_skills_run_while_their_owner_has_taken_all_its_turns() {
    let host = Host::start().with("async-hello").await.with("async-hostile").await;
    let pushed = push(&host, host.key(), "root", json!({ "skills": ["async-hello"] })).await;
    assert!(pushed.status.is_success(), "{}", pushed.body);
    let sleeping =
        join_all((0..40).map(|_| host.outcome("async-hostile#sleep", json!({}), json!({ "timeoutMs": 60_000 }))));
    let work = async {
        let list = "/api/skills/executions?status=running";
        let running = until(async || {
            let page = host.get(list).await.body;
            (page["total"] == 40).then_some(page)
        });
        let running = running.await;
        let greet = json!([["call", "async-hello#greet-all", { "guests": [["Ada", 20], ["Grace", 1]] }]]);
        let roots = join_all((0..50).map(|_| run(&host, host.key(), "root", greet.clone()))).await;
        for root in roots {
            assert_eq!(root["output"], json!([["Hello, Grace!", "Hello, Ada!"]]), "{root}");
        }
        for execution in running["executions"].as_array().unwrap() {
            let path = format!("/api/skills/executions/{}/cancel", execution["id"].as_str().unwrap());
            host.send(Method::POST, &path, json!({})).await;
        }
    };
    let (ended, ()) = tokio::join!(sleeping, work);
    assert_eq!(ended, ["cancelled cancelled"; 40]);
}
