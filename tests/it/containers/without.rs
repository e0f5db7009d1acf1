use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;

use crate::support::{Host, command, run, until};

use super::{IMAGE, engines, register, try_register, until_no_client_is_left};

#[tokio::test]
async fn a_host_without_an_engine_is_whole_and_says_what_is_missing() {
    let host = Host::start_with(&["--containers-engine", "none", "--containers-allowed-images", IMAGE]);
    let made = try_register(&host, "cat", &["cat"], json!({})).await;
    assert_eq!((made.status.as_u16(), &made.body["state"]), (201, &json!("unavailable")), "{}", made.body);
    let listed = host.get("/api/skills").await.body["skills"][0].clone();
    assert_eq!(listed["state"], "unavailable");
    let problem = listed["problem"].as_str().unwrap();
    assert!(problem.contains("containers.engine"), "{problem}");
    let refused = host.run("cat", json!({}), json!({})).await;
    assert_eq!(refused.summary(), "503 unavailable");
    assert!(refused.body["detail"].as_str().unwrap().contains("containers.engine"), "{}", refused.body);
    assert_eq!(host.get("/api/skills/executions").await.body["total"], 0, "it did not become a run");
    assert_eq!(host.get("/readyz").await.status, 200);
    let host = host.with("hello").await;
    assert_eq!(host.outcome("hello", json!({ "name": "Ada" }), json!({})).await, "success -");
}

#[tokio::test]
async fn an_engine_that_comes_later_makes_skills_runnable_without_another_word() {
    for engine in engines() {
        let allowed = ["--containers-allowed-images", IMAGE, "--containers-engine"];
        let host = Host::start_with(&[&allowed[..], &["none"]].concat());
        let made = try_register(&host, "cat", &["cat"], json!({})).await;
        assert_eq!(made.body["state"], "unavailable", "{}", made.body);
        let host = Host::start_in(host.stop(), &[&allowed[..], &[engine]].concat());
        let state = async |wanted: &str| {
            until(async || (host.get("/api/skills/cat").await.body["state"] == wanted).then_some(())).await;
        };
        state("ready").await;
        assert_eq!(host.run("cat", json!([1]), json!({})).await.body["output"], json!([1]), "{engine}");
        let host = Host::start_in(host.stop(), &[&allowed[..], &["none"]].concat());
        until(async || (host.get("/api/skills/cat").await.body["state"] == "unavailable").then_some(())).await;
        assert_eq!(host.run("cat", json!([1]), json!({})).await.summary(), "503 unavailable");
    }
}

#[test]
fn the_doctor_tells_which_engine_there_is_and_how_to_get_one() {
    let dir = tempfile::tempdir().unwrap();
    let check = |command: &mut std::process::Command| {
        let told = run(command.args(["doctor", "--json"])).json();
        let checks = told["checks"].as_array().unwrap().clone();
        checks.into_iter().find(|check| check["name"] == "containers").unwrap()
    };
    let none = check(command(dir.path(), &[]).env("PATH", dir.path()));
    assert_eq!(none["verdict"], "warn", "{none}");
    assert!(none["found"].as_str().unwrap().contains("podman is not installed"), "{none}");
    assert!(none["mend"].as_str().unwrap().contains("apt-get install podman"), "{none}");
    let off = check(command(dir.path(), &[]).env("PATH", dir.path()).env("SKILLVISOR_CONTAINERS_ENGINE", "none"));
    assert_eq!(off["verdict"], "ok", "{off}");
}

/// The only engine that is none: it answers what is asked before a run, and then nothing any more.
const HANGS: &str = "#!/bin/sh
case \"$*\" in
*' info '*) echo 9.9 ;;
*' image inspect '*) echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa null ;;
*) trap '' TERM; exec sleep 1000 ;;
esac
";

#[tokio::test]
async fn an_engine_that_hangs_ends_with_the_run_and_takes_nobody_along() {
    let fake = tempfile::tempdir().unwrap();
    let program = fake.path().join("podman");
    std::fs::write(&program, HANGS).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", fake.path().display());
    let arguments = ["--containers-engine", "podman", "--containers-allowed-images", IMAGE];
    let host = Host::start_under(tempfile::tempdir().unwrap(), &arguments, &[("PATH", Path::new(&path))]);
    register(&host, "cat", &["cat"]).await;
    let ran = host.run("cat", json!({}), json!({ "timeoutMs": 500 })).await.body;
    assert_eq!((&ran["error"]["code"], &ran["killed"]), (&json!("timeout"), &json!(true)), "{ran}");
    let host = host.with("hello").await;
    assert_eq!(host.outcome("hello", json!({ "name": "Ada" }), json!({})).await, "success -");
    until_no_client_is_left(&host).await;
}
