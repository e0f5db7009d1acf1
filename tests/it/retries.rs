use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, guest, reply, until};

const RUN: &str = "/api/skills/executions";

#[tokio::test]
async fn a_skill_is_tried_again_as_its_manifest_or_its_caller_says_and_each_attempt_is_on_record() {
    let mut host = Host::start().with("trap").await;
    let run =
        json!({ "skillId": "trap", "args": { "kind": "unreachable" }, "retry": { "maxRetries": 2, "backoffMs": 1 } });
    let ran = host.send(Method::POST, RUN, run).await.body;
    assert_eq!((&ran["attempts"], &ran["error"]["code"]), (&json!(3), &json!("trap")), "{ran}");
    let earlier: Vec<_> = ran["earlierAttempts"].as_array().unwrap().iter().collect();
    assert_eq!(earlier.len(), 2);
    assert_eq!((&earlier[1]["attempt"], &earlier[1]["code"]), (&json!(2), &json!("trap")));
    let fuel = |of: &Value| of["fuel"].as_u64().unwrap();
    assert!(fuel(&ran["usage"]) > fuel(earlier[0]) + fuel(earlier[1]), "{ran}");

    let digest = host.get("/api/skills/trap").await.body["digest"].clone();
    let manifest = json!({ "name": "again", "version": "1.0.0", "handler": digest,
                           "retry": { "maxRetries": 1, "backoffMs": 1, "on": ["timeout", "trap"] } });
    let skill = host.send(Method::POST, "/api/skills/skillssh", manifest).await;
    assert_eq!(skill.body["retry"], json!({ "maxRetries": 1, "on": ["timeout", "trap"], "backoffMs": 1 }));
    host.kill_and_restart();
    let twice =
        host.send(Method::POST, RUN, json!({ "skillId": "again", "args": { "kind": "unreachable" } })).await.body;
    assert_eq!(twice["attempts"], 2, "{twice}");
    let path = format!("{RUN}/{}", twice["id"].as_str().unwrap());
    assert_eq!(host.get(&path).await.body["earlierAttempts"], twice["earlierAttempts"]);
    let once = host
        .send(Method::POST, RUN, json!({ "skillId": "again", "args": { "kind": "unreachable" }, "maxRetries": 0 }))
        .await
        .body;
    assert_eq!((&once["attempts"], &once["earlierAttempts"]), (&json!(1), &Value::Null));
    let other = host
        .send(
            Method::POST,
            RUN,
            json!({ "skillId": "again", "args": { "kind": "unreachable" }, "retry": { "on": ["timeout"] } }),
        )
        .await
        .body;
    assert_eq!(other["attempts"], 1);
}

#[tokio::test]
async fn attempts_that_time_out_are_followed_by_others_as_long_as_the_run_has_time() {
    let host = Host::start().with("spin").await;
    let limits = json!({ "timeoutMs": 10_000, "attemptTimeoutMs": 200, "fuel": 1_000_000_000_000_u64 });
    let run = json!({ "skillId": "spin", "limits": limits, "retry": { "maxRetries": 2, "backoffMs": 1 } });
    let ran = host.send(Method::POST, RUN, run).await.body;
    assert_eq!((&ran["status"], &ran["attempts"]), (&json!("timeout"), &json!(3)), "{ran}");
    assert!(ran["error"]["message"].as_str().unwrap().contains("attemptTimeoutMs"));
    // The next attempt would begin after the deadline of the whole.
    let limits = json!({ "timeoutMs": 1_000, "attemptTimeoutMs": 200, "fuel": 1_000_000_000_000_u64 });
    let run = json!({ "skillId": "spin", "limits": limits, "retry": { "maxRetries": 2, "backoffMs": 5_000 } });
    assert_eq!(host.send(Method::POST, RUN, run).await.body["attempts"], 1);
}

