use std::path::{Path, PathBuf};

use futures_util::future::join_all;
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Ended, Host, command, guest, run, until};

/// Acknowledged runs: their ids and outputs.
type Acknowledged = Mutex<Vec<(String, Value)>>;

/// Runs skills, one after another, until nobody asks any more.
async fn runs(host: &Host, acknowledged: &Acknowledged) {
    for number in 0.. {
        let long = if number % 20 == 0 { "x".repeat(90_000) } else { number.to_string() };
        let ran = host.run("hello", json!({ "name": long }), json!({})).await;
        assert_eq!(ran.body["status"], "success", "{}", ran.body);
        acknowledged.lock().push((ran.body["id"].as_str().unwrap().to_owned(), ran.body["output"].clone()));
    }
}

/// Uploads and deletes a skill, again and again.
async fn uploads(host: &Host) {
    for number in 0.. {
        let name = format!("come-and-go-{number}");
        assert!(host.upload(&name, guest("start-loop")).await.status.is_success());
        let gone = host.send(Method::DELETE, &format!("/api/skills/{name}@1.0.0"), Value::Null).await;
        assert_eq!(gone.status, 204, "{}", gone.body);
    }
}

async fn on(data_dir: PathBuf, arguments: Vec<String>) -> Ended {
    let work = move || {
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        run(&mut command(&data_dir, &arguments))
    };
    tokio::task::spawn_blocking(work).await.unwrap()
}

fn restore(backup: &Path, data_dir: &Path) -> Ended {
    run(&mut command(data_dir, &["restore", backup.to_str().unwrap(), "--json"]))
}

#[tokio::test]
async fn a_backup_under_load_has_what_was_acknowledged_before_and_runs_where_it_is_restored() {
    let host = Host::start().with("hello").await;
    let data = host.dir.path().join("data");
    let secret = json!({ "value": "s3cret-value", "for": "https://a.example", "header": "x-token" });
    assert!(host.send(Method::PUT, "/api/secrets/TOKEN", secret).await.status.is_success());
    let put = host.request_as(Some(host.key()), Method::PUT, "/api/workspace/a/b.txt").body("of an owner");
    assert_eq!(put.send().await.unwrap().status(), 201);
    let acknowledged = Acknowledged::default();
    let place = tempfile::tempdir().unwrap();
    let backup = place.path().join("backup");
    let copying = async {
        until(async || (acknowledged.lock().len() >= 100).then_some(())).await;
        let before = acknowledged.lock().clone();
        let made = on(data.clone(), vec!["backup".into(), backup.to_str().unwrap().into(), "--json".into()]).await;
        (before, made)
    };
    let load = async { tokio::join!(join_all((0..4).map(|_| runs(&host, &acknowledged))), uploads(&host)) };
    let (before, made) = tokio::select! {
        _ = load => panic!("the load ended"),
        copied = copying => copied,
    };
    let made = made.expect(0).json();
    assert_eq!(made["leftOut"], json!(["secrets.key", "audit.key", "admin.key"]));
    let left: Vec<_> = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["backup"], "nothing unfinished is left beside it");
    for key in ["secrets.key", "audit.key", "admin.key"] {
        assert!(!backup.join(key).exists(), "{key}");
    }
    let new = tempfile::tempdir().unwrap();
    let restored = restore(&backup, &new.path().join("data")).expect(0).json();
    assert_eq!((&restored["newAdminKey"], &restored["lacksSecretsKey"]), (&json!(true), &json!(true)));
    std::fs::copy(data.join("secrets.key"), new.path().join("data/secrets.key")).unwrap();
    let host = Host::start_in(new, &[]);
    for part in before.chunks(50) {
        join_all(part.iter().map(async |(id, output)| {
            let found = host.get(&format!("/api/skills/executions/{id}")).await;
            assert_eq!((&found.body["status"], &found.body["output"]), (&json!("success"), output), "{id}");
        }))
        .await;
    }
    assert_eq!(host.get("/api/skills/executions?status=running").await.body["total"], 0);
    let file = host.request_as(Some(host.key()), Method::GET, "/api/workspace/a/b.txt").send().await.unwrap();
    assert_eq!(file.text().await.unwrap(), "of an owner");
    assert_eq!(host.get("/api/secrets").await.body["total"], 1);
    until(async || (host.get("/api/skills/hello").await.body["state"] == "ready").then_some(())).await;
    let ran = host.run("hello", json!({ "name": "Ada" }), json!({})).await;
    assert_eq!(ran.body["status"], "success", "{}", ran.body);
    assert_eq!(crate::power::strays(&host).await, Ok(()));
}

