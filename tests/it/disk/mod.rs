//! A disk that is full, or that can only be read, for a while: below the real server, a library fails
//! what it writes as such a disk does.

use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, Reply, guest, until};

/// The library that is preloaded, built into `dir`.
fn faults(dir: &Path) -> PathBuf {
    let library = dir.join("faults.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/disk/faults.c");
    let built = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", source, "-ldl", "-o"])
        .arg(&library)
        .status()
        .expect("a C compiler");
    assert!(built.success());
    library
}

async fn hello(host: &Host, mode: &str) -> Reply {
    host.send(Method::POST, "/api/skills/executions", json!({ "skillId": "hello", "mode": mode })).await
}

async fn upload(host: &Host, name: &str) -> Reply {
    host.upload(name, guest("start-loop")).await
}

async fn put(host: &Host) -> u16 {
    let put = host.request_as(Some(host.key()), Method::PUT, "/api/workspace/a.txt").body("text");
    put.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_disk_that_takes_nothing_gives_typed_errors_and_all_works_again_without_a_restart() {
    let tools = tempfile::tempdir().unwrap();
    let (library, control) = (faults(tools.path()), tools.path().join("control"));
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let variables =
        [("LD_PRELOAD", library.as_path()), ("FAULTS_CONTROL", control.as_path()), ("FAULTS_BELOW", data.as_path())];
    let host = Host::start_under(dir, &[], &variables).with("hello").await;
    assert_eq!(hello(&host, "sync").await.body["status"], "success");
    for (word, refusal) in [("full", "507 storage_full"), ("read-only", "503 unavailable")] {
        std::fs::write(&control, word).unwrap();
        for mode in ["sync", "async"] {
            assert_eq!(hello(&host, mode).await.summary(), refusal, "{word}, {mode}");
        }
        assert_eq!(upload(&host, word).await.summary(), refusal, "{word}");
        let key = host.send(Method::POST, "/api/keys", json!({ "name": word })).await;
        assert_eq!(key.summary(), refusal, "{word}");
        let status = put(&host).await;
        assert_eq!(status.to_string(), refusal[..3], "{word}");
        // What is only read is there all the while.
        assert_eq!(host.get("/api/skills/hello").await.status, 200);
        std::fs::remove_file(&control).unwrap();
        until(async || (hello(&host, "sync").await.body["status"] == "success").then_some(())).await;
        until(async || upload(&host, word).await.status.is_success().then_some(())).await;
        assert!(matches!(put(&host).await, 200 | 201));
    }
    let open = host.get("/api/skills/executions?status=running").await.body["total"].clone();
    assert_eq!(open, Value::from(0));
}
