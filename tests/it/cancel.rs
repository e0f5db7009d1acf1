use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, Reply, reply, until};

/// The id of the execution that runs.
async fn running(host: &Host) -> String {
    until(async || {
        let page = host.get("/api/skills/executions?status=running").await;
        page.body["executions"][0]["id"].as_str().map(str::to_owned)
    })
    .await
}

async fn cancel(host: &Host, id: &str) -> Reply {
    host.send(Method::POST, &format!("/api/skills/executions/{id}/cancel"), Value::Null).await
}

#[tokio::test]
async fn a_guest_that_computes_or_waits_is_ended_and_both_callers_hear_the_same() {
    let host = Host::start().with("spin").await.with("slow-host-call").await;
    for (skill, args) in [("spin", json!({})), ("slow-host-call", json!({ "ms": 60_000 }))] {
        let (ran, cancelled) =
            tokio::join!(host.run(skill, args, json!({ "fuel": 1_000_000_000_000_000_u64 })), async {
                cancel(&host, &running(&host).await).await
            });
        assert_eq!((cancelled.status.as_u16(), &cancelled.body["status"]), (200, &json!("cancelled")), "{skill}");
        assert_eq!(ran.body["error"]["code"], "cancelled", "{skill}: {}", ran.body);
        assert_eq!((&ran.body["id"], &ran.body["killed"]), (&cancelled.body["id"], &json!(true)));
        let again = cancel(&host, ran.body["id"].as_str().unwrap()).await;
        assert_eq!(again.summary(), "409 already_finished", "{skill}");
    }
}

#[tokio::test]
async fn what_has_ended_or_is_anothers_cannot_be_cancelled() {
    let host = Host::start().with("hello").await.with("spin").await;
    let ended = host.run("hello", json!({}), json!({})).await;
    let ended = cancel(&host, ended.body["id"].as_str().unwrap()).await;
    assert_eq!(ended.summary(), "409 already_finished");
    let key = json!({ "name": "other", "scopes": ["skills:execute", "executions:read"] });
    let key = host.send(Method::POST, "/api/keys", key).await.body["secret"].as_str().unwrap().to_owned();
    let (_, ()) = tokio::join!(host.run("spin", json!({}), json!({ "timeoutMs": 20_000 })), async {
        let id = running(&host).await;
        let foreign = format!("/api/skills/executions/{id}/cancel");
        let absent = "/api/skills/executions/0198c0de-0000-7000-8000-000000000000/cancel";
        let refused = async |path| reply(host.request_as(Some(&key), Method::POST, path)).await;
        let (foreign, absent) = (refused(&foreign).await, refused(absent).await);
        assert_eq!((foreign.summary(), &foreign.body["detail"]), (absent.summary(), &absent.body["detail"]));
        assert_eq!(absent.summary(), "404 not_found");
        assert_eq!(cancel(&host, "nonsense").await.summary(), "404 not_found");
        assert_eq!(cancel(&host, &id).await.body["status"], "cancelled");
    });
}
