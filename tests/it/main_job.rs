use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, guest, reply};

#[tokio::test]
async fn a_skill_is_uploaded_run_and_found_in_the_audit() {
    let host = Host::start().with("hello").await;
    let run = host.run("hello@^1", json!({ "name": "Ada" }), json!({})).await;
    assert_eq!(run.body["output"], json!({ "greeting": "Hello, Ada!" }), "{}", run.body);
    assert_eq!((&run.body["status"], &run.body["skillId"]), (&json!("success"), &json!("hello@1.0.0")));
    assert!(run.body["usage"]["fuel"].as_u64().unwrap() > 1000);
    let id = run.body["id"].as_str().unwrap();
    let found = host.get(&format!("/api/skills/executions/{id}")).await;
    assert_eq!(found.body["output"], run.body["output"]);
    let list = host.get("/api/skills/executions?skill=hello").await;
    assert_eq!((&list.body["total"], &list.body["executions"][0]["id"]), (&json!(1), &json!(id)));
}

#[tokio::test]
async fn the_same_again_is_no_change_and_something_else_is_a_conflict() {
    let host = Host::start().with("hello").await;
    assert_eq!(host.upload("hello", guest("hello")).await.status, 200);
    assert_eq!(host.upload("hello", guest("echo")).await.summary(), "409 conflict");
    let delete = reply(host.request_as(None, Method::DELETE, "/api/skills/hello@1.0.0")).await;
    assert_eq!(delete.summary(), "401 unauthenticated");
    assert_eq!(host.send(Method::DELETE, "/api/skills/hello@1.0.0", json!(null)).await.status, 204);
    assert_eq!(host.run("hello", json!({}), json!({})).await.summary(), "404 not_found");
    assert_eq!(host.upload("hello", guest("echo")).await.summary(), "409 conflict");
    assert_eq!(host.upload("hello", guest("hello")).await.status, 201);
}

#[tokio::test]
async fn a_disabled_skill_does_not_run() {
    let host = Host::start().with("hello").await;
    let off = host.send(Method::PATCH, "/api/skills/hello", json!({ "enabled": false })).await;
    assert_eq!(off.body["enabled"], false);
    assert_eq!(host.run("hello", json!({}), json!({})).await.summary(), "409 skill_disabled");
}

#[tokio::test]
async fn arguments_are_checked_before_anything_is_recorded() {
    let host = Host::start();
    let manifest = json!({
        "name": "echo", "version": "2.0.0", "handler": "wasm",
        "schema": { "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" } } },
    });
    let form = reqwest::multipart::Form::new()
        .text("manifest", manifest.to_string())
        .part("component", reqwest::multipart::Part::bytes(guest("echo")));
    let key = std::fs::read_to_string(host.dir.path().join("data/admin.key")).unwrap();
    let made = reply(host.request_as(Some(&key), Method::POST, "/api/skills").multipart(form)).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let bad = host.run("echo", json!({ "n": "x" }), json!({})).await;
    assert_eq!((bad.summary().as_str(), &bad.body["errors"][0]["pointer"]), ("422 invalid_args", &json!("/n")));
    assert_eq!(host.get("/api/skills/executions").await.body["total"], 0);
    let good = host.run("echo", json!({ "n": 7 }), json!({})).await;
    assert_eq!(good.body["output"], json!({ "n": 7 }));
}

#[tokio::test]
async fn what_is_no_component_is_refused_with_the_reason() {
    let host = Host::start();
    let mut cut = guest("hello");
    cut.truncate(20_000);
    for bytes in [b"".to_vec(), b"hello".to_vec(), b"\0asm\x01\0\0\0".to_vec(), cut] {
        assert_eq!(host.upload("x", bytes).await.summary(), "422 invalid_component");
    }
    assert_eq!(host.upload("../x", guest("hello")).await.summary(), "422 invalid_manifest");
    let stray: Vec<_> = std::fs::read_dir(host.dir.path().join("data/blobs")).unwrap().collect();
    assert!(stray.is_empty(), "{stray:?}");
}

