//! The skills that a host has without an upload.

/// Golden cases.
mod golden;
/// The page about them, and what they were built from.
mod page;
/// Pages to fetch.
mod site;
/// Skills for the network.
mod web;

use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};
use skillvisor::{CatalogueSettings, Disabled, HostOptions};
use tempfile::TempDir;

use crate::support::{Host, command, guest, reply, run, until};

const ON: &[&str] = &["--catalogue-disabled", "none"];

/// A skill folder below `dir`.
fn folder(dir: &Path, name: &str, version: &str, component: &[u8]) {
    let folder = dir.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = json!({ "name": name, "version": version, "grants": { "workspace": "read" } });
    std::fs::write(folder.join("SKILL.md"), format!("# {name}\n\n```json skill\n{manifest}\n```\n")).unwrap();
    std::fs::write(folder.join(format!("{name}.wasm")), component).unwrap();
}

/// A key of its own, which may read and run.
async fn agent(host: &Host) -> String {
    let made = host.send(Method::POST, "/api/keys", json!({ "name": "agent" })).await;
    made.body["secret"].as_str().unwrap().to_owned()
}

async fn get(host: &Host, skill: &str) -> Value {
    host.get(&format!("/api/skills/{skill}")).await.body
}

/// Waits until a skill is compiled.
async fn ready(host: &Host, skill: &str) -> Value {
    until(async || Some(get(host, skill).await).filter(|found| found["state"] == "ready")).await
}

/// Ends the program and starts it again on its directory with these arguments.
fn again(host: Host, arguments: &[&str]) -> Host {
    Host::start_in(host.stop(), arguments)
}

#[tokio::test]
async fn a_fresh_host_has_skills_for_every_key_and_keeps_them_as_they_are_over_restarts() {
    let host = Host::start_with(ON);
    let key = agent(&host).await;
    let ask = json!({ "skillId": "hello@^1", "args": { "name": "Ada" } }).to_string();
    let ran = reply(host.request_as(Some(&key), Method::POST, "/api/skills/executions").body(ask)).await;
    assert_eq!((&ran.body["status"], &ran.body["output"]["greeting"]), (&json!("success"), &json!("Hello, Ada!")));
    let listed = reply(host.request_as(Some(&key), Method::GET, "/api/skills")).await.body;
    let listed = listed["skills"].as_array().unwrap();
    assert!(listed.iter().all(|skill| skill["owner"] == "system" && skill["sourceProvider"] == "catalogue"));
    let text = host.request_as(Some(&key), Method::GET, "/api/skills/hello/skill.md").send().await.unwrap();
    assert_eq!(text.text().await.unwrap(), include_str!("../../../skills/hello/SKILL.md"));
    let before = ready(&host, "hello").await;
    let host = again(host, ON);
    let after = get(&host, "hello").await;
    assert_eq!((&after["id"], &after["updatedAt"]), (&before["id"], &before["updatedAt"]));
    assert_eq!(after["state"], "ready", "it is not compiled again");
    // Pushed by hand it is the same skill; and an owner may have one of that name, which goes first.
    let skills = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills/hello");
    let push = ["push", skills.to_str().unwrap(), "--owner", "system", "--json"];
    let pushed = run(&mut command(&host.dir.path().join("data"), &push)).expect(0).json();
    assert_eq!(pushed["id"], before["id"]);
    let mine = host.upload("hello", guest("echo")).await.body;
    assert_eq!((&mine["owner"], &get(&host, "hello").await["id"]), (&json!("admin"), &mine["id"]));
}

#[tokio::test]
async fn what_an_administrator_disabled_or_deleted_stays_so() {
    let host = Host::start_with(ON);
    let id = ready(&host, "hello").await["id"].as_str().unwrap().to_owned();
    host.send(Method::PATCH, &format!("/api/skills/{id}"), json!({ "enabled": false })).await;
    let host = again(host, ON);
    assert_eq!(get(&host, "hello").await["enabled"], false);
    assert_eq!(host.send(Method::DELETE, &format!("/api/skills/{id}"), Value::Null).await.status, 204);
    let host = again(host, ON);
    assert_eq!(host.get("/api/skills/hello").await.summary(), "404 not_found");
}

#[tokio::test]
async fn what_the_operator_leaves_out_is_not_there_until_it_is_wanted_again() {
    let host = Host::start_with(ON);
    let id = ready(&host, "hello").await["id"].clone();
    let host = again(host, &["--catalogue-disabled", "hello"]);
    assert_eq!(host.get("/api/skills/hello").await.summary(), "404 not_found");
    let refused = host.run("hello", json!({}), json!({})).await;
    assert_eq!(refused.summary(), "404 not_found");
    let host = again(host, ON);
    assert_eq!(get(&host, "hello").await["id"], id);
}

