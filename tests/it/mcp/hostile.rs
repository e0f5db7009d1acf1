//! Garbage, lies and abandonment: an error of the protocol, and a connection that stays usable.

use reqwest::Method;
use serde_json::{Value, json};

use super::answer;
use crate::support::{Host, reply, until};

#[tokio::test]
async fn what_is_no_message_is_told_as_the_protocol_says_and_the_connection_goes_on() {
    let host = Host::start().with_hello().await;
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let twice = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hello","arguments":{"name":"a","name":"b"}}}"#;
    let flood = format!("[{}]", vec![r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#; 1000].join(","));
    for (body, code) in [
        ("", -32700),
        ("{", -32700),
        ("garbage", -32700),
        ("7", -32600),
        ("null", -32600),
        ("[]", -32600),
        (flood.as_str(), -32600),
        (deep.as_str(), -32600),
        (twice, -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"tools/list"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{"a":1},"method":"tools/list"}"#, -32600),
    ] {
        let told = answer(host.mcp(host.key()).body(body.to_owned())).await;
        let shown: String = body.chars().take(60).collect();
        assert_eq!((told.status, told.code()), (400, &json!(code)), "{shown}: {}", told.one());
    }
    let early = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let told = answer(host.mcp(host.key()).body(early)).await;
    assert!(told.one()["error"]["message"].as_str().unwrap().contains("send `initialize` first"), "{}", told.one());
    let not_text = answer(host.mcp(host.key()).body(vec![b'{', 0xff, b'}'])).await;
    assert_eq!(not_text.code(), -32700);
    assert_eq!(host.call(host.key(), "hello", json!({})).await["isError"], false);
}

#[tokio::test]
async fn names_methods_and_revisions_that_do_not_exist_are_errors_of_the_protocol() {
    let host = Host::start().with_hello().await;
    for name in ["__proto__", "constructor", "toString", "hello__run", "Hello", "", "..", "a b", "größe", "hello@1.0.0"]
    {
        let mut request = host.asking(host.key(), "tools/call", json!({ "name": name })).build().unwrap();
        if !name.is_ascii() {
            request.headers_mut().insert("mcp-name", "=?base64?Z3LDtsOfZQ==?=".parse().unwrap());
        }
        let response = host.client.execute(request).await.unwrap();
        let told: Value = response.json().await.unwrap();
        assert_eq!(told["error"]["code"], -32602, "{name:?}: {told}");
    }
    let called =
        host.ask(host.key(), "tools/call", json!({ "name": "hello", "arguments": { "__proto__": { "a": 1 } } })).await;
    assert_eq!(called.one()["result"]["isError"], true);
    assert_eq!(host.ask(host.key(), "nothing/here", json!({})).await.code(), -32601);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2999-01-01", "io.modelcontextprotocol/clientCapabilities": {},
    } } });
    let request = host.mcp(host.key()).header("mcp-protocol-version", "2999-01-01").header("mcp-method", "tools/list");
    assert_eq!(answer(request.body(body.to_string())).await.code(), -32022);
    let mismatched = host.asking(host.key(), "tools/list", json!({})).header("mcp-method", "tools/call");
    assert_eq!(answer(mismatched).await.status, 400);
    assert_eq!(host.call(host.key(), "hello", json!({})).await["isError"], false);
}

#[tokio::test]
async fn nobody_gets_in_without_a_key_by_another_name_or_from_another_site() {
    let host =
        Host::start_with(&["--http-allowed-hosts", "skills.example", "--http-allowed-origins", "https://app.example"]);
    let ping = || host.asking(host.key(), "tools/list", json!({}));
    for (name, value, status) in [
        ("host", "evil.example", 403),
        ("host", "skills.example", 200),
        ("host", "localhost:1", 200),
        ("origin", "https://evil.example", 403),
        ("origin", "null", 403),
        ("origin", "https://app.example", 200),
    ] {
        let response = ping().header(name, value).send().await.unwrap();
        assert_eq!(response.status(), status, "{name}: {value}");
    }
    let unknown = reply(host.request_as(Some("sk_nobody"), Method::POST, "/mcp").body("{}")).await;
    assert_eq!(unknown.summary(), "401 unauthenticated");
    let large = host.mcp(host.key()).body(vec![b' '; 80 << 20]).send().await.unwrap();
    assert_eq!(large.status(), 413);
    let text = host.request_as(Some(host.key()), Method::POST, "/mcp").header("content-type", "text/plain").body("{}");
    assert_eq!(reply(text).await.summary(), "415 unsupported_media_type");
    assert_eq!(answer(ping()).await.status, 200);
}

