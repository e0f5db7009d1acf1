use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, guest, reply};

async fn new_key(host: &Host, name: &str, scopes: Value) -> String {
    let made = host.send(Method::POST, "/api/keys", json!({ "name": name, "scopes": scopes })).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.body["secret"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn no_key_and_a_wrong_key_are_refused_alike() {
    let host = Host::start();
    for path in ["/api/skills", "/api/skills/executions", "/api/keys", "/api/skills/x"] {
        let without = reply(host.request_as(None, Method::GET, path)).await;
        let wrong = reply(host.request_as(Some("sk_wrong"), Method::GET, path)).await;
        assert_eq!(without.summary(), "401 unauthenticated", "{path}");
        assert_eq!(without.body, wrong.body, "{path}");
    }
}

#[tokio::test]
async fn what_belongs_to_another_owner_is_as_absent() {
    let host = Host::start().with("hello").await;
    let run = host.run("hello", json!({}), json!({})).await;
    let stranger = new_key(&host, "stranger", json!([])).await;
    let foreign = format!("/api/skills/executions/{}", run.body["id"].as_str().unwrap());
    let skill = host.get("/api/skills/hello").await.body["id"].as_str().unwrap().to_owned();
    for (path, absent) in [
        (foreign.as_str(), "/api/skills/executions/00000000-0000-7000-8000-000000000000"),
        (&format!("/api/skills/{skill}"), "/api/skills/00000000-0000-7000-8000-000000000000"),
        ("/api/skills/hello", "/api/skills/nothing"),
    ] {
        let mut one = reply(host.request_as(Some(&stranger), Method::GET, path)).await;
        let mut other = reply(host.request_as(Some(&stranger), Method::GET, absent)).await;
        // What the stranger asked for is told back, and is all the difference there is.
        assert_eq!((one.body["instance"].take(), other.body["instance"].take()), (json!(path), json!(absent)));
        assert_eq!((one.summary().as_str(), one.body), ("404 not_found", other.body), "{path}");
    }
    let list = reply(host.request_as(Some(&stranger), Method::GET, "/api/skills")).await;
    assert_eq!(list.body["total"], 0);
}

#[tokio::test]
async fn a_key_does_what_its_scopes_say_until_it_is_revoked() {
    let host = Host::start();
    let reader = new_key(&host, "reader", json!(["skills:read"])).await;
    let upload = host.request_as(Some(&reader), Method::POST, "/api/skills?name=a&version=1.0.0");
    let upload = upload.header("content-type", "application/wasm").body(guest("image-thumb"));
    assert_eq!(reply(upload).await.summary(), "403 insufficient_scope");
    let keys = host.get("/api/keys").await;
    let id = keys.body["keys"][1]["id"].as_str().unwrap();
    let rotated = host.send(Method::POST, &format!("/api/keys/{id}/rotate"), json!({})).await;
    let list = |key: String| reply(host.request_as(Some(&key), Method::GET, "/api/skills"));
    assert_eq!(list(reader).await.status, 401);
    let renewed = rotated.body["secret"].as_str().unwrap().to_owned();
    assert_eq!(list(renewed.clone()).await.status, 200);
    assert_eq!(host.send(Method::DELETE, &format!("/api/keys/{id}"), json!(null)).await.status, 204);
    assert_eq!(list(renewed).await.status, 401);
}
