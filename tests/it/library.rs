use std::cmp::Ordering;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use skillvisor::model::{Digest, OwnerId, Scope, Secret, SkillState};
use skillvisor::{
    Caller, CatalogueSettings, Code, Error, ExecutionFilter, ExecutionRequest, Host, HostOptions, Install, Manifest,
    NewKey, Registered, Status,
};
use tempfile::TempDir;

use crate::support::guest;

/// A host in this process; its components are compiled by `program`.
async fn open(program: &str) -> (Host, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let mut options = HostOptions::new(dir.path().join("data"), program);
    options.catalogue = CatalogueSettings::off();
    let host = Host::open(options).await.unwrap();
    (host, dir)
}

async fn host() -> (Host, TempDir) {
    open(env!("CARGO_BIN_EXE_skillvisor")).await
}

fn manifest(address: &str) -> Manifest {
    let (name, version) = address.split_once('@').unwrap();
    Manifest { name: Some(name.into()), version: Some(version.into()), ..Manifest::default() }
}

async fn register(host: &Host, caller: &Caller, address: &str) -> Result<Registered, Error> {
    host.register(caller, manifest(address), guest("echo")).await
}

/// Registers a guest under its own name.
async fn add(host: &Host, caller: &Caller, name: &str) {
    host.register(caller, manifest(&format!("{name}@1.0.0")), guest(name)).await.unwrap();
}

fn run(skill: &str) -> ExecutionRequest {
    ExecutionRequest::new(skill.parse().unwrap(), json!({ "n": 1 }).into())
}

async fn tenant(host: &Host, scopes: &[Scope]) -> Caller {
    let new = NewKey { name: "tenant".into(), scopes: scopes.to_vec(), ..NewKey::default() };
    let (_, secret) = host.access.create(&host.admin().unwrap(), new).await.unwrap();
    host.caller(&secret).unwrap()
}

fn addresses(found: &[std::sync::Arc<skillvisor::RegisteredSkill>]) -> Vec<String> {
    found.iter().map(|found| found.skill.address()).collect()
}

