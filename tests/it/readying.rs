use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use skillvisor::model::SkillState;
use skillvisor::{
    Caller, CatalogueSettings, Code, Error, ExecutionRequest, Host, HostOptions, Manifest, Registered, Status,
};

use crate::support::{guest, until};

/// What a worker says when it panics.
const BROKEN: &str = r#"{"broken":{"detail":"panicked at a/secret/place.rs:1:1"}}"#;

/// A host on `dir/data` whose compile workers do what `dir/mode` says before they work.
async fn open(dir: &Path) -> (Host, Caller) {
    let program = dir.join("worker");
    let script = format!(
        "#!/bin/sh\ncase $(cat {mode}) in\nkill) kill -9 $$ ;;\nbreak) echo '{{BROKEN}}'; exit 101 ;;\nhang) : > {hanging}; exec sleep 600 ;;\nesac\nexec {real} \"$@\"\n",
        mode = dir.join("mode").display(),
        hanging = dir.join("hanging").display(),
        real = env!("CARGO_BIN_EXE_skillvisor"),
    );
    // The workers know no PATH.
    let script = script.replace("{BROKEN}", BROKEN);
    let script = script.replace("$(cat ", "$(/bin/cat ").replace("exec sleep", "exec /bin/sleep");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut options = HostOptions::new(dir.join("data"), program);
    options.catalogue = CatalogueSettings::off();
    let host = Host::open(options).await.unwrap();
    let caller = host.admin().unwrap();
    (host, caller)
}

fn set_mode(dir: &Path, mode: &str) {
    std::fs::write(dir.join("mode"), mode).unwrap();
}

async fn register(host: &Host, caller: &Caller, version: &str) -> Result<Registered, Error> {
    let manifest = Manifest { name: Some("echo".into()), version: Some(version.into()), ..Manifest::default() };
    host.register(caller, manifest, guest("echo")).await
}

fn run() -> ExecutionRequest {
    ExecutionRequest::new("echo".parse().unwrap(), json!({ "n": 1 }).into())
}

fn state(host: &Host, caller: &Caller) -> SkillState {
    host.get(caller, &"echo".parse().unwrap()).unwrap().skill.state
}

/// Registers `versions` of a skill, and takes their code away, as a new engine does.
async fn with_lost_code(dir: &Path, versions: usize) {
    set_mode(dir, "work");
    let (host, caller) = open(dir).await;
    for version in 1..=versions {
        register(&host, &caller, &format!("{version}.0.0")).await.unwrap();
    }
    host.close().await;
    drop(host);
    std::fs::remove_dir_all(dir.join("data/cache")).unwrap();
}

#[tokio::test]
async fn a_good_skill_outlives_a_killed_worker_and_heals_with_the_next_upload() {
    let dir = tempfile::tempdir().unwrap();
    with_lost_code(dir.path(), 1).await;
    set_mode(dir.path(), "kill");
    let (host, caller) = open(dir.path()).await;
    let after = until(async || Some(state(&host, &caller)).filter(|state| *state != SkillState::Compiling)).await;
    assert_eq!(after, SkillState::Unavailable);
    assert_eq!(host.execute(caller.clone(), run()).await.unwrap_err().code, Code::Unavailable);
    set_mode(dir.path(), "work");
    let again = register(&host, &caller, "1.0.0").await.unwrap();
    assert!(matches!(&again, Registered::Unchanged(found) if found.skill.state == SkillState::Ready));
    assert_eq!(host.execute(caller, run()).await.unwrap().status, Status::Success);
}

#[tokio::test]
async fn a_worker_that_is_killed_says_nothing_about_a_new_component() {
    let dir = tempfile::tempdir().unwrap();
    set_mode(dir.path(), "kill");
    let (host, caller) = open(dir.path()).await;
    assert_eq!(register(&host, &caller, "1.0.0").await.unwrap_err().code, Code::Unavailable);
    set_mode(dir.path(), "work");
    assert!(register(&host, &caller, "1.0.0").await.is_ok());
}

#[tokio::test]
async fn a_worker_that_panics_is_our_fault_and_not_the_components() {
    let dir = tempfile::tempdir().unwrap();
    with_lost_code(dir.path(), 1).await;
    set_mode(dir.path(), "break");
    let (host, caller) = open(dir.path()).await;
    let refused = register(&host, &caller, "2.0.0").await.unwrap_err();
    assert!(refused.code == Code::Internal && !refused.detail.contains("place.rs"), "{refused}");
    let after = until(async || Some(state(&host, &caller)).filter(|state| *state != SkillState::Compiling)).await;
    assert_eq!(after, SkillState::Unavailable);
    set_mode(dir.path(), "work");
    assert!(matches!(register(&host, &caller, "2.0.0").await.unwrap(), Registered::Created(_)));
    assert_eq!(host.execute(caller, run()).await.unwrap().status, Status::Success);
}

