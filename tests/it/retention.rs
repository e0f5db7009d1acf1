use serde_json::json;

use crate::support::{Host, command, run, until};

#[tokio::test]
async fn of_a_result_that_is_no_longer_kept_a_short_copy_stays_and_says_so() {
    let host = Host::start_with(&["--retention-results", "4s"]).with("hello").await.with("refuse").await;
    let ran = host.run("hello", json!({ "name": "Ada" }), json!({})).await;
    let failed = host.run("refuse", json!({ "code": "no", "message": "never" }), json!({})).await;
    let path = |id: &serde_json::Value| format!("/api/skills/executions/{}", id.as_str().unwrap());
    let fresh = host.get(&path(&ran.body["id"])).await;
    assert_eq!(fresh.body["output"], json!({ "greeting": "Hello, Ada!" }));
    assert!(fresh.body.get("resultExpired").is_none() && ran.body.get("resultExpired").is_none());

    let expired = async |id| {
        let found = host.get(&path(id)).await;
        (found.body["resultExpired"] == true).then_some(found.body)
    };
    let old = until(async || expired(&ran.body["id"]).await).await;
    assert_eq!((&old["status"], &old["output"]), (&json!("success"), &json!(null)));
    assert_eq!(old["outputCopy"], r#"{"greeting":"Hello, Ada!"}"#);
    assert_eq!(old["outputBytes"], 26);
    assert_eq!(old["usage"]["fuel"], ran.body["usage"]["fuel"]);
    let old = until(async || expired(&failed.body["id"]).await).await;
    assert_eq!((&old["error"]["code"], old.get("outputCopy")), (&json!("skill_error"), None));

    let list = host.get("/api/skills/executions").await;
    assert_eq!(list.body["total"], 2);
    let id = ran.body["id"].as_str().unwrap();
    let page = run(&mut command(&host.dir.path().join("data"), &["logs", id])).expect(0);
    assert!(page.stdout.contains("no longer kept"), "{}", page.stdout);
}

#[tokio::test]
async fn results_in_their_time_stay() {
    let host = Host::start_with(&["--retention-results", "1h"]).with("hello").await;
    let ran = host.run("hello", json!({}), json!({})).await;
    let path = format!("/api/skills/executions/{}", ran.body["id"].as_str().unwrap());
    // The first look for old results comes with the start, so this one has seen the row.
    let again = Host::start_in(host.stop(), &["--retention-results", "1h"]);
    let found = again.get(&path).await;
    assert_eq!((&found.body["output"], found.body.get("resultExpired")), (&ran.body["output"], None));
}