#[tokio::test]
async fn a_session_is_its_keys_alone_and_ends_when_it_is_told_to() {
    let host = Host::start().with_hello().await;
    let session = host.session(host.key()).await;
    let body = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": { "name": "hello" } }).to_string();
    let used = |key: &str, id: &str| host.mcp(key).header("mcp-session-id", id).body(body.clone());
    let called = answer(used(host.key(), &session)).await;
    assert_eq!(called.one()["result"]["structuredContent"]["greeting"], "Hello, world!", "{}", called.one());
    let other = host.agent(&["skills:read", "skills:execute"]).await;
    let other = other["secret"].as_str().unwrap();
    let foreign = reply(used(other, &session)).await;
    let absent = reply(used(other, "00000000-0000-4000-8000-000000000000")).await;
    assert_eq!((foreign.summary(), &foreign.body), ("404 not_found".to_owned(), &absent.body));
    let delete = || host.request_as(Some(host.key()), Method::DELETE, "/mcp").header("mcp-session-id", &session);
    assert!(delete().send().await.unwrap().status().is_success());
    assert_eq!(reply(used(host.key(), &session)).await.summary(), "404 not_found");
    assert_eq!(reply(delete()).await.summary(), "404 not_found");
}

#[tokio::test]
async fn a_key_that_abandons_sessions_keeps_the_last_hundred() {
    let host = Host::start();
    let mut sessions = Vec::new();
    for _ in 0..150 {
        sessions.push(host.session(host.key()).await);
    }
    let body = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/list" }).to_string();
    let used = |id: &str| host.mcp(host.key()).header("mcp-session-id", id).body(body.clone()).send();
    assert_eq!(used(&sessions[0]).await.unwrap().status(), 404);
    assert_eq!(used(&sessions[149]).await.unwrap().status(), 200);
}

#[tokio::test]
async fn who_leaves_or_cancels_stops_the_guest() {
    let host = Host::start().with("slow-host-call").await;
    let record = async |status: &str| {
        let page = host.get(&format!("/api/skills/executions?status={status}")).await;
        page.body["executions"].get(0).map(|one| one["id"].clone())
    };
    let params = json!({ "name": "slow-host-call", "arguments": { "ms": 60_000 } });
    let leaving = tokio::spawn(host.asking(host.key(), "tools/call", params.clone()).send());
    let first = until(async || record("running").await).await;
    leaving.abort();
    until(async || record("cancelled").await.filter(|id| *id == first)).await;

    let session = host.session(host.key()).await;
    let body = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params });
    let calling = tokio::spawn(answer(host.mcp(host.key()).header("mcp-session-id", &session).body(body.to_string())));
    let second = until(async || record("running").await).await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 9 } });
    let cancel = host.mcp(host.key()).header("mcp-session-id", &session).body(cancel.to_string());
    assert_eq!(answer(cancel).await.status, 202);
    until(async || record("cancelled").await.filter(|id| *id == second)).await;
    assert_eq!(calling.await.unwrap().messages, [json!(null); 0], "what was cancelled is not answered");

    let leaving = tokio::spawn(host.mcp(host.key()).header("mcp-session-id", &session).body(body.to_string()).send());
    let response = leaving.await.unwrap().unwrap();
    let third = until(async || record("running").await).await;
    drop(response);
    until(async || record("cancelled").await.filter(|id| *id == third)).await;
}
