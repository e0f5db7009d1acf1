//! Versions, aliases, what grows from one to the next, and what becomes of a damaged row.

mod aliases;
mod approval;
mod damage;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, Reply, guest, reply};

/// Uploads the echo guest with a manifest.
async fn register(host: &Host, key: &str, manifest: Value) -> Reply {
    let form = reqwest::multipart::Form::new()
        .text("manifest", manifest.to_string())
        .part("component", reqwest::multipart::Part::bytes(guest("echo")));
    reply(host.request_as(Some(key), Method::POST, "/api/skills").multipart(form)).await
}

/// A version of `echo` with these grants.
async fn version(host: &Host, key: &str, version: &str, grants: Value) -> Value {
    let made = register(host, key, json!({ "name": "echo", "version": version, "grants": grants })).await;
    assert!(made.status.is_success(), "{}", made.body);
    made.body
}

async fn send(host: &Host, key: &str, (method, path): (Method, &str), body: Value) -> Reply {
    reply(host.request_as(Some(key), method, path).body(body.to_string())).await
}

/// The secret of a new key.
async fn new_key(host: &Host, body: Value) -> String {
    let made = host.send(Method::POST, "/api/keys", body).await;
    made.body["secret"].as_str().unwrap().to_owned()
}

fn texts<'a>(list: &'a Value, member: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|item| item[member].as_str().unwrap()).collect()
}

#[tokio::test]
async fn versions_are_listed_highest_first_page_by_page_with_own_ones_before_global_ones() {
    let host = Host::start();
    let key = new_key(&host, json!({ "name": "k", "owner": "team" })).await;
    for number in ["1.0.0", "1.1.0"] {
        let global = json!({ "name": "echo", "version": number, "owner": "system", "public": true });
        assert_eq!(register(&host, host.key(), global).await.body["public"], true);
    }
    for number in ["1.1.0", "1.10.0", "2.0.0-rc.1"] {
        version(&host, &key, number, json!({})).await;
    }
    let (mut cursor, mut found) = (String::new(), Vec::new());
    loop {
        let path = format!("/api/skills/echo/versions?limit=2{cursor}");
        let page = send(&host, &key, (Method::GET, &path), Value::Null).await.body;
        assert_eq!(page["total"], 4);
        let line =
            |skill: &Value| format!("{} {}", skill["version"].as_str().unwrap(), skill["owner"].as_str().unwrap());
        found.extend(page["versions"].as_array().unwrap().iter().map(line));
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(found, ["2.0.0-rc.1 team", "1.10.0 team", "1.1.0 team", "1.0.0 system"]);
    let id = host.get("/api/skills?owner=team").await.body["skills"][0]["id"].as_str().unwrap().to_owned();
    let by_id = host.get(&format!("/api/skills/{id}/versions")).await.body;
    assert_eq!(texts(&by_id["versions"], "version"), ["2.0.0-rc.1", "1.10.0", "1.1.0"]);
    for (path, refused) in [
        ("/api/skills/nobody/versions", "404 not_found"),
        ("/api/skills/echo@1.0.0/versions", "400 malformed"),
        ("/api/skills/echo/versions?cursor=x", "400 malformed"),
    ] {
        assert_eq!(host.get(path).await.summary(), refused, "{path}");
    }
}

#[tokio::test]
async fn filters_of_the_list_go_together_and_the_total_is_that_of_all_pages() {
    let host = Host::start();
    for (number, tag, mode) in [("1.0.0", "a", "on"), ("1.1.0", "a", "auto"), ("1.2.0", "b", "on")] {
        let manifest = json!({
            "name": "echo", "version": number, "tags": [tag], "mode": mode, "sourceProvider": "mill",
            "description": "Says it AGAIN.",
        });
        assert!(register(&host, host.key(), manifest).await.status.is_success());
    }
    for (query, total) in [
        ("q=again", 3),
        ("q=ECHO&tag=a", 2),
        ("tag=a&mode=auto", 1),
        ("source=mill&limit=1", 3),
        ("source=elsewhere", 0),
        ("owner=admin&mode=on", 2),
        ("owner=nobody", 0),
    ] {
        let page = host.get(&format!("/api/skills?{query}")).await.body;
        assert_eq!(page["total"], total, "{query}");
        let shown = page["skills"].as_array().unwrap().len() as u64;
        assert_eq!(page["nextCursor"].is_null(), shown == total, "{query}");
    }
    for bad in ["mode=maybe", "limit=x", "tag=", "owner=a%20b"] {
        assert_eq!(host.get(&format!("/api/skills?{bad}")).await.summary(), "400 malformed", "{bad}");
    }
}

#[tokio::test]
async fn only_a_global_skill_is_public() {
    let host = Host::start();
    let own = register(&host, host.key(), json!({ "name": "echo", "version": "1.0.0", "public": true })).await;
    assert_eq!(
        (own.summary().as_str(), &own.body["errors"][0]["pointer"]),
        ("422 invalid_manifest", &json!("/public"))
    );
}