/// A backup of a host that has stopped, with a file of so many bytes.
async fn stopped_backup(place: &Path, bytes: usize) -> PathBuf {
    let host = Host::start().with("hello").await;
    host.run("hello", json!({}), json!({})).await;
    let put = host.request_as(Some(host.key()), Method::PUT, "/api/workspace/big").body(vec![7; bytes]);
    assert_eq!(put.send().await.unwrap().status(), 201);
    let dir = host.stop();
    let backup = place.join("backup");
    let text = backup.to_str().unwrap();
    let made = run(&mut command(&dir.path().join("data"), &["backup", text])).expect(0);
    assert!(made.stderr.contains("left out: audit.key, admin.key"), "{}", made.stderr);
    // Nothing is written over.
    assert!(
        run(&mut command(&dir.path().join("data"), &["backup", text])).expect(5).stderr.contains("something is there")
    );
    let inside = dir.path().join("data/inside");
    run(&mut command(&dir.path().join("data"), &["backup", inside.to_str().unwrap()])).expect(5);
    backup
}

/// What is in a directory, without the file that is locked.
fn contents(dir: &Path) -> Vec<String> {
    let names =
        std::fs::read_dir(dir).map(|entries| entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()));
    names.map(|names| names.filter(|name| name != "lock").collect()).unwrap_or_default()
}

#[tokio::test]
async fn a_damaged_or_partial_backup_is_refused_and_nothing_of_it_stays() {
    let place = tempfile::tempdir().unwrap();
    let backup = stopped_backup(place.path(), 1000).await;
    let data = place.path().join("data");
    let blob = std::fs::read_dir(backup.join("blobs")).unwrap().next().unwrap().unwrap().path();
    let database = backup.join("skillvisor.db");
    for file in [blob, database, backup.join("skillvisor-backup.json")] {
        let whole = std::fs::read(&file).unwrap();
        let mut damaged = whole.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        std::fs::write(&file, &damaged).unwrap();
        assert_eq!(restore(&backup, &data).expect(5).json()["code"], "digest_mismatch", "{}", file.display());
        assert_eq!(contents(&data), [] as [String; 0]);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(restore(&backup, &data).expect(6).json()["code"], "malformed", "{}", file.display());
        assert_eq!(contents(&data), [] as [String; 0]);
        std::fs::write(&file, whole).unwrap();
    }
    std::fs::write(data.join("mine"), "something").unwrap();
    assert_eq!(restore(&backup, &data).expect(5).json()["code"], "conflict");
    assert_eq!(contents(&data), ["mine"]);
    std::fs::remove_file(data.join("mine")).unwrap();
    restore(&backup, &data).expect(0);
    // It is used, and so it is neither empty nor free.
    assert_eq!(restore(&backup, &data).expect(5).json()["code"], "conflict");
    let listed = run(&mut command(&data, &["logs", "--json"])).expect(0).json();
    assert_eq!(listed["total"], 1);
}

#[tokio::test]
async fn what_a_killed_restore_leaves_does_not_start_and_the_next_try_finishes_it() {
    let place = tempfile::tempdir().unwrap();
    let backup = stopped_backup(place.path(), 64 << 20).await;
    let new = tempfile::tempdir().unwrap();
    let data = new.path().join("data");
    let mut child = command(&data, &["restore", backup.to_str().unwrap()]).spawn().unwrap();
    let marker = data.join("restore.unfinished");
    until(async || marker.exists().then_some(())).await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(marker.exists(), "it was too fast to be killed");
    let refused = run(&mut command(&data, &["serve", "--listen", "127.0.0.1:0"]));
    assert!(refused.code != 0 && refused.stderr.contains("not whole"), "{}", refused.stderr);
    restore(&backup, &data).expect(0);
    let host = Host::start_in(new, &[]);
    let file = host.request_as(Some(host.key()), Method::GET, "/api/workspace/big").send().await.unwrap();
    assert_eq!(file.bytes().await.unwrap().len(), 64 << 20);
}
