use reqwest::Method;
use serde_json::json;

use crate::support::{Host, guest};

async fn wit(host: &Host, skill: &str) -> (u16, Option<String>, String) {
    let path = format!("/api/skills/{skill}/wit");
    let got = host.request_as(Some(host.key()), Method::GET, &path).send().await.unwrap();
    if got.status().is_success() {
        assert_eq!(got.headers()["content-security-policy"], "sandbox");
        assert!(got.headers()["content-disposition"].to_str().unwrap().starts_with("attachment"));
    }
    let kind = got.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
    (got.status().as_u16(), kind, got.text().await.unwrap())
}

#[tokio::test]
async fn the_types_of_a_component_can_be_read_as_wit() {
    let mut host = Host::start().with("typed").await.with("http-handler").await;
    let (status, kind, text) = wit(&host, "typed@1.0.0").await;
    assert_eq!((status, kind.as_deref()), (200, Some("text/plain; charset=utf-8")), "{text}");
    assert!(text.contains("greet: func(name: option<string>) -> string;"), "{text}");
    let (status, _, text) = wit(&host, "http-handler").await;
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("export wasi:http/incoming-handler@0.2"), "{text}");
    host.kill_and_restart();
    assert_eq!(wit(&host, "http-handler").await.2, text, "what was printed is kept");
}

#[tokio::test]
async fn what_has_no_wit_says_so_and_anothers_is_absent() {
    let host = Host::start().with("module").await.with("hello").await;
    let (status, _, text) = wit(&host, "module").await;
    assert_eq!(status, 404, "{text}");
    assert!(text.contains("core module"), "{text}");
    assert_eq!(wit(&host, "nobody").await.0, 404);
    let other = host.send(Method::POST, "/api/keys", json!({ "name": "other", "owner": "other" })).await;
    let secret = other.body["secret"].as_str().unwrap();
    let path = |skill: &str| format!("/api/skills/{skill}/wit");
    for skill in ["hello", "module", "nobody"] {
        let refused = host.request_as(Some(secret), Method::GET, &path(skill)).send().await.unwrap();
        assert_eq!(refused.status(), 404, "{skill}");
        assert_eq!(host.request_as(None, Method::GET, &path(skill)).send().await.unwrap().status(), 401);
    }
}

#[tokio::test]
async fn a_component_whose_wit_is_out_of_proportion_has_none() {
    let host = Host::start();
    let mut types = String::from("(type $t0 (tuple string string string string string string string string))");
    for at in 1..=16 {
        types.push_str(&format!("(type $t{at} (tuple $t{0} $t{0}))", at - 1));
    }
    let text = format!(
        r#"(component {types} (export "huge" (type $t16))
           (core module $m (func (export "f")))
           (core instance $c (instantiate $m)) (func (export "f") (canon lift (core func $c "f"))))"#
    );
    let uploaded = host.upload("huge", wat::parse_str(text).unwrap()).await;
    assert_eq!(uploaded.status, 201, "{}", uploaded.body);
    for _ in 0..2 {
        let (status, _, text) = wit(&host, "huge").await;
        assert_eq!(status, 422, "{text}");
        assert!(text.contains("cannot be printed"), "{text}");
    }
    assert_eq!(host.outcome("huge", json!({}), json!({})).await, "success -", "it runs all the same");
    assert_eq!(host.upload("hello", guest("hello")).await.status, 201, "the host goes on");
}
