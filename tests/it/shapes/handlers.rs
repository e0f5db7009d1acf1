use serde_json::{Value, json};

use crate::support::{Host, guest};

/// Runs the fixture `handler` in one of its ways.
async fn run(host: &Host, args: Value) -> Value {
    host.run("handler", args, json!({ "timeoutMs": 2000, "outputBytes": 20_000 })).await.body
}

#[tokio::test]
async fn a_server_is_asked_with_json_and_its_response_is_the_output() {
    let host = Host::start();
    let skill = host.upload("http-handler", guest("http-handler")).await.body;
    assert_eq!(skill["functions"][0]["name"], "run", "{skill}");
    let ran = host.run("http-handler", json!({ "name": "Ada" }), json!({})).await.body;
    assert_eq!((&ran["status"], &ran["output"]), (&json!("success"), &json!({ "greeting": "Hello, Ada!" })), "{ran}");
    assert_eq!(ran["exitCode"], Value::Null, "{ran}");
    let long = "x".repeat(100_000);
    let ran = host.run("http-handler", json!({ "name": long }), json!({})).await.body;
    assert_eq!(ran["output"]["greeting"].as_str().unwrap().len(), 100_008);
    let failed = host.run("http-handler", json!({ "nom": "Ada" }), json!({})).await.body;
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("error"), &json!("skill_error")), "{failed}");
    assert_eq!(failed["error"]["detail"]["status"], 400, "{failed}");
    assert!(failed["error"]["detail"]["value"]["error"].as_str().unwrap().contains("name"), "{failed}");
}

#[tokio::test]
async fn the_content_type_says_what_the_output_is() {
    let host = Host::start().with("handler").await;
    for (args, output) in [
        (json!({ "way": "answer", "kind": "application/json", "body": "{\"a\": 1}" }), json!({ "a": 1 })),
        (json!({ "way": "answer", "kind": "application/problem+JSON; charset=utf-8", "body": "[1]" }), json!([1])),
        (json!({ "way": "answer", "kind": "application/json" }), Value::Null),
        (json!({ "way": "answer", "kind": "text/plain", "body": "[1]" }), json!("[1]")),
        (json!({ "way": "answer", "body": "[1]" }), json!([1])),
        (json!({ "way": "answer", "body": "hello" }), json!("hello")),
        (json!({ "way": "answer", "status": 204 }), Value::Null),
        (json!({ "way": "answer", "status": 302, "body": "there" }), json!("there")),
        (json!({ "way": "binary" }), json!("/wAB")),
        (json!({ "way": "binary", "kind": "image/png" }), json!("/wAB")),
    ] {
        let ran = run(&host, args.clone()).await;
        assert_eq!((&ran["status"], &ran["output"]), (&json!("success"), &output), "{args}: {ran}");
    }
    for args in [
        json!({ "way": "answer", "kind": "application/json", "body": "{" }),
        json!({ "way": "binary", "kind": "application/json" }),
    ] {
        let ran = run(&host, args.clone()).await;
        assert_eq!(ran["error"]["code"], "invalid_output", "{args}: {ran}");
    }
}

#[tokio::test]
async fn the_request_is_a_post_to_the_root() {
    let host = Host::start().with("handler").await;
    let args = json!({ "way": "request" });
    let ran = run(&host, args.clone()).await;
    assert_eq!(ran["output"], format!("Method::Post / application/json {}", args.to_string().len()), "{ran}");
}

#[tokio::test]
async fn a_status_of_400_and_more_is_an_error_with_what_was_said() {
    let host = Host::start().with("handler").await;
    for (args, value) in [
        (json!({ "way": "answer", "status": 404, "kind": "text/plain", "body": "no\u{1b} such" }), json!("no such")),
        (
            json!({ "way": "answer", "status": 503, "kind": "application/json", "body": "{\"a\": 1}" }),
            json!({ "a": 1 }),
        ),
        (json!({ "way": "answer", "status": 500, "body": "x".repeat(17_000) }), Value::Null),
        (json!({ "way": "binary", "status": 400 }), json!("\u{fffd}\u{fffd}")),
    ] {
        let ran = run(&host, args.clone()).await;
        let error = &ran["error"];
        assert_eq!(error["code"], "skill_error", "{args}: {ran}");
        let status = args["status"].as_u64().unwrap_or(200);
        assert_eq!(error["detail"]["status"], status, "{ran}");
        if status != 400 {
            assert_eq!(error["detail"]["value"], value, "{ran}");
        }
        assert!(error["message"].as_str().unwrap().starts_with(&format!("the handler answered {status}")), "{ran}");
    }
}

#[tokio::test]
async fn a_server_that_gives_no_whole_response_fails_and_says_why() {
    let host = Host::start().with("handler").await;
    for (way, outcome) in [
        ("silent", "invalid_output"),
        ("unfinished", "invalid_output"),
        ("abandoned", "invalid_output"),
        ("error", "skill_error"),
        ("never", "timeout"),
        ("stream", "output_too_large"),
        ("forever", "timeout"),
        ("trap", "trap"),
    ] {
        let ran = run(&host, json!({ "way": way, "body": "half" })).await;
        assert_eq!(ran["error"]["code"], outcome, "{way}: {ran}");
        assert_eq!(ran["output"], Value::Null, "{way}: {ran}");
    }
    let ran = run(&host, json!({ "way": "error" })).await;
    assert!(ran["error"]["message"].as_str().unwrap().contains("asked to"), "{ran}");
}

#[tokio::test]
async fn what_a_server_does_after_its_response_belongs_to_the_run() {
    let host = Host::start().with("handler").await;
    let ran = run(&host, json!({ "way": "later", "body": "\"done\"" })).await;
    assert_eq!((&ran["output"], &ran["stderr"]), (&json!("done"), &json!("later\n")), "{ran}");
}