#[tokio::test]
async fn a_skill_is_registered_executed_and_found_without_http() {
    let (host, _dir) = host().await;
    let caller = host.admin().unwrap();
    let made = register(&host, &caller, "echo@1.0.0").await.unwrap();
    assert!(matches!(&made, Registered::Created(found) if found.skill.state == SkillState::Ready));
    let again = register(&host, &caller, "echo@1.0.0").await.unwrap();
    assert!(matches!(again, Registered::Unchanged(_)));
    let execution = host.execute(caller.clone(), run("echo@^1")).await.unwrap();
    assert_eq!((execution.status, execution.door.as_str()), (Status::Success, "library"));
    let record = host.get_execution(&caller, execution.id).await.unwrap();
    assert_eq!(record.output.unwrap().get(), r#"{"n":1}"#);
    let filter = ExecutionFilter { limit: 5, skill: Some("echo".into()), ..ExecutionFilter::default() };
    let page = host.list_executions(&caller, filter.clone()).await.unwrap();
    assert_eq!((page.total, page.more, page.executions[0].id), (1, false, execution.id));
    assert_eq!(host.count_executions(&caller, filter).await.unwrap(), 1);
}

#[tokio::test]
async fn what_is_installed_goes_through_the_same_guard_here() {
    let (host, _dir) = host().await;
    let install = async |caller: &Caller, source: &str| {
        host.install(caller, Install::new(source.parse().unwrap())).await.unwrap_err().code
    };
    let admin = host.admin().unwrap();
    assert_eq!(install(&admin, "https://169.254.169.254/x.wasm").await, Code::Denied);
    let writer = tenant(&host, &[Scope::SkillsWrite]).await;
    assert_eq!(install(&writer, "https://a.example/x.wasm").await, Code::Denied);
    let reader = tenant(&host, &[Scope::SkillsRead]).await;
    assert_eq!(install(&reader, "https://a.example/x.wasm").await, Code::InsufficientScope);
}

#[tokio::test]
async fn versions_are_listed_resolved_switched_off_and_taken_away() {
    let (host, _dir) = host().await;
    let caller = host.admin().unwrap();
    for version in ["1.0.0", "1.10.0", "2.0.0-rc.1", "1.9.0"] {
        register(&host, &caller, &format!("echo@{version}")).await.unwrap();
    }
    let name = || "echo".parse::<skillvisor::model::SkillName>().unwrap();
    let versions = host.versions(&caller, &name()).unwrap();
    assert_eq!(addresses(&versions), ["echo@2.0.0-rc.1", "echo@1.10.0", "echo@1.9.0", "echo@1.0.0"]);
    let resolve = |range: &str| host.resolve_version(&caller, name(), range.parse().unwrap());
    assert_eq!(resolve("^1").unwrap().to_string(), "1.10.0");
    assert_eq!(resolve("latest").unwrap().to_string(), "1.10.0");
    assert_eq!(resolve("^3").unwrap_err().code, Code::NotFound);

    let newest = host.get(&caller, &"echo@1.10.0".parse().unwrap()).unwrap().skill.id;
    let off = host.set_enabled_by_id(&caller, newest, false).await.unwrap();
    assert!(!off.skill.enabled);
    assert_eq!(host.execute(caller.clone(), run("echo")).await.unwrap_err().code, Code::SkillDisabled);
    host.unregister_by_id(&caller, newest).await.unwrap();
    let range = host.unregister(&caller, &"echo@^1".parse().unwrap()).await.unwrap_err();
    assert_eq!(range.code, Code::Malformed);
    host.unregister(&caller, &"echo@1.9.0".parse().unwrap()).await.unwrap();
    assert_eq!(addresses(&host.scoped_skills(&caller).unwrap()), ["echo@1.0.0", "echo@2.0.0-rc.1"]);
    assert_eq!(skillvisor::compare_versions("1.10.0", "1.9.0").unwrap(), Ordering::Greater);
    assert!(skillvisor::satisfies("1.9.0", "^1").unwrap());
}

#[tokio::test]
async fn a_guest_learns_what_run_it_is_in() {
    let (host, _dir) = host().await;
    let caller = host.admin().unwrap();
    add(&host, &caller, "context-probe").await;
    let args = json!({ "steps": 1 }).into();
    let mut request = ExecutionRequest::new("context-probe".parse().unwrap(), args);
    request.session_id = Some("s-1".into());
    let execution = host.execute(caller, request).await.unwrap();
    let told: serde_json::Value = serde_json::from_str(execution.output.unwrap().get()).unwrap();
    let deadline = told["deadlineMs"].as_i64().unwrap();
    assert!((execution.created_at..execution.created_at + 60_000).contains(&deadline), "{told}");
    assert_eq!(told["id"], execution.id.to_string());
    assert_eq!((&told["skill"], &told["session"]), (&json!("context-probe@1.0.0"), &json!("s-1")));
    // Not the owner itself: a name that the guest could send somewhere.
    assert_eq!(told["ownerHash"], Digest::of(b"admin").hex());
}

#[tokio::test]
async fn a_limit_of_the_request_binds_and_is_in_the_record() {
    let (host, _dir) = host().await;
    let caller = host.admin().unwrap();
    for name in ["table-hog", "spin"] {
        add(&host, &caller, name).await;
    }
    let mut request = run("table-hog");
    request.limits.memory_mb = Some(16);
    let tables = host.execute(caller.clone(), request).await.unwrap();
    assert_eq!(tables.output.as_ref().unwrap().get(), r#"{"refused":true}"#);
    let peak = host.get_execution(&caller, tables.id).await.unwrap().usage.memory_peak_bytes;
    assert!((2 << 20..=16 << 20).contains(&peak), "{peak} bytes");

    let mut request = run("spin");
    request.limits.timeout_ms = Some(100);
    let spun = host.execute(caller, request).await.unwrap();
    assert_eq!((spun.status, spun.error.unwrap().code), (Status::Timeout, Code::Timeout));
}

#[tokio::test]
async fn a_key_may_do_no_more_here_than_over_http() {
    let (host, _dir) = host().await;
    let admin = host.admin().unwrap();
    let global = Manifest { owner: Some(OwnerId::system()), ..manifest("echo@1.0.0") };
    host.register(&admin, global, guest("echo")).await.unwrap();
    let runner = tenant(&host, &[Scope::SkillsExecute]).await;
    let other = tenant(&host, Scope::DEFAULT).await;
    let execution = host.execute(runner.clone(), run("echo")).await.unwrap();

    let echo = "echo@1.0.0".parse().unwrap();
    let id = host.get(&other, &echo).unwrap().skill.id;
    let refused = [
        host.get(&runner, &echo).unwrap_err(),
        host.scoped_skills(&runner).unwrap_err(),
        host.versions(&runner, &"echo".parse().unwrap()).unwrap_err(),
        register(&host, &runner, "echo@2.0.0").await.unwrap_err(),
        host.set_enabled_by_id(&runner, id, false).await.unwrap_err(),
        host.unregister(&runner, &echo).await.unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.code, Code::InsufficientScope, "{error:?}");
    }
    assert_eq!(host.set_enabled_by_id(&other, id, false).await.unwrap_err().code, Code::Forbidden);
    assert_eq!(host.unregister_by_id(&other, id).await.unwrap_err().code, Code::Forbidden);

    assert_eq!(host.get_execution(&runner, execution.id).await.unwrap().id, execution.id);
    assert_eq!(host.get_execution(&other, execution.id).await.unwrap_err().code, Code::NotFound);
    assert_eq!(host.count_executions(&other, ExecutionFilter::default()).await.unwrap(), 0);
    let of = |owner: &Caller| ExecutionFilter { owner: Some(owner.owner().clone()), ..ExecutionFilter::default() };
    assert_eq!(host.count_executions(&other, of(&runner)).await.unwrap_err().code, Code::Forbidden);
    assert_eq!(host.count_executions(&admin, of(&runner)).await.unwrap(), 1);
    let by_other = ExecutionFilter { key: Some(other.key.id.clone()), ..ExecutionFilter::default() };
    assert_eq!(host.count_executions(&runner, by_other).await.unwrap_err().code, Code::InsufficientScope);
}

#[tokio::test]
async fn only_an_admin_key_makes_and_changes_keys_here_too() {
    let (host, _dir) = host().await;
    let caller = tenant(&host, Scope::DEFAULT).await;
    let refused = [
        host.access.create(&caller, NewKey { name: "k".into(), ..NewKey::default() }).await.map(drop).unwrap_err(),
        host.access.rotate(&caller, &caller.key.id, 0).await.map(drop).unwrap_err(),
        host.access.revoke(&caller, &caller.key.id).await.unwrap_err(),
        host.access.list(&caller).unwrap_err(),
        host.access.get(&caller, &caller.key.id).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.code, Code::InsufficientScope, "{error:?}");
    }
    let nameless = host.access.create(&host.admin().unwrap(), NewKey::default()).await.map(drop);
    assert_eq!(nameless.unwrap_err().code, Code::Malformed);
}

