use reqwest::Method;
use serde_json::json;

use crate::support::{Host, command, reply, run, until};

use super::{Export, key, push};

#[tokio::test]
async fn a_key_in_quarantine_takes_its_skills_and_its_runs_along() {
    let host = Host::start();
    let ((id, bad), (_, good)) = (key(&host, "team").await, key(&host, "team").await);
    push(&host, &bad, ("spin", "spin")).await;
    push(&host, &good, ("hello", "hello")).await;
    let mut runs = Vec::new();
    // Of the skill that the bad key registered, whoever runs it; and of the bad key, whatever it runs.
    for secret in [&bad, &good] {
        let body = json!({ "skillId": "spin", "args": {}, "mode": "async", "limits": { "timeoutMs": 60_000 } });
        let sent = host.request_as(Some(secret), Method::POST, "/api/skills/executions").body(body.to_string());
        let accepted = reply(sent).await;
        assert_eq!(accepted.status, 202, "{}", accepted.body);
        runs.push(format!("/api/skills/executions/{}", accepted.body["id"].as_str().unwrap()));
    }
    let data = host.dir.path().join("data");
    run(&mut command(&data, &["keys", "revoke", "--quarantine", &id])).expect(0);
    for path in runs {
        let ended = until(async || {
            let found = host.get(&path).await.body;
            found["finishedAt"].is_string().then_some(found)
        });
        assert_eq!(ended.await["status"], "cancelled");
    }
    let as_good = async |path: &str| reply(host.request_as(Some(&good), Method::GET, path)).await.body;
    assert_eq!((&as_good("/api/skills/spin").await["enabled"]), &json!(false));
    assert_eq!((&as_good("/api/skills/hello").await["enabled"]), &json!(true));
    assert_eq!(reply(host.request_as(Some(&bad), Method::GET, "/api/skills")).await.status, 401);
    let export = Export::of(&host);
    export.whole();
    let acts = export.acts("key.quarantine");
    assert_eq!((acts.len(), &acts[0]["open"]["target"]), (1, &json!(id)));
    assert_eq!(export.acts("skill.update").len(), 1);
}