#[tokio::test]
async fn an_operators_folder_is_a_skill_and_a_broken_one_is_told_and_left_out() {
    let own = tempfile::tempdir().unwrap();
    folder(own.path(), "echo", "1.0.0", &guest("echo"));
    folder(own.path(), "no-wasm", "1.0.0", b"not WebAssembly");
    folder(own.path(), "no-version", "one", &guest("echo"));
    folder(own.path(), "other-name", "1.0.0", &guest("echo"));
    std::fs::rename(own.path().join("other-name"), own.path().join("not-its-name")).unwrap();
    std::fs::create_dir(own.path().join("empty")).unwrap();
    // In the place of a skill that works: the operator does not want that one.
    std::fs::create_dir(own.path().join("hello")).unwrap();
    let dir = own.path().to_str().unwrap();
    // What asks for a grant would wait for approval if anybody else had pushed it.
    let host = Host::start_with(&[ON, &["--catalogue-dir", dir, "--approval", "required"]].concat());
    let ran = host.run("echo", json!({ "n": 1 }), json!({})).await;
    assert_eq!((&ran.body["status"], &ran.body["output"]), (&json!("success"), &json!({ "n": 1 })), "{}", ran.body);
    for name in ["no-wasm", "no-version", "other-name", "not-its-name", "empty", "hello"] {
        assert_eq!(host.get(&format!("/api/skills/{name}")).await.summary(), "404 not_found", "{name}");
    }
    let log = host.log();
    for name in ["no-wasm", "no-version", "not-its-name", "empty", "hello"] {
        let told = log.lines().filter(|line| line.contains("is left out") && line.contains(name)).count();
        assert_eq!(told, 1, "{name}: {log}");
    }
}

#[tokio::test]
async fn another_catalogue_changes_replaces_and_withdraws_what_the_one_before_had() {
    let own = TempDir::new().unwrap();
    let arguments = ["--catalogue-dir", own.path().to_str().unwrap()];
    folder(own.path(), "echo", "1.0.0", &guest("echo"));
    let host = Host::start_with(&arguments);
    let first = ready(&host, "echo").await;
    let move_alias = json!({ "version": "1.0.0" });
    assert_eq!(host.send(Method::PUT, "/api/skills/echo/aliases/stable", move_alias).await.status, 200);
    // The same version with other bytes, as after an upgrade of the host.
    folder(own.path(), "echo", "1.0.0", &guest("spin"));
    let host = again(host, &arguments);
    let second = ready(&host, "echo@stable").await;
    assert_eq!(second["id"], first["id"]);
    assert_ne!(second["digest"], first["digest"]);
    // A new one beside it.
    folder(own.path(), "echo", "1.1.0", &guest("echo"));
    let host = again(host, &arguments);
    assert_eq!(ready(&host, "echo").await["version"], "1.1.0");
    assert_eq!(ready(&host, "echo@1.0.0").await["digest"], second["digest"]);
    // Back to the old one: whoever names no version gets that.
    folder(own.path(), "echo", "1.0.0", &guest("spin"));
    let host = again(host, &arguments);
    assert_eq!(get(&host, "echo").await["version"], "1.0.0");
    assert_eq!(host.get("/api/skills/echo@1.1.0").await.summary(), "404 not_found");
    // What somebody registered by hand is no part of the catalogue, and stays as it is.
    let path = "/api/skills?name=mine&version=1.0.0&owner=system";
    let upload = host.request_as(Some(host.key()), Method::POST, path).header("content-type", "application/wasm");
    assert_eq!(reply(upload.body(guest("echo"))).await.status, 201);
    std::fs::remove_dir_all(own.path().join("echo")).unwrap();
    folder(own.path(), "mine", "1.0.0", &guest("spin"));
    let mine = ready(&host, "mine").await;
    let host = again(host, &arguments);
    assert_eq!(host.get("/api/skills/echo").await.summary(), "404 not_found");
    assert_eq!(get(&host, "mine").await["digest"], mine["digest"]);
    assert!(host.log().contains("was registered by an administrator"), "{}", host.log());
    // A directory that is gone stops the start: skills must not be missing unseen.
    let dir = host.stop();
    let refused =
        command(&dir.path().join("data"), &["list", "--json"]).env("SKILLVISOR_CATALOGUE_DIR", "/nonexistent").output();
    assert!(!refused.unwrap().status.success());
}

#[tokio::test]
async fn an_embedder_takes_all_of_it_some_of_it_or_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let found = async |settings: CatalogueSettings| {
        let mut options = HostOptions::new(dir.path().join("data"), env!("CARGO_BIN_EXE_skillvisor"));
        options.catalogue = settings;
        let host = skillvisor::Host::open(options).await.unwrap();
        let skills = host.scoped_skills(&host.admin().unwrap()).unwrap();
        host.close().await;
        skills.iter().map(|found| found.skill.name.to_string()).collect::<Vec<_>>()
    };
    let all = found(CatalogueSettings::default()).await;
    assert!(all.contains(&"hello".into()), "{all:?}");
    let disabled: Disabled = "hello".parse().unwrap();
    let some = found(CatalogueSettings { disabled, dir: None }).await;
    assert_eq!(some.len() + 1, all.len());
    assert_eq!(found(CatalogueSettings::off()).await, Vec::<String>::new());
}
