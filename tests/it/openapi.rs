use std::collections::{BTreeMap, BTreeSet};

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, Reply, reply};

async fn document(host: &Host) -> Value {
    let reply = reply(host.request_as(None, Method::GET, "/openapi.json")).await;
    assert_eq!((reply.status.as_u16(), &reply.body["openapi"]), (200, &json!("3.1.0")));
    reply.body
}

/// The described schemas, each with nothing allowed that is not described.
fn closed(mut schemas: Value) -> Value {
    fn close(value: &mut Value) {
        match value {
            Value::Object(object) => {
                object.values_mut().for_each(close);
                if object.contains_key("properties") && !object.contains_key("additionalProperties") {
                    object.insert("additionalProperties".into(), Value::Bool(false));
                }
            }
            Value::Array(items) => items.iter_mut().for_each(close),
            _ => {}
        }
    }
    close(&mut schemas);
    schemas
}

/// What is wrong with `value` as a `name`.
fn faults(document: &Value, name: &str, value: &Value) -> Vec<String> {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": format!("#/components/schemas/{name}"),
        "components": { "schemas": closed(document["components"]["schemas"].clone()) },
    });
    let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
    validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// What a server allows on a path, without `HEAD`, which comes with `GET`.
async fn allowed(host: &Host, path: &str) -> BTreeSet<String> {
    let method = Method::from_bytes(b"PURGE").unwrap();
    let response = host.request_as(None, method, path).send().await.unwrap();
    assert_eq!(response.status(), 405, "{path}");
    let allow = response.headers()["allow"].to_str().unwrap().split(',').map(str::trim).filter(|word| *word != "HEAD");
    allow.map(str::to_owned).collect()
}

#[tokio::test]
async fn the_server_takes_on_each_path_the_methods_that_are_described_and_no_other() {
    let host = Host::start();
    let document = document(&host).await;
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 12, "{paths:?}");
    for (path, item) in paths {
        let described: BTreeSet<_> = item.as_object().unwrap().keys().map(|name| name.to_ascii_uppercase()).collect();
        let real = path.split('/').map(|segment| if segment.starts_with('{') { "x" } else { segment });
        let real = real.collect::<Vec<_>>().join("/");
        assert_eq!(allowed(&host, &real).await, described, "{path}");
        let open = item.as_object().unwrap().values().any(|operation| operation["security"].is_array());
        let without = host.request_as(None, Method::GET, &real).send().await.unwrap().status();
        assert_eq!(without == 401, !open && described.contains("GET"), "{path}: {without}");
    }
}

#[tokio::test]
async fn a_parameter_that_is_not_described_is_refused_wherever_a_key_is_needed() {
    let host = Host::start();
    let document = document(&host).await;
    let operations = document["paths"].as_object().unwrap().iter().flat_map(|(path, item)| {
        let item = item.as_object().unwrap();
        item.iter().map(move |(method, operation)| (path.replace(['{', '}'], ""), method, operation))
    });
    let mut tried = 0;
    for (path, method, _) in operations.filter(|(_, _, operation)| !operation["security"].is_array()) {
        let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes()).unwrap();
        let path = format!("{path}?nonsense=1");
        let refused = reply(host.request_as(Some(host.key()), method.clone(), &path)).await;
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(refused.summary() == "400 malformed" && detail.contains("`nonsense`"), "{method} {path}: {detail}");
        let stranger = reply(host.request_as(None, method, &path)).await;
        assert_eq!(stranger.summary(), "401 unauthenticated", "{path}");
        tried += 1;
    }
    assert!(tried >= 14, "{tried}");
    let head = host.request_as(Some(host.key()), Method::HEAD, "/api/skills?limit=1").send().await.unwrap();
    assert_eq!(head.status(), 200);
}