#[test]
fn the_chosen_admin_key_is_not_in_what_is_printed_of_the_options() {
    let secret = Secret::new("0123456789abcdef0123456789abcdef").unwrap();
    let mut options = HostOptions::new("data", "skillvisor");
    options.admin_key = Some(secret);
    assert!(!format!("{options:?}").contains("0123456789abcdef"));
}

/// No worker can be started here: whatever is refused otherwise has not cost one.
#[tokio::test]
async fn what_is_wrong_with_a_manifest_alone_is_found_before_its_component_is_looked_into() {
    let (host, _dir) = open("/nowhere/skillvisor").await;
    let caller = host.admin().unwrap();
    let wrong = |change: fn(&mut Manifest)| {
        let mut manifest = manifest("echo@1.0.0");
        change(&mut manifest);
        host.register(&caller, manifest, guest("echo"))
    };
    for (refused, code) in [
        (wrong(|manifest| manifest.limits.memory_mb = Some(0)).await, Code::InvalidManifest),
        (wrong(|manifest| manifest.schema = Some(json!({ "type": "strin" }))).await, Code::InvalidManifest),
        (wrong(|manifest| manifest.name = Some("executions".into())).await, Code::ReservedName),
        (wrong(|manifest| manifest.version = Some("1.0".into())).await, Code::InvalidManifest),
        (wrong(|_| {}).await, Code::Unavailable),
    ] {
        assert_eq!(refused.unwrap_err().code, code);
    }
}

