use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, reply};

use super::{IMAGE, engines, host, register, try_register};

async fn key(host: &Host, containers: bool) -> String {
    let body = json!({ "name": "k", "scopes": ["skills:read", "skills:write", "skills:execute"],
                       "ceilings": { "containers": containers } });
    host.send(Method::POST, "/api/keys", body).await.body["secret"].as_str().unwrap().to_owned()
}

async fn post(host: &Host, key: &str, path: &str, body: Value) -> (String, Value) {
    let reply = reply(host.request_as(Some(key), Method::POST, path).body(body.to_string())).await;
    (reply.summary(), reply.body)
}

#[tokio::test]
async fn a_handler_says_all_and_comes_back_as_it_was_written() {
    for engine in engines() {
        let host = host(engine);
        let manifest = json!({ "name": "words", "version": "1.0.0", "description": "d",
                               "handler": format!("docker://{IMAGE} echo one two"),
                               "schema": { "input": { "type": "object", "required": ["n"] } } });
        let made = host.send(Method::POST, "/api/skills/skillssh", manifest.clone()).await;
        assert_eq!((made.status.as_u16(), &made.body["state"]), (201, &json!("ready")), "{engine}: {}", made.body);
        assert_eq!(made.body["handler"], manifest["handler"]);
        assert_eq!(made.body["functions"][0]["name"], "run");
        // The same again is the same, also in the other way to write it; something else is not.
        let object = json!({ "image": IMAGE, "command": ["echo", "one", "two"] });
        let mut again = manifest.clone();
        again["handler"] = object;
        let same = host.send(Method::POST, "/api/skills/skillssh", again.clone()).await;
        assert_eq!((same.status.as_u16(), &same.body["id"]), (200, &made.body["id"]), "{engine}: {}", same.body);
        again["handler"]["command"] = json!(["echo"]);
        let other = host.send(Method::POST, "/api/skills/skillssh", again).await;
        assert_eq!(other.summary(), "409 conflict", "{engine}");
        let refused = host.run("words", json!({}), json!({})).await;
        assert_eq!(refused.summary(), "422 invalid_args", "{engine}");
        let ran = host.run("words#run", json!({ "n": 1 }), json!({})).await.body;
        assert_eq!((&ran["output"], &ran["digest"]), (&json!("one two\n"), &made.body["digest"]), "{engine}: {ran}");
        for path in ["component", "wit"] {
            assert_eq!(host.get(&format!("/api/skills/words/{path}")).await.summary(), "404 not_found", "{path}");
        }
        // All of it survives a restart, and a deletion takes it away.
        let arguments = ["--containers-engine", engine, "--containers-allowed-images", IMAGE];
        let host = Host::start_in(host.stop(), &arguments);
        let ran = host.run("words", json!({ "n": 1 }), json!({})).await.body;
        assert_eq!(ran["output"], "one two\n", "{engine}: {ran}");
        assert_eq!(host.send(Method::DELETE, "/api/skills/words@1.0.0", Value::Null).await.status, 204);
        assert_eq!(host.run("words", json!({ "n": 1 }), json!({})).await.summary(), "404 not_found");
        let back = host.send(Method::POST, "/api/skills/skillssh", manifest).await;
        assert_eq!(back.status, 201, "{engine}: {}", back.body);
    }
}