#[tokio::test]
async fn who_waits_for_a_skill_that_is_deleted_learns_so() {
    let dir = tempfile::tempdir().unwrap();
    with_lost_code(dir.path(), 1).await;
    set_mode(dir.path(), "hang");
    let (host, caller) = open(dir.path()).await;
    let mut waiting = Box::pin(host.execute(caller.clone(), run()));
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut waiting).await.is_err(), "it does not wait");
    host.unregister(&caller, &"echo@1.0.0".parse().unwrap()).await.unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(10), waiting).await;
    assert_eq!(answer.expect("it waits for ever").unwrap_err().code, Code::NotFound);
}

/// One owner's share of the compile queue is 500.
#[tokio::test]
async fn more_skills_than_the_queue_holds_are_all_made_ready() {
    let dir = tempfile::tempdir().unwrap();
    with_lost_code(dir.path(), 520).await;
    let (host, caller) = open(dir.path()).await;
    let name = "echo".parse().unwrap();
    until(async || {
        let versions = host.versions(&caller, &name).unwrap();
        assert_eq!(versions.len(), 520);
        versions.iter().all(|found| found.skill.state == SkillState::Ready).then_some(())
    })
    .await;
}

/// A guest with a section in it that makes it a large component.
fn large(filling: u8) -> Vec<u8> {
    const BYTES: u32 = 5 << 20;
    // A custom section, named by one letter; its size is in LEB128.
    let size = (0..4).map(|n| (BYTES >> (7 * n)) as u8 & 0x7f | if n < 3 { 0x80 } else { 0 });
    let mut section: Vec<u8> = [0].into_iter().chain(size).chain([1, b'x']).collect();
    section.resize(section.len() + BYTES as usize - 2, filling);
    [guest("echo"), section].concat()
}

#[tokio::test]
async fn one_large_component_that_takes_long_keeps_neither_others_nor_small_ones_waiting() {
    let dir = tempfile::tempdir().unwrap();
    set_mode(dir.path(), "hang");
    let (host, caller) = open(dir.path()).await;
    let register = |name: &str, owner: &str, component: Vec<u8>| {
        let (name, version, owner) = (Some(name.into()), Some("1.0.0".into()), owner.parse().ok());
        host.register(&caller, Manifest { name, version, owner, ..Manifest::default() }, component)
    };
    let slow = register("slow", "a", large(1));
    let hanging = until(async || dir.path().join("hanging").exists().then_some(()));
    let others = async {
        hanging.await;
        set_mode(dir.path(), "work");
        let second = register("second", "a", large(2));
        let rest = async {
            register("other", "b", large(3)).await.unwrap();
            register("small", "a", guest("echo")).await.unwrap();
        };
        tokio::select! {
            _ = second => panic!("an owner has two large components at work"),
            () = rest => {}
        }
    };
    tokio::select! {
        _ = slow => panic!("it does not hang"),
        done = tokio::time::timeout(Duration::from_secs(40), others) => done.expect("they wait"),
    }
}

#[tokio::test]
async fn a_component_whose_file_was_changed_is_not_compiled() {
    let dir = tempfile::tempdir().unwrap();
    with_lost_code(dir.path(), 1).await;
    let blob = std::fs::read_dir(dir.path().join("data/blobs")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&blob, guest("hello")).unwrap();
    let (host, caller) = open(dir.path()).await;
    let after = until(async || Some(state(&host, &caller)).filter(|state| *state != SkillState::Compiling)).await;
    assert_eq!(after, SkillState::Unavailable);
    let refused = host.execute(caller.clone(), run()).await.unwrap_err();
    assert_eq!(refused.code, Code::Unavailable);
    assert!(refused.detail.contains("digest"), "{}", refused.detail);
    // The same bytes again put the right ones in their place.
    let again = register(&host, &caller, "1.0.0").await.unwrap();
    assert_eq!(again.skill().skill.state, SkillState::Ready);
    assert_eq!(host.execute(caller, run()).await.unwrap().status, Status::Success);
}
