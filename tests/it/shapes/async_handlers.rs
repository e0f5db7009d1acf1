//! Servers by `wasi:http/handler` of WASI 0.3.

use serde_json::{Value, json};

use crate::support::{Host, guest};

/// Runs the fixture `async-server` in one of its ways.
async fn run(host: &Host, way: &str) -> Value {
    let limits = json!({ "timeoutMs": 3000, "outputBytes": 20_000, "fuel": 1_000_000_000_000_u64 });
    host.run("async-server", json!(way), limits).await.body
}

#[tokio::test]
async fn a_server_for_wasi_0_3_is_asked_with_json_and_its_response_is_the_output() {
    let host = Host::start();
    let skill = host.upload("async-handler", guest("async-handler")).await.body;
    assert_eq!(skill["functions"][0]["name"], "run", "{skill}");
    let ran = host.run("async-handler", json!({ "name": "Ada" }), json!({})).await.body;
    assert_eq!((&ran["status"], &ran["output"]), (&json!("success"), &json!(r#"{"NAME":"ADA"}"#)), "{ran}");
    assert!(ran["usage"]["fuel"].as_u64().unwrap() > 0, "{ran}");
    let ran = host.run("async-handler", json!({ "name": "x".repeat(300_000) }), json!({})).await.body;
    assert_eq!(ran["output"].as_str().map(str::len), Some(300_011));
}

#[tokio::test]
async fn what_a_server_for_wasi_0_3_answers_is_read_as_that_of_any_server() {
    let host = Host::start().with("async-server").await;
    for (way, output) in [
        ("status 200 hello", json!("hello")),
        ("status 204", Value::Null),
        ("json 0 {'a': [1]}", json!({ "a": [1] })),
        ("pieces 100 ab", json!("ab".repeat(100))),
    ] {
        let ran = run(&host, way).await;
        assert_eq!((&ran["status"], &ran["output"]), (&json!("success"), &output), "{way}: {ran}");
    }
    // The body of the request itself, which the guest never read.
    let through = host.run("async-server", json!({}), json!({})).await.body;
    assert_eq!((&through["status"], &through["output"]), (&json!("success"), &json!({})), "{through}");
    let ran = run(&host, "request").await;
    let asked = ran["output"].as_str().unwrap();
    assert!(asked.starts_with("Method::Post Some(\"/\") Some(\"application/json\") 9"), "{ran}");
    for (way, code) in [
        ("status 404 nothing", "skill_error"),
        ("json 0 {", "invalid_output"),
        ("short 0 half", "invalid_output"),
        ("long 0 more", "invalid_output"),
        ("broken", "invalid_output"),
        ("error", "skill_error"),
        ("trap", "trap"),
        ("endless", "output_too_large"),
        ("stuck", "timeout"),
        ("never", "trap"),
    ] {
        let ran = run(&host, way).await;
        assert_eq!(ran["error"]["code"], code, "{way}: {ran}");
        assert_eq!(ran["output"], Value::Null, "{way}: {ran}");
    }
    let ran = run(&host, "status 404 nothing").await;
    assert_eq!(ran["error"]["detail"], json!({ "status": 404, "value": "nothing" }), "{ran}");
}
