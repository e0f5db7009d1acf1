use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use skillvisor::{Code, ContainerPolicy, EngineChoice, Host, HostOptions, SandboxConfig};

use crate::support::{Ended, run, until};

use super::{IMAGE, engines};

/// The program on this engine, with the test image on its list.
fn program(engine: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skillvisor"));
    command.env("SKILLVISOR_CONTAINERS_ENGINE", engine).env("SKILLVISOR_CONTAINERS_ALLOWED_IMAGES", IMAGE);
    command.env("SKILLVISOR_DATA_DIR", "/nonexistent/skillvisor").stdin(Stdio::null()).args(arguments);
    command
}

fn direct(engine: &str, options: &[&str], argv: &[&str]) -> Ended {
    run(&mut program(engine, &[&["sandbox", "run"], options, &[IMAGE, "--"], argv].concat()))
}

#[test]
fn an_operator_runs_a_command_and_sees_what_became_of_it() {
    for engine in engines() {
        let ended = direct(engine, &[], &["ls", "-A", "/workspace"]).expect(0);
        assert_eq!(ended.stdout, "", "{engine}");
        let told =
            direct(engine, &["--json", "--env", "A=b c"], &["sh", "-c", "echo $A; echo e >&2; exit 3"]).expect(1);
        let told = told.json();
        assert_eq!((&told["stdout"], &told["stderr"]), (&json!("b c\n"), &json!("e\n")), "{engine}: {told}");
        assert_eq!((&told["exitCode"], &told["killed"]), (&json!(3), &json!(false)), "{engine}");
        assert!(told["durationMs"].as_u64().unwrap() > 0, "{engine}");
        let late = direct(engine, &["--json", "--timeout", "1s"], &["sleep", "100"]).expect(1).json();
        assert_eq!((&late["exitCode"], &late["killed"]), (&Value::Null, &json!(true)), "{engine}: {late}");
        let hog = direct(engine, &["--json", "--memory", "32MiB"], &["tail", "/dev/zero"]).expect(1).json();
        assert_eq!(hog["outOfMemory"], true, "{engine}: {hog}");
        let write = ["sh", "-c", "echo x > /workspace/x && cat /workspace/x"];
        direct(engine, &[], &write).expect(1);
        assert_eq!(direct(engine, &["--read-only=false"], &write).expect(0).stdout, "x\n", "{engine}");
        assert!(direct(engine, &["--network"], &["true"]).expect(6).stderr.contains("grant_unsupported"), "{engine}");
        let not_listed = run(&mut program(engine, &["sandbox", "run", "alpine:3.20", "--", "true"])).expect(3);
        assert!(not_listed.stderr.contains("image_not_allowed"), "{engine}: {}", not_listed.stderr);
        let images = run(&mut program(engine, &["images", "list", "--json"])).expect(0).json();
        let listed = images["images"].as_array().unwrap().iter().any(|image| image["name"] == IMAGE);
        assert!(listed, "{engine}: {images}");
    }
}