#[tokio::test]
async fn bad_requests_get_a_problem_each() {
    let host = Host::start().with("echo").await;
    let post = |body: String| {
        let key = std::fs::read_to_string(host.dir.path().join("data/admin.key")).unwrap();
        reply(host.request_as(Some(&key), Method::POST, "/api/skills/executions").body(body))
    };
    let deep = format!("{{\"skillId\":\"echo\",\"args\":{}1{}}}", "[".repeat(100), "]".repeat(100));
    for (body, summary) in [
        ("{".to_owned(), "400 malformed"),
        ("{\"skillId\":\"echo\",\"nope\":1}".to_owned(), "400 malformed"),
        ("{\"skillId\":\"echo\",\"args\":{\"a\":1,\"a\":2}}".to_owned(), "400 malformed"),
        ("{\"skillId\":\"echo\",\"args\":1e999}".to_owned(), "400 malformed"),
        (deep, "400 malformed"),
        ("{\"skillId\":\"../../etc/passwd\"}".to_owned(), "404 not_found"),
        ("{\"skillId\":\"echo@9\"}".to_owned(), "404 not_found"),
        ("{\"skillId\":\"echo\",\"mode\":\"later\"}".to_owned(), "400 malformed"),
        (format!("{{\"skillId\":\"echo\",\"args\":\"{}\"}}", "x".repeat(2 << 20)), "413 too_large"),
    ] {
        assert_eq!(post(body.clone()).await.summary(), summary, "{body:.60}");
    }
    assert_eq!(host.get("/nowhere").await.summary(), "404 not_found");
    assert_eq!(host.send(Method::PUT, "/api/skills", json!({})).await.summary(), "405 method_not_allowed");
}

#[tokio::test]
async fn requests_in_the_words_of_omniroute_are_understood() {
    let host = Host::start().with("echo").await.with("spin").await;
    let post = async |body: Value| host.send(Method::POST, "/api/skills/executions", body).await;
    let run = |more: Value| {
        let mut body = json!({ "skillName": "echo", "input": { "n": 1 } });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        post(body)
    };
    let defaults = json!({
        "cpuLimit": 100, "memoryLimit": 64, "timeout": 5000, "networkEnabled": false, "readOnly": true,
        "maxRetries": 0, "apiKeyId": "admin",
    });
    let ran = run(defaults).await;
    assert_eq!((&ran.body["status"], &ran.body["output"]), (&json!("success"), &json!({ "n": 1 })), "{}", ran.body);
    assert_eq!(run(json!({ "retry": { "maxRetries": 0 } })).await.status, 200);
    assert_eq!(run(json!({ "maxRetries": 2 })).await.status, 200);
    for (more, summary, pointer) in [
        (json!({ "cpuLimit": 0 }), "400 malformed", "/cpuLimit"),
        (json!({ "networkEnabled": true }), "422 not_supported", "/networkEnabled"),
        (json!({ "readOnly": false }), "422 not_supported", "/readOnly"),
        (json!({ "maxRetries": 0, "retry": {} }), "400 malformed", "/retry"),
        (json!({ "timeout": 0 }), "400 malformed", "/timeout"),
        (json!({ "memoryLimit": 64, "limits": { "memoryMb": 65 } }), "400 malformed", "/memoryLimit"),
        (json!({ "apiKeyId": "somebody" }), "403 forbidden", "/apiKeyId"),
    ] {
        let refused = run(more.clone()).await;
        assert_eq!(refused.summary(), summary, "{more}: {}", refused.body);
        assert_eq!(refused.body["errors"][0]["pointer"], pointer, "{more}: {}", refused.body);
    }
    let unknown = run(json!({ "retry": { "times": 2 } })).await;
    assert_eq!(unknown.summary(), "400 malformed");
    let limits = json!({ "fuel": 1_000_000_000_000_u64 });
    let stopped = post(json!({ "skill": "spin", "timeout": 150, "limits": limits })).await;
    assert!(stopped.body["error"]["message"].as_str().unwrap().contains("150 ms"), "{}", stopped.body);
    let starved = post(json!({ "skill": "echo", "memoryLimit": 1 })).await;
    assert_eq!(starved.body["error"]["code"], "out_of_memory", "{}", starved.body);
}

#[tokio::test]
async fn a_manifest_in_the_words_of_omniroute_is_understood() {
    let host = Host::start().with("echo").await;
    let digest = host.get("/api/skills/echo").await.body["digest"].clone();
    let register = async |more: Value| {
        let mut manifest = json!({ "name": "theirs", "version": "1.0.0", "handlerCode": digest });
        manifest.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        host.send(Method::POST, "/api/skills/skillssh", manifest).await
    };
    let refused = register(json!({ "timeout": 0, "cpuLimit": 10, "limits": { "cpuPercent": 20 } })).await;
    let pointers: Vec<_> =
        refused.body["errors"].as_array().unwrap().iter().map(|one| one["pointer"].as_str().unwrap()).collect();
    assert_eq!((refused.summary().as_str(), pointers), ("422 invalid_manifest", vec!["/cpuLimit", "/timeout"]));
    let fields = json!({
        "timeout": 1234, "memoryLimit": 32, "cpuLimit": 50, "networkEnabled": false, "readOnly": true,
        "apiKeyId": "admin",
    });
    let made = register(fields).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let limits = &made.body["limits"];
    assert_eq!((&limits["timeoutMs"], &limits["memoryMb"]), (&json!(1234), &json!(32)), "{limits}");
    assert_eq!(limits["cpuPercent"], 50);
}