#[tokio::test]
async fn real_replies_are_as_the_document_says() {
    let host = Host::start().with("echo").await.with("trap").await;
    let document = document(&host).await;
    let check = |name: &str, reply: &Reply| {
        assert_eq!(faults(&document, name, &reply.body), [""; 0], "{name}: {}", reply.body);
    };
    check("Skill", &host.get("/api/skills/echo").await);
    check("SkillPage", &host.get("/api/skills?limit=1").await);
    check("VersionPage", &host.get("/api/skills/echo/versions").await);
    let alias = host.send(Method::PUT, "/api/skills/echo/aliases/stable", json!({ "version": "1.0.0" })).await;
    assert_eq!(alias.body["aliases"], json!(["stable"]));
    check("Skill", &alias);
    let grants =
        json!({ "name": "echo", "version": "1.1.0", "handler": alias.body["digest"], "grants": { "kv": true } });
    assert_eq!(host.send(Method::POST, "/api/skills/skillssh", grants).await.status, 201);
    let difference = host.get("/api/skills/echo@1.1.0/diff").await;
    assert_eq!(difference.body["grows"], true);
    check("Difference", &difference);
    let run = host.run("echo", json!({ "a": [1, null] }), json!({})).await;
    assert_eq!(run.body["status"], "success");
    check("Execution", &run);
    let failed = host.run("trap", json!({}), json!({})).await;
    assert_eq!(failed.body["status"], "error");
    check("Execution", &failed);
    check("ExecutionPage", &host.get("/api/skills/executions?limit=1").await);
    let ceilings = json!({ "limits": { "fuel": "unlimited" }, "budgets": {}, "network": ["public"] });
    let body = json!({ "name": "k", "skills": ["echo"], "expiresAt": "2099-01-01T00:00:00Z", "ceilings": ceilings });
    assert_eq!(faults(&document, "KeyRequest", &body), [""; 0]);
    let made = host.send(Method::POST, "/api/keys", body).await;
    assert_eq!(made.status, 201);
    check("Key", &made);
    check("KeyPage", &host.get("/api/keys").await);
    let body = json!({ "value": "not-so-secret", "for": "https://a.example", "header": "x-key", "prefix": "k " });
    assert_eq!(faults(&document, "SecretRequest", &body), [""; 0]);
    assert_eq!(faults(&document, "SecretRotation", &json!({ "value": "not-so-secret" })), [""; 0]);
    check("Secret", &host.send(Method::PUT, "/api/secrets/S", body).await);
    check("SecretPage", &host.get("/api/secrets").await);
    interceptors(&host, &document).await;
    check("OwnerPage", &host.get("/api/owners").await);
    host.send(Method::POST, "/api/keys", json!({ "name": "k", "owner": "o" })).await;
    check("ErasedOwner", &host.send(Method::DELETE, "/api/owners/o", Value::Null).await);
    for refused in [
        host.get("/nowhere").await,
        host.run("echo@9", json!({}), json!({})).await,
        host.run("echo", json!({}), json!({ "memoryMb": 0 })).await,
        host.send(Method::POST, "/api/keys", json!({ "nmae": "k" })).await,
    ] {
        assert!(refused.status.is_client_error());
        check("Problem", &refused);
    }
}

async fn interceptors(host: &Host, document: &Value) {
    let check = |name: &str, value: &Value| assert_eq!(faults(document, name, value), [""; 0], "{name}: {value}");
    let body = json!({ "name": "p", "kind": "builtin", "builtin": "argument-policy", "config": { "maxBytes": 2 } });
    check("InterceptorRequest", &body);
    let made = host.send(Method::POST, "/api/interceptors", body).await;
    assert_eq!(made.status, 201);
    check("Interceptor", &made.body);
    check("InterceptorPage", &host.get("/api/interceptors").await.body);
    let path = format!("/api/interceptors/{}", made.body["id"].as_str().unwrap());
    check("DeadLetterPage", &host.get(&format!("{path}/dead-letters")).await.body);
    let refused = host.run("echo", json!({ "long": 1 }), json!({})).await;
    assert_eq!(refused.body["interceptors"][0]["action"], "reject");
    check("Execution", &refused.body);
    let change = json!({ "skills": null, "order": 2 });
    check("InterceptorChange", &change);
    check("Interceptor", &host.send(Method::PATCH, &path, change).await.body);
    assert_eq!(host.send(Method::DELETE, &path, Value::Null).await.status, 204);
}

#[tokio::test]
async fn the_validation_itself_finds_what_is_missing_wrong_or_too_much() {
    let host = Host::start();
    let document = document(&host).await;
    let good = host.get("/nowhere").await.body;
    let changes: BTreeMap<&str, Value> =
        BTreeMap::from([("code", json!("nonsense")), ("status", json!("404")), ("extra", json!(1))]);
    for (name, value) in changes {
        let mut bad = good.clone();
        bad[name] = value;
        assert_eq!(faults(&document, "Problem", &bad).len(), 1, "{name}");
    }
    let mut bad = good;
    bad.as_object_mut().unwrap().remove("instance");
    assert_eq!(faults(&document, "Problem", &bad).len(), 1);
}
