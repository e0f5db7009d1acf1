//! The audit's chain, from outside: exports that others check, and what was done in it.

/// Erasing an owner.
mod erasing;
/// Lists of many executions.
mod many;
/// Ending a key with all that it brought.
mod quarantine;

use std::path::PathBuf;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, command, guest, reply, run, until};

/// An export of a host, with the public key beside it.
pub(crate) struct Export {
    dir: tempfile::TempDir,
}

impl Export {
    pub(crate) fn of(host: &Host) -> Self {
        let export = Self { dir: tempfile::tempdir().unwrap() };
        let data = host.dir.path().join("data");
        let file = export.file();
        run(&mut command(&data, &["audit", "export", "-o", file.to_str().unwrap()])).expect(0);
        let key = run(&mut command(&data, &["audit", "public-key"])).expect(0).stdout;
        std::fs::write(export.dir.path().join("audit.pem"), key).unwrap();
        export
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("audit.jsonl")
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }

    /// What a check finds that has no server, no data directory and no key, with its exit code.
    pub(crate) fn checked(&self, more: &[&str]) -> (i32, Value) {
        let (file, key) = (self.file(), self.dir.path().join("audit.pem"));
        let words = ["audit", "verify", file.to_str().unwrap(), "--public-key", key.to_str().unwrap(), "--json"];
        let ended = run(&mut command(&self.dir.path().join("nowhere"), &[&words, more].concat()));
        assert!(!self.dir.path().join("nowhere").exists());
        (ended.code, ended.json())
    }

    /// The same where it is whole.
    pub(crate) fn whole(&self) -> Value {
        let (code, report) = self.checked(&[]);
        assert_eq!((code, &report["broken"]), (0, &Value::Null), "{report}");
        report
    }

    /// The records of acts with this name, with what is known of them.
    fn acts(&self, name: &str) -> Vec<Value> {
        let lines = self.text().lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>();
        lines.into_iter().filter(|line| line["record"]["act"] == name).collect()
    }
}

async fn key(host: &Host, owner: &str) -> (String, String) {
    let scopes = ["skills:read", "skills:write", "skills:execute", "executions:read", "secrets:write", "files:write"];
    let made = host.send(Method::POST, "/api/keys", json!({ "name": "k", "owner": owner, "scopes": scopes })).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let text = |name: &str| made.body[name].as_str().unwrap().to_owned();
    (text("id"), text("secret"))
}

/// Uploads a guest as `name@1.0.0`, with this key.
async fn push(host: &Host, secret: &str, (name, of): (&str, &str)) {
    let upload = host.request_as(Some(secret), Method::POST, &format!("/api/skills?name={name}&version=1.0.0"));
    let uploaded = reply(upload.header("content-type", "application/wasm").body(guest(of))).await;
    assert!(uploaded.status.is_success(), "{}", uploaded.body);
    until(async || {
        let shown = reply(host.request_as(Some(secret), Method::GET, &format!("/api/skills/{name}@1.0.0"))).await;
        (shown.body["state"] == "ready").then_some(())
    })
    .await;
}

#[tokio::test]
async fn every_act_and_every_run_is_in_an_export_that_is_whole_and_shows_no_secret() {
    let host = Host::start().with("hello").await;
    let (id, secret) = key(&host, "team").await;
    push(&host, &secret, ("mine", "hello")).await;
    let ran = host.run("hello", json!({ "name": "Ada" }), json!({})).await;
    let body = json!({ "value": "c4n4ry-value", "for": "https://a.example", "header": "x-key" });
    assert_eq!(host.send(Method::PUT, "/api/secrets/TOKEN", body).await.status, 201);
    host.send(Method::PATCH, "/api/secrets/TOKEN", json!({ "value": "c4n4ry-again" })).await;
    host.send(Method::DELETE, "/api/secrets/TOKEN", Value::Null).await;
    host.send(Method::PUT, "/api/skills/hello/aliases/stable", json!({ "version": "1.0.0" })).await;
    host.send(Method::DELETE, "/api/skills/hello/aliases/stable", Value::Null).await;
    host.send(Method::PATCH, "/api/skills/hello@1.0.0", json!({ "enabled": false })).await;
    host.send(Method::DELETE, "/api/skills/hello@1.0.0", Value::Null).await;
    host.send(Method::POST, &format!("/api/keys/{id}/rotate"), json!({})).await;
    host.send(Method::DELETE, &format!("/api/keys/{id}"), Value::Null).await;
    let export = Export::of(&host);
    assert_eq!(export.whole()["executions"], 1);
    for (act, target, count) in [
        ("key.create", id.as_str(), 2),
        ("key.rotate", &id, 1),
        ("key.revoke", &id, 1),
        ("secret.put", "TOKEN", 1),
        ("secret.rotate", "TOKEN", 1),
        ("secret.remove", "TOKEN", 1),
        ("skill.register", "mine@1.0.0", 2),
        ("skill.update", "hello@1.0.0", 1),
        ("skill.delete", "hello@1.0.0", 1),
        ("alias.move", "hello@stable", 1),
        ("alias.remove", "hello@stable", 1),
    ] {
        let acts = export.acts(act);
        assert_eq!(acts.len(), count, "{act}");
        let last = acts.last().unwrap();
        assert_eq!(last["open"]["target"], target, "{act}");
        assert!(last["open"]["key"].is_string() && last["record"]["door"] == "http", "{last}");
    }
    let text = export.text();
    for never in ["c4n4ry", host.key(), &secret] {
        assert!(!text.contains(never), "{never}");
    }
    let run = text.lines().find(|line| line.contains(ran.body["id"].as_str().unwrap())).unwrap();
    let record: Value = serde_json::from_str(run).unwrap();
    assert_eq!((&record["record"]["status"], &record["open"]["owner"]), (&json!("success"), &json!("admin")));
    // What is hashed tells nobody whose it is, or what went in.
    let hashed = record["record"].to_string();
    assert!(!hashed.contains("\"admin\"") && !hashed.contains("Ada"), "{hashed}");
}