#[tokio::test]
async fn a_program_that_is_no_compile_worker_is_named_as_the_fault() {
    for (program, word) in [
        ("/bin/true", "no compile worker"),
        ("/bin/false", "no compile worker"),
        // It says something, but nothing that a worker says.
        ("/bin/echo", "no compile worker"),
        ("/nowhere/skillvisor", "could not be started"),
    ] {
        let (host, dir) = open(program).await;
        let caller = host.admin().unwrap();
        let error = register(&host, &caller, "echo@1.0.0").await.unwrap_err();
        assert_eq!(error.code, Code::Unavailable, "{program}: {error:?}");
        assert!(error.detail.contains(word), "{program}: {error:?}");
        assert!(host.scoped_skills(&caller).unwrap().is_empty());
        assert_eq!(std::fs::read_dir(dir.path().join("data/blobs")).unwrap().count(), 0);
    }
}

/// The compile worker is the running program, not the file of that name.
#[test]
fn a_server_whose_file_was_replaced_still_compiles() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (program, data) = (dir.path().join("skillvisor"), dir.path().join("data"));
    std::fs::hard_link(env!("CARGO_BIN_EXE_skillvisor"), &program).unwrap();
    let mut server = Command::new(&program)
        .args(["serve", "--json", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(&data)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let next = dir.path().join("next");
    std::fs::copy("/bin/true", &next).unwrap();
    std::fs::rename(&next, &program).unwrap();
    let push = Command::new(env!("CARGO_BIN_EXE_skillvisor"))
        .args(["push", concat!(env!("CARGO_MANIFEST_DIR"), "/skills/hello")])
        .env("SKILLVISOR_DATA_DIR", &data)
        .output()
        .unwrap();
    let _ = (server.kill(), server.wait());
    assert!(push.status.success(), "{}", String::from_utf8_lossy(&push.stderr));
}

#[test]
fn the_example_runs_a_skill_for_a_tenant_and_shows_the_audit() {
    let example = Path::new(env!("CARGO_BIN_EXE_skillvisor")).with_file_name("examples").join("embed");
    assert!(example.exists(), "{} is missing; cargo build --example embed makes it", example.display());
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &str| {
        let component = concat!(env!("CARGO_MANIFEST_DIR"), "/skills/hello/hello.wasm");
        let output = Command::new(&example).arg(dir.path().join("data")).args([component, args]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run(r#"{"name":"Ada"}"#);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("registered embedded@1.0.0 sha256:"), "{text}");
    assert_eq!(lines[1], r#"success {"greeting":"Hello, Ada!"}"#);
    assert!(lines[2].starts_with("audit embedded@1.0.0 success by key_"), "{text}");
    // The directory was given free and the skill is there still.
    assert!(run(r#"{"name":"Bob"}"#).contains("Hello, Bob!"));
}

#[tokio::test]
async fn the_newest_reports_of_progress_stand_on_the_execution_that_is_answered() {
    let (host, _dir) = host().await;
    let caller = host.admin().unwrap();
    add(&host, &caller, "context-probe").await;
    let request = ExecutionRequest::new("context-probe".parse().unwrap(), json!({ "steps": 500 }).into());
    let execution = host.execute(caller, request).await.unwrap();
    let reports = &execution.said.progress;
    let last = reports.last().unwrap();
    assert_eq!((last.done, last.total, last.message.as_str()), (500.0, Some(500.0), "step 500 of 500"));
    assert!(reports.len() <= 64 && execution.said.log.is_empty(), "{}", reports.len());
}
