//! Skills in containers, on real engines: Podman and Docker both, as scripts/engines sets them up.

/// Parallel runs and a host that is killed meanwhile.
mod campaign;
/// What each kind of sandbox promises, asked of all of them alike.
mod contract;
/// Containers without a skill around them, and images.
mod direct;
/// Input and images that want more than they may.
mod hostile;
/// From inside: what a container has, and what it has not.
mod inside;
/// How runs end, and what is left of them: nothing.
mod lifecycle;
/// What may be registered, by whom.
mod registering;
/// A host without an engine, and one whose engine hangs.
mod without;

use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, Reply, until};

/// The image that scripts/engines makes.
const IMAGE: &str = "localhost/skillvisor-test:1";

/// The engines that are there. Where one is not, that is told, and in CI it is a failure.
#[expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "no setting of the program; whoever tests should know"
)]
fn engines() -> Vec<&'static str> {
    let has_image = |engine: &&str| {
        let asked = Command::new(engine).args(["image", "inspect", IMAGE]).output();
        let found = asked.is_ok_and(|answer| answer.status.success());
        if !found {
            let advice = format!(
                "{engine} does not run here with its image: scripts/engines run cargo test --test it containers"
            );
            assert!(std::env::var_os("CI").is_none(), "{advice}");
            eprintln!("left out: {advice}");
        }
        found
    };
    ["podman", "docker"].into_iter().filter(has_image).collect()
}

/// A host that uses this engine, and whose skills may name the test image.
fn host(engine: &str) -> Host {
    Host::start_with(&["--containers-engine", engine, "--containers-allowed-images", IMAGE, "--shutdown-drain", "0s"])
}

/// Registers a command in the test image as `name@1.0.0`, with more of a manifest.
async fn try_register(host: &Host, name: &str, command: &[&str], more: Value) -> Reply {
    let mut manifest = json!({ "name": name, "version": "1.0.0", "handler": { "image": IMAGE, "command": command } });
    manifest.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    host.send(Method::POST, "/api/skills/skillssh", manifest).await
}

async fn register(host: &Host, name: &str, command: &[&str]) {
    let registered = try_register(host, name, command, json!({})).await;
    assert_eq!((registered.status.as_u16(), &registered.body["state"]), (201, &json!("ready")), "{}", registered.body);
}

/// A script of the image's shell, as a command.
async fn register_script(host: &Host, name: &str, script: &str) {
    register(host, name, &["sh", "-c", script]).await;
}

/// The containers of a host, running or not.
fn left(engine: &str, host: &Host) -> Vec<String> {
    let directory = host.dir.path().canonicalize().unwrap().join("data/containers");
    let owner = skillvisor::model::Digest::of(directory.to_str().unwrap().as_bytes()).hex();
    let filter = format!("--filter=label=skillvisor={}", &owner[..32]);
    let listed = Command::new(engine).args(["ps", "--all", "--format={{.Names}}", &filter]).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Waits until a host has so many containers.
async fn until_there_are(engine: &str, host: &Host, wanted: usize) {
    until(async || (left(engine, host).len() == wanted).then_some(())).await;
}

/// Waits until no client of an engine is a child of this host, not even a dead one.
async fn until_no_client_is_left(host: &Host) {
    until(async || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", host.pid())).unwrap().flatten();
        let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
        let children: String = children.collect();
        let name = |child: &str| std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
        let is_client = |child: &str| ["sleep", "podman", "docker"].contains(&name(child).trim());
        (!children.split_whitespace().any(is_client)).then_some(())
    })
    .await;
}