#[tokio::test]
async fn what_a_container_cannot_be_given_is_refused_at_its_place_before_anything_is_started() {
    let host = Host::start_with(&["--containers-engine", "none", "--containers-allowed-images", IMAGE]);
    for (grants, place) in [
        (json!({ "secrets": ["TOKEN"] }), "/grants/secrets"),
        (json!({ "network": ["public"] }), "/grants/network"),
        (json!({ "network": ["GET https://a.example/x"] }), "/grants/network"),
        (json!({ "kv": true }), "/grants/kv"),
        (json!({ "config": { "A": "b" } }), "/grants/config"),
    ] {
        let refused = try_register(&host, "x", &["cat"], json!({ "grants": grants })).await;
        assert_eq!(refused.summary(), "422 grant_unsupported", "{}", refused.body);
        assert_eq!(refused.body["errors"][0]["pointer"], place);
    }
    for (more, summary, place) in [
        (json!({ "grants": { "env": { "A=B": "x" } } }), "422 invalid_manifest", "/grants/env/A=B"),
        (json!({ "grants": { "env": { "A": "\0" } } }), "422 invalid_manifest", "/grants/env/A"),
        (json!({ "grants": { "env": { "SKILL_ARGS": "x" } } }), "422 invalid_manifest", "/grants/env/SKILL_ARGS"),
        (json!({ "limits": { "memoryMb": 5 } }), "422 invalid_manifest", "/limits/memoryMb"),
        (json!({ "reuse": true }), "422 not_supported", "/reuse"),
        (json!({ "handler": "docker://--privileged" }), "422 invalid_manifest", "/handler"),
        (json!({ "handler": format!("docker://{IMAGE} sh -c 'id'") }), "422 invalid_manifest", "/handler"),
        (json!({ "handler": { "image": IMAGE, "command": ["a\0"] } }), "422 invalid_manifest", "/handler"),
        (json!({ "handler": { "image": IMAGE, "privileged": true } }), "422 invalid_manifest", "/handler"),
        (json!({ "handler": "docker://alpine:3.20 ls" }), "403 image_not_allowed", "/handler"),
        (json!({ "handler": "docker://localhost/skillvisor-test:2 ls" }), "403 image_not_allowed", "/handler"),
    ] {
        let refused = try_register(&host, "x", &["cat"], more.clone()).await;
        assert_eq!(refused.summary(), summary, "{more}: {}", refused.body);
        let pointer = refused.body["errors"][0]["pointer"].as_str();
        assert!(pointer.is_none_or(|pointer| pointer == place), "{more}: {}", refused.body);
    }
    assert_eq!(host.get("/api/skills").await.body["total"], 0);
}

#[tokio::test]
async fn both_keys_need_the_ceiling_and_an_uploaded_text_is_no_handler() {
    let host = Host::start_with(&["--containers-engine", "none", "--containers-allowed-images", IMAGE]);
    let (with, without) = (key(&host, true).await, key(&host, false).await);
    let manifest = json!({ "name": "x", "version": "1.0.0", "handler": { "image": IMAGE, "command": ["cat"] } });
    assert_eq!(post(&host, &without, "/api/skills/skillssh", manifest.clone()).await.0, "403 denied");
    let mut global = manifest.clone();
    global["owner"] = json!("system");
    assert_eq!(host.send(Method::POST, "/api/skills/skillssh", global).await.status, 201);
    let run = json!({ "skillId": "x", "args": {} });
    assert_eq!(post(&host, &without, "/api/skills/executions", run.clone()).await.0, "403 denied");
    // This one may, and hears that there is no engine.
    assert_eq!(post(&host, &with, "/api/skills/executions", run).await.0, "503 unavailable");
    // The text of a handler, sent as a component, is no way around.
    let text = json!({ "image": IMAGE, "command": ["cat"] }).to_string();
    let sent = host.request_as(Some(&without), Method::POST, "/api/skills?name=y&version=1.0.0");
    let sent = reply(sent.header("content-type", "application/wasm").body(text.clone())).await;
    assert_eq!(sent.summary(), "422 invalid_component", "{}", sent.body);
    let digest = skillvisor::model::Digest::of(text.as_bytes());
    let named = json!({ "name": "z", "version": "1.0.0", "handler": digest.to_string() });
    assert_eq!(post(&host, &with, "/api/skills/skillssh", named).await.0, "422 unknown_component");
}

#[tokio::test]
async fn an_image_that_is_off_the_list_later_does_not_run_any_more() {
    for engine in engines() {
        let host = host(engine);
        register(&host, "cat", &["cat"]).await;
        assert_eq!(host.outcome("cat", json!({}), json!({})).await, "success -");
        let host = Host::start_in(host.stop(), &["--containers-engine", engine]);
        let refused = crate::support::until(async || {
            let ran = host.run("cat", json!({}), json!({})).await;
            (ran.body["code"] != "compiling").then_some(ran)
        });
        assert_eq!(refused.await.summary(), "403 image_not_allowed", "{engine}");
        let shown = host.get("/api/skills/cat").await.body;
        assert_eq!(shown["state"], "unavailable", "{shown}");
        assert!(shown["problem"].as_str().unwrap().contains("containers.allowed_images"), "{shown}");
    }
}
