use reqwest::Method;
use serde_json::json;

use crate::support::{Host, guest};

#[tokio::test]
async fn a_component_comes_back_byte_for_byte_with_its_digest_as_tag() {
    let host = Host::start().with("hello").await;
    let skill = host.get("/api/skills/hello").await.body;
    let path = "/api/skills/hello@1.0.0/component";
    let got = host.request_as(Some(host.key()), Method::GET, path).send().await.unwrap();
    let header = |name: &str| got.headers().get(name).unwrap().to_str().unwrap().to_owned();
    let tag = header("etag");
    assert_eq!(tag, format!("\"{}\"", skill["digest"].as_str().unwrap()));
    assert_eq!(header("content-type"), "application/wasm");
    assert_eq!(header("content-disposition"), "attachment; filename=\"hello-1.0.0.wasm\"");
    assert_eq!(
        (header("content-security-policy"), header("x-content-type-options")),
        ("sandbox".into(), "nosniff".into())
    );
    let known =
        host.request_as(Some(host.key()), Method::GET, path).header("if-none-match", &tag).send().await.unwrap();
    assert_eq!(known.status(), 304);
    assert_eq!(got.bytes().await.unwrap(), guest("hello"));
}

#[tokio::test]
async fn another_owners_component_is_as_absent_as_none() {
    let host = Host::start().with("hello").await;
    let other = host.send(Method::POST, "/api/keys", json!({ "name": "other", "owner": "other" })).await;
    let secret = other.body["secret"].as_str().unwrap();
    let id = host.get("/api/skills/hello").await.body["id"].as_str().unwrap().to_owned();
    for reference in [id.as_str(), "hello", "hello@1.0.0", "absent"] {
        let path = format!("/api/skills/{reference}/component");
        let refused = host.request_as(Some(secret), Method::GET, &path).send().await.unwrap();
        assert_eq!(refused.status(), 404, "{reference}");
        assert_eq!(host.request_as(None, Method::GET, &path).send().await.unwrap().status(), 401, "{reference}");
    }
}