#[tokio::test]
async fn what_is_cancelled_between_two_attempts_is_not_tried_again() {
    let host = Host::start().with("trap").await;
    let run = json!({ "skillId": "trap", "args": { "kind": "unreachable" }, "retry": { "maxRetries": 5, "backoffMs": 20_000 } });
    let (ran, ()) = tokio::join!(host.send(Method::POST, RUN, run), async {
        let id = until(async || {
            let page = host.get(&format!("{RUN}?status=running")).await;
            page.body["executions"][0]["id"].as_str().map(str::to_owned)
        })
        .await;
        let cancelled = host.send(Method::POST, &format!("{RUN}/{id}/cancel"), Value::Null).await;
        assert_eq!(cancelled.body["status"], "cancelled", "{}", cancelled.body);
    });
    assert_eq!((&ran.body["status"], &ran.body["attempts"]), (&json!("cancelled"), &json!(1)), "{}", ran.body);
}

#[tokio::test]
async fn a_skill_that_is_disabled_meanwhile_is_not_tried_again() {
    let host = Host::start().with("trap").await;
    let retry = json!({ "maxRetries": 1, "backoffMs": 6_000 });
    let run = json!({ "skillId": "trap", "args": { "kind": "unreachable" }, "retry": retry });
    let (ran, ()) = tokio::join!(host.send(Method::POST, RUN, run), async {
        until(async || (host.get(&format!("{RUN}?status=running")).await.body["total"] == 1).then_some(())).await;
        let disabled = host.send(Method::PATCH, "/api/skills/trap@1.0.0", json!({ "enabled": false })).await;
        assert_eq!(disabled.status, 200, "{}", disabled.body);
    });
    assert_eq!((&ran.body["error"]["code"], &ran.body["attempts"]), (&json!("trap"), &json!(1)), "{}", ran.body);
}

#[tokio::test]
async fn what_a_key_began_that_is_revoked_meanwhile_is_not_tried_again() {
    let host = Host::start();
    let made = host.send(Method::POST, "/api/keys", json!({ "name": "k", "owner": "ada" })).await.body;
    let (id, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    let upload = host.request_as(Some(secret), Method::POST, "/api/skills?name=trap&version=1.0.0");
    let pushed = reply(upload.header("content-type", "application/wasm").body(guest("trap"))).await;
    assert!(pushed.status.is_success(), "{}", pushed.body);
    let retry = json!({ "maxRetries": 1, "backoffMs": 6_000 });
    let run = json!({ "skillId": "trap", "args": { "kind": "unreachable" }, "retry": retry });
    let request = host.request_as(Some(secret), Method::POST, RUN).body(run.to_string());
    let (ran, ()) = tokio::join!(reply(request), async {
        until(async || (host.get(&format!("{RUN}?status=running")).await.body["total"] == 1).then_some(())).await;
        assert_eq!(host.send(Method::DELETE, &format!("/api/keys/{id}"), json!(null)).await.status, 204);
    });
    assert_eq!((&ran.body["error"]["code"], &ran.body["attempts"]), (&json!("trap"), &json!(1)), "{}", ran.body);
}

#[tokio::test]
async fn a_policy_out_of_bounds_is_refused_at_its_place() {
    let host = Host::start();
    assert!(host.upload("trap", guest("trap")).await.status.is_success());
    for (retry, place) in [
        (json!({ "maxRetries": 11 }), "/maxRetries"),
        (json!({ "retry": { "backoffMs": 60_001 } }), "/retry/backoffMs"),
        (json!({ "retry": { "maxRetries": 1 }, "maxRetries": 1 }), "/retry"),
    ] {
        let mut run = json!({ "skillId": "trap" });
        run.as_object_mut().unwrap().extend(retry.as_object().unwrap().clone());
        let refused = host.send(Method::POST, RUN, run).await;
        assert_eq!(
            (refused.summary().as_str(), &refused.body["errors"][0]["pointer"]),
            ("400 malformed", &json!(place))
        );
    }
}