#[tokio::test]
async fn a_check_names_the_first_record_that_is_broken_and_says_so_with_its_exit_code() {
    let host = Host::start().with("hello").await;
    for _ in 0..5 {
        host.run("hello", json!({}), json!({})).await;
    }
    let export = Export::of(&host);
    let report = export.whole();
    let known = format!("{}:{}", report["last"], report["head"].as_str().unwrap());
    let text = export.text();
    let run = text.lines().position(|line| line.contains("\"execution\"")).unwrap();
    let seq = serde_json::from_str::<Value>(text.lines().nth(run).unwrap()).unwrap()["record"]["seq"].clone();
    std::fs::write(export.file(), text.replacen("\"success\"", "\"timeout\"", 1)).unwrap();
    let (code, report) = export.checked(&[]);
    assert_eq!((code, &report["broken"]["seq"], &report["broken"]["line"]), (6, &seq, &json!(run + 1)), "{report}");
    let cut = text.lines().count() - 1;
    let cut: String = text.split_inclusive('\n').take(cut).collect();
    std::fs::write(export.file(), cut).unwrap();
    assert_eq!(export.checked(&[]).0, 6);
    host.run("hello", json!({}), json!({})).await;
    assert_eq!(Export::of(&host).checked(&["--known", &known]).0, 0);
    let other = format!("{}:{}", report["last"].as_i64().unwrap_or(1) + 1, "0".repeat(64));
    assert_eq!(Export::of(&host).checked(&["--known", &other]).0, 6);
    assert_eq!(Export::of(&host).checked(&["--known", "nonsense"]).0, 2);
}

#[tokio::test]
async fn only_an_admin_key_exports() {
    let host = Host::start();
    let (_, secret) = key(&host, "team").await;
    for path in ["/api/audit", "/api/owners"] {
        let refused = reply(host.request_as(Some(&secret), Method::GET, path)).await;
        assert_eq!(refused.summary(), "403 insufficient_scope");
    }
    let refused = reply(host.request_as(Some(&secret), Method::DELETE, "/api/owners/admin")).await;
    assert_eq!(refused.summary(), "403 insufficient_scope");
}

#[tokio::test]
async fn failed_authentications_are_counted_in_few_records_and_none_is_lost() {
    let host = Host::start();
    for _ in 0..30 {
        for key in [None, Some("sk_wrong")] {
            assert_eq!(reply(host.request_as(key, Method::GET, "/api/skills")).await.status, 401);
        }
    }
    let host = Host::start_in(host.stop(), &[]);
    let export = Export::of(&host);
    export.whole();
    let acts = export.acts("auth.failed");
    let counts: i64 = acts.iter().map(|act| act["record"]["count"].as_i64().unwrap()).sum();
    assert_eq!(counts, 60);
    assert!(acts.len() < 20, "{}", acts.len());
    assert!(!export.text().contains("sk_wrong"));
}

#[tokio::test]
async fn what_was_kept_for_long_enough_goes_and_what_is_there_is_whole() {
    let host = Host::start_with(&["--retention-audit", "2s"]).with("hello").await;
    let ran = host.run("hello", json!({}), json!({})).await;
    let path = format!("/api/skills/executions/{}", ran.body["id"].as_str().unwrap());
    until(async || (host.get(&path).await.status == 404).then_some(())).await;
    host.run("hello", json!({}), json!({})).await;
    let report = Export::of(&host).whole();
    assert!(report["first"].as_i64().unwrap() > 1, "{report}");
    let data = host.dir.path().join("data");
    let doctor = run(&mut command(&data, &["doctor", "--json"])).expect(0);
    assert!(doctor.stdout.contains("the newest are as they were written"), "{}", doctor.stdout);
}

#[tokio::test]
async fn doctor_finds_what_was_changed_at_the_end_of_the_audit() {
    let host = Host::start().with("hello").await;
    host.run("hello", json!({}), json!({})).await;
    Export::of(&host).whole();
    let dir = host.stop();
    let data = dir.path().join("data");
    let database = rusqlite::Connection::open(data.join("skillvisor.db")).unwrap();
    database.execute("UPDATE ended_executions SET status = 'timeout'", []).unwrap();
    drop(database);
    let doctor = run(&mut command(&data, &["doctor"])).expect(1);
    assert!(doctor.stdout.contains("is not what was written down"), "{}", doctor.stdout);
}
