//! A secret is sent to its upstream, which repeats it in every way, and is found nowhere.

use std::path::Path;

use aho_corasick::AhoCorasick;
use reqwest::{Method, multipart};
use serde_json::{Value, json};

use super::echo::{Echo, traces};
use super::{CANARY, arguments, ask, carries, get, key, push, store};
use crate::support::{Host, guest, reply};
use crate::tls::Authority;

/// The forms of the canary in some bytes.
fn found(finder: &AhoCorasick, bytes: &[u8]) -> Vec<String> {
    let wanted = traces(CANARY);
    finder.find_iter(bytes).map(|found| wanted[found.pattern().as_usize()].clone()).collect()
}

fn files(folder: &Path, all: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, all);
        } else {
            all.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
}

#[tokio::test]
async fn a_secret_is_found_nowhere_but_at_its_upstream_whatever_that_repeats() {
    let authority = Authority::new();
    let echo = Echo::start(&authority).await;
    let mut arguments = arguments(&authority);
    arguments.extend(["--log-level".into(), "trace".into()]);
    let host = Host::start_with(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let key = key(&host, "team", &["TOKEN"]).await;
    store(&host, &key, "TOKEN", (&echo, CANARY)).await;
    push(&host, &key, "fetch", json!(["TOKEN"]), None).await;
    let finder = AhoCorasick::new(traces(CANARY)).unwrap();
    let mut seen = Vec::new();
    for path in ["/whole", "/split", "/gzip", "/none"] {
        let ran = get(&host, &key, "fetch", echo.url(path)).await;
        let heads = echo.heads().concat();
        assert!(carries(&heads, CANARY), "{path}: {heads}");
        let repeated = matches!(path, "/whole" | "/split");
        assert_eq!(ran["status"] == "success", path != "/gzip", "{ran}");
        // The right lines came, with nothing in them.
        assert_eq!(
            ran["output"]["body"].as_str().unwrap_or_default().contains("authorization: Bearer ****"),
            repeated,
            "{ran}"
        );
        seen.push(ran);
    }
    assert_eq!(seen[0]["output"]["headers"]["x-plain"], "*".repeat(CANARY.len()));
    assert_eq!(seen[1]["output"]["trailers"]["x-after"], "*".repeat(CANARY.len()));
    assert_eq!(seen[0]["output"]["body"], seen[1]["output"]["body"].as_str().unwrap().replace("/split", "/whole"));
    assert!(seen[2]["error"]["message"].as_str().unwrap().contains("HttpResponseContentCoding"), "{}", seen[2]);
    for path in ["/api/secrets", "/api/secrets/TOKEN", "/api/skills", "/api/skills/executions", "/api/skills/fetch"] {
        seen.push(ask(&host, &key, Method::GET, path, json!({})).await.body);
    }
    let ids: Vec<_> = seen[..4].iter().map(|ran| ran["id"].as_str().unwrap().to_owned()).collect();
    for id in ids {
        seen.push(ask(&host, &key, Method::GET, &format!("/api/skills/executions/{id}"), json!({})).await.body);
    }
    let metrics = host.request_as(Some(host.key()), Method::GET, "/metrics").send().await.unwrap();
    seen.push(Value::from(metrics.text().await.unwrap()));
    for value in &seen {
        // Once as it is, once without the escapes of JSON.
        let texts = [value.to_string(), value.to_string().replace("\\\\", "\\").replace("\\\"", "\"")];
        assert!(texts.iter().all(|text| found(&finder, text.as_bytes()).is_empty()), "{value}");
    }
    // Killed, so that nothing was put in order before it is looked at.
    let log = host.log();
    assert!(log.contains("TRACE") || log.contains("\"trace\""), "{}", &log[..2000]);
    let dir = host.kill();
    let mut all = Vec::new();
    files(dir.path(), &mut all);
    for name in ["skillvisor.db", "skillvisor.db-wal", "skillvisor.journal-0", "/log", "secrets.key"] {
        assert!(all.iter().any(|(file, bytes)| file.ends_with(name) && !bytes.is_empty()), "{name}");
    }
    for (name, bytes) in &all {
        assert_eq!(found(&finder, bytes), Vec::<String>::new(), "{name}");
    }
    // The search itself finds what is there.
    assert_eq!(traces(CANARY).iter().filter(|form| found(&finder, form.as_bytes()).is_empty()).count(), 0);
}

#[tokio::test]
async fn what_a_run_leaves_behind_is_looked_through_once_more() {
    let (host, _authority, echo) = super::world().await;
    let key = key(&host, "team", &["TOKEN", "MISSING"]).await;
    store(&host, &key, "TOKEN", (&echo, "abcdefghij")).await;
    push(&host, &key, "fetch", json!(["TOKEN", "MISSING"]), None).await;
    let wide = get(&host, &key, "fetch", echo.url("/wide")).await;
    assert_eq!(wide["output"]["body"], "a|b|c|d|e|f|g|h|i|j|", "no form that is looked for, as the docs say");
    // As a guest would ask that has put the letters together.
    let asked = get(&host, &key, "fetch", echo.url("/abcdefghij")).await;
    assert_eq!(asked["denials"][0]["asked"], format!("GET {}/**********", echo.origin()), "{asked}");
}

#[tokio::test]
async fn what_a_skill_hears_from_one_that_it_calls_has_no_secret_of_that_one() {
    let (host, _authority, echo) = super::world().await;
    let key = {
        let ceilings = json!({ "network": ["public"], "secrets": ["TOKEN"], "skills": ["leaf"] });
        let scopes = ["skills:read", "skills:write", "skills:execute", "executions:read", "secrets:write"];
        let body = json!({ "name": "k", "owner": "team", "scopes": scopes, "ceilings": ceilings });
        host.send(Method::POST, "/api/keys", body).await.body["secret"].as_str().unwrap().to_owned()
    };
    store(&host, &key, "TOKEN", (&echo, "abcdefghij")).await;
    push(&host, &key, "leaf", json!(["TOKEN"]), None).await;
    let root = json!({ "name": "root", "version": "1.0.0", "grants": { "skills": ["leaf"] } });
    let form = multipart::Form::new()
        .part("manifest", multipart::Part::text(root.to_string()).mime_str("application/json").unwrap())
        .part("component", multipart::Part::bytes(guest("powers-probe")).mime_str("application/wasm").unwrap());
    let made = reply(host.request_as(Some(&key), Method::POST, "/api/skills").multipart(form)).await;
    assert!(made.status.is_success(), "{}", made.body);
    let steps =
        json!([["call", "leaf", { "url": echo.url("/whole") }], ["call", "leaf", { "url": echo.url("/gzip") }]]);
    let ran = super::fetch(&host, &key, "root", steps).await;
    assert_eq!(echo.heads().iter().filter(|head| carries(head, "abcdefghij")).count(), 2);
    assert_eq!(ran["output"][0]["headers"]["x-plain"], "**********", "{ran}");
    let id = ran["id"].as_str().unwrap();
    let kept = host.get(&format!("/api/skills/executions/{id}")).await.body;
    let finder = AhoCorasick::new(traces("abcdefghij")).unwrap();
    for text in [ran.to_string(), kept.to_string()] {
        assert_eq!(finder.find_iter(&text).count(), 0, "{text}");
    }
}