#[tokio::test]
async fn an_embedder_runs_ends_and_counts_containers() {
    for (engine, choice) in [("podman", EngineChoice::Podman), ("docker", EngineChoice::Docker)] {
        if !engines().contains(&engine) {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let mut options = HostOptions::new(dir.path().join("data"), env!("CARGO_BIN_EXE_skillvisor"));
        options.containers =
            ContainerPolicy { engine: choice, allowed_images: vec![IMAGE.parse().unwrap()], runtime: None };
        let host = Host::open(options).await.unwrap();
        let runner = host.sandbox_runner();
        let (none, config) =
            (BTreeMap::new(), SandboxConfig { timeout: Duration::from_secs(60), ..SandboxConfig::default() });
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let sleep = words(&["sleep", "1000"]);
        let named = |id: &str| SandboxConfig { id: Some(id.to_owned()), ..config.clone() };
        let (ran, killed) = tokio::join!(runner.run(IMAGE, &sleep, &none, named("one")), async {
            until(async || runner.is_running("one").then_some(())).await;
            let again = runner.run(IMAGE, &sleep, &none, named("one")).await.unwrap_err();
            (again.code, runner.running_count(), runner.kill("one").await)
        });
        assert_eq!(killed, (Code::Conflict, 1, true), "{engine}");
        assert!(ran.unwrap().killed && !runner.is_running("one"), "{engine}");
        assert!(!runner.kill("one").await, "{engine}");
        let two = async |id: &str| runner.run(IMAGE, &sleep, &none, named(id)).await;
        let (first, second, ended) = tokio::join!(two("a"), two("b"), async {
            until(async || (runner.running_count() == 2).then_some(())).await;
            runner.kill_all().await
        });
        assert_eq!((first.unwrap().killed, second.unwrap().killed, ended), (true, true, 2), "{engine}");
        for (command, env, code) in [
            (words(&["a\0b"]), none.clone(), Code::Malformed),
            (words(&["true"]), BTreeMap::from([("A=B".to_owned(), String::new())]), Code::Malformed),
            (words(&["true"]), BTreeMap::from([("A".to_owned(), "\0".to_owned())]), Code::Malformed),
        ] {
            assert_eq!(runner.run(IMAGE, &command, &env, config.clone()).await.unwrap_err().code, code, "{engine}");
        }
        let flag = runner.run("--privileged", &sleep, &none, config.clone()).await.unwrap_err();
        assert_eq!(flag.code, Code::InvalidManifest, "{engine}");
        host.close().await;
    }
}

/// The digest that a registry has of what was pushed, in the form in which that was.
async fn digest(address: &str, engine: &str) -> String {
    let forms = ["application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"];
    let url = format!("http://{address}/v2/{engine}/test/manifests/1");
    let answer = reqwest::Client::new().head(url).header("accept", forms.join(",")).send().await.unwrap();
    answer.headers()["docker-content-digest"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn images_come_from_a_registry_by_tag_and_by_digest_and_only_when_somebody_says_so() {
    let Some(registry) = crate::sources::Registry::start(false) else { return };
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("registries.conf");
    let text = format!("[[registry]]\nlocation = \"{}\"\ninsecure = true\n", registry.address);
    std::fs::write(&config, text).unwrap();
    let engine_call = |engine: &str, arguments: &[&str]| {
        let called = Command::new(engine).env("CONTAINERS_REGISTRIES_CONF", &config).args(arguments).output().unwrap();
        assert!(called.status.success(), "{engine} {arguments:?}: {}", String::from_utf8_lossy(&called.stderr));
        String::from_utf8(called.stdout).unwrap().trim().to_owned()
    };
    for engine in engines() {
        let tag = format!("{}/{engine}/test:1", registry.address);
        engine_call(engine, &["tag", IMAGE, &tag]);
        engine_call(engine, &["push", &tag]);
        let pinned = format!("{}/{engine}/test@{}", registry.address, digest(&registry.address, engine).await);
        let own = format!("{}/{engine}/", registry.address);
        let pull = |image: &str| {
            let mut command = program(engine, &["images", "pull", image]);
            command.env("CONTAINERS_REGISTRIES_CONF", &config);
            command.env("SKILLVISOR_CONTAINERS_ALLOWED_IMAGES", format!("{tag},{pinned},{own}absent:1"));
            run(&mut command)
        };
        engine_call(engine, &["rmi", &tag]);
        pull(&tag).expect(0);
        engine_call(engine, &["rmi", &tag]);
        pull(&pinned).expect(0);
        assert!(pull(&format!("{own}absent:1")).expect(6).stderr.contains("there is no image"), "{engine}");
        assert_eq!(pull("alpine:3.20").code, 3, "{engine}");
        engine_call(engine, &["rmi", &pinned]);
    }
}
