use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Ended, Host, command, guest, run};
use crate::tls::Authority;

use super::registry::Registry;
use super::site::Site;
use super::{digest, host_with};

/// Runs a command with `stdin`.
fn fed(data_dir: &Path, arguments: &[&str], stdin: &str) -> Ended {
    let mut child = command(data_dir, arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn on(host: &Host, arguments: &[&str]) -> Ended {
    run(&mut command(&host.dir.path().join("data"), arguments))
}

/// Pushes a file as `team/hello:1.0.0`, from a machine without any server.
pub(super) fn push(file: &Path, registry: &Registry, login: Option<(&str, &str)>) -> Ended {
    let reference = format!("{}/team/hello:1.0.0", registry.address);
    let mut arguments = vec!["push", file.to_str().unwrap(), "--oci", &reference, "--plain-http", "--json"];
    if let Some((name, _)) = login {
        arguments.extend(["--username", name, "--password-stdin"]);
    }
    fed(Path::new("/nonexistent"), &arguments, login.map_or("", |(_, password)| password))
}

#[tokio::test]
async fn what_is_pushed_is_the_artefact_that_other_tools_make_and_comes_back_the_same() {
    let Some(registry) = Registry::start(false) else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hello.wasm");
    std::fs::write(&file, guest("hello")).unwrap();
    let pushed = push(&file, &registry, None).expect(0).json();
    let (manifest_digest, manifest) = registry.manifest("team/hello", "1.0.0").await;
    assert_eq!(pushed["manifestDigest"], manifest_digest);
    // The same file is the same artefact.
    assert_eq!(push(&file, &registry, None).expect(0).json()["manifestDigest"], manifest_digest);
    assert_eq!(manifest["mediaType"], "application/vnd.oci.image.manifest.v1+json");
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.wasm.config.v0+json");
    let layer =
        json!([{ "mediaType": "application/wasm", "digest": digest(&guest("hello")), "size": guest("hello").len() }]);
    assert_eq!(manifest["layers"], layer);
    let config: Value =
        serde_json::from_slice(&registry.blob("team/hello", &manifest["config"]["digest"]).await).unwrap();
    assert_eq!((&config["architecture"], &config["os"]), (&json!("wasm"), &json!("wasip2")));
    assert_eq!(config["layerDigests"], json!([digest(&guest("hello"))]));
    let exports = config["component"]["exports"].as_array().unwrap();
    assert!(exports.iter().any(|name| name == "run") && config["component"]["imports"].is_array(), "{config}");

    let back = dir.path().join("back.wasm");
    let reference = format!("{}/team/hello:1.0.0", registry.address);
    let pull = ["pull", "--oci", &reference, "--plain-http", "-o", back.to_str().unwrap()];
    run(&mut command(Path::new("/nonexistent"), &pull)).expect(0);
    assert_eq!(std::fs::read(&back).unwrap(), guest("hello"));
    let none = reference.replace("1.0.0", "2.0.0");
    run(&mut command(Path::new("/nonexistent"), &["pull", "--oci", &none, "--plain-http", "-o", "x"])).expect(4);
    let text = dir.path().join("text.wasm");
    std::fs::write(&text, "text").unwrap();
    push(&text, &registry, None).expect(6);

    let host = registry.host();
    let installed = on(&host, &["install", &reference]).expect(0);
    assert!(installed.stdout.starts_with("installed hello@1.0.0 (ready, from 127.0.0.1:"), "{}", installed.stdout);
    assert!(on(&host, &["install", &reference]).expect(0).stdout.starts_with("unchanged hello@1.0.0"));
    let shown = on(&host, &["show", "hello"]).expect(0).stdout;
    assert!(shown.lines().any(|line| line.contains("from") && line.contains(&reference)), "{shown}");
    std::fs::remove_file(&back).unwrap();
    on(&host, &["pull", "hello", "-o", back.to_str().unwrap()]).expect(0);
    assert_eq!(std::fs::read(&back).unwrap(), guest("hello"));
    assert!(!dir.path().join("back.wasm.part").exists());
}

#[tokio::test]
async fn a_private_registry_takes_what_is_pushed_with_a_password_and_shows_it_to_nobody() {
    let Some(registry) = Registry::start(true) else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hello.wasm");
    std::fs::write(&file, guest("hello")).unwrap();
    push(&file, &registry, None).expect(3);
    push(&file, &registry, Some(("ada", "wrong"))).expect(3);
    let pushed = push(&file, &registry, Some(("ada", "open-sesame\n"))).expect(0);
    assert!(!format!("{}{}", pushed.stdout, pushed.stderr).contains("open-sesame"));
}

// The site answers while a command is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_file_brings_the_same_again_and_nothing_else() {
    let authority = Authority::new();
    let which = std::sync::Arc::new(parking_lot::Mutex::new("hello"));
    let served = std::sync::Arc::clone(&which);
    let site = Site::start(&authority, move |path, _| {
        (path == "/it.wasm").then(|| ("200 OK", String::new(), guest(*served.lock())))
    })
    .await;
    let host = host_with(&authority, &[]);
    let dir = tempfile::tempdir().unwrap();
    let lock = dir.path().join("skills.lock");
    let lock = lock.to_str().unwrap();
    let source = site.url("/it.wasm");
    on(&host, &["install", &source, "--name", "it", "--version", "1.0.0", "--lock", lock]).expect(0);
    let text = std::fs::read_to_string(lock).unwrap();
    let digest = digest(&guest("hello"));
    for line in
        ["name = \"it\"", "version = \"1.0.0\"", &format!("source = {source:?}"), &format!("digest = {digest:?}")]
    {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let fresh = host_with(&authority, &[]);
    on(&fresh, &["install", "--lock", lock]).expect(0);
    assert_eq!(fresh.get("/api/skills/it@1.0.0").await.body["digest"], digest);
    *which.lock() = "spin";
    let other = host_with(&authority, &[]);
    on(&other, &["install", "--lock", lock]).expect(5);
    let update = ["install", &source, "--name", "it", "--version", "1.1.0", "--lock", lock];
    on(&other, &update).expect(5);
    assert_eq!(std::fs::read_to_string(lock).unwrap(), text);
    on(&other, &[&update[..], &["--update"]].concat()).expect(0);
    assert!(std::fs::read_to_string(lock).unwrap().contains("version = \"1.1.0\""));
    on(&other, &["install"]).expect(2);
    on(&other, &["install", "--lock", dir.path().join("none").to_str().unwrap()]).expect(2);
}
