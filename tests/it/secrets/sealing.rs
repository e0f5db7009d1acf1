//! The key that secrets are sealed with: another one opens nothing, and no row stands for another.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rusqlite::Connection;
use serde_json::json;

use super::{CANARY, arguments, carries, get, key, push, store, world};
use crate::support::Host;

#[tokio::test]
async fn a_wrong_or_missing_key_stops_the_start_and_loses_nothing() {
    let (mut host, authority, echo) = world().await;
    let key = key(&host, "team", &["TOKEN"]).await;
    let file = host.dir.path().join("data/secrets.key");
    assert!(!file.exists(), "the first secret makes the key");
    store(&host, &key, "TOKEN", (&echo, CANARY)).await;
    push(&host, &key, "fetch", json!(["TOKEN"]), None).await;
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
    host.kill_and_restart();
    get(&host, &key, "fetch", echo.url("/x")).await;
    assert!(carries(&echo.heads().concat(), CANARY));
    let dir = host.stop();
    let file = dir.path().join("data/secrets.key");
    let right = std::fs::read_to_string(&file).unwrap();
    let mut dir = Some(dir);
    for wrong in [Some("0f".repeat(32)), Some("nonsense".to_owned()), None] {
        match &wrong {
            Some(text) => std::fs::write(&file, text).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let path = dir.as_ref().unwrap().path().to_owned();
        let ended = crate::support::run(&mut crate::support::command(
            &path.join("data"),
            &["serve", "--listen", "127.0.0.1:0"],
        ));
        assert_ne!(ended.code, 0);
        assert!(ended.stderr.contains("secrets.key_file"), "{}", ended.stderr);
        assert!(!ended.stderr.contains(right.trim()), "{}", ended.stderr);
        assert_eq!(file.exists(), wrong.is_some(), "no new key in the place of one that is lost");
    }
    std::fs::write(&file, right).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let arguments = arguments(&authority);
    let host = Host::start_in(dir.take().unwrap(), &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    get(&host, &key, "fetch", echo.url("/x")).await;
    assert!(carries(&echo.heads().concat(), CANARY));
}

#[tokio::test]
async fn a_row_that_was_exchanged_for_another_is_not_sent() {
    let (host, authority, echo) = world().await;
    let key = key(&host, "team", &["TOKEN", "OTHER"]).await;
    store(&host, &key, "TOKEN", (&echo, "first-value")).await;
    store(&host, &key, "OTHER", (&echo, "other-value")).await;
    push(&host, &key, "fetch", json!(["TOKEN"]), None).await;
    let dir = host.stop();
    let database = Connection::open(dir.path().join("data/skillvisor.db")).unwrap();
    let swap = "UPDATE secrets SET (nonce, sealed) = (SELECT nonce, sealed FROM secrets WHERE name = 'OTHER')
                WHERE name = 'TOKEN'";
    assert_eq!(database.execute(swap, []).unwrap(), 1);
    drop(database);
    let arguments = arguments(&authority);
    let host = Host::start_in(dir, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let ran = get(&host, &key, "fetch", echo.url("/x")).await;
    assert_eq!((&ran["status"], &ran["error"]["code"]), (&json!("error"), &json!("internal")), "{ran}");
    assert!(echo.heads().is_empty());
}

#[tokio::test]
async fn a_key_from_the_environment_leaves_no_file() {
    let (_, authority, echo) = world().await;
    let arguments = arguments(&authority);
    let digits = "5a".repeat(32);
    let variables = [("SKILLVISOR_SECRETS_KEY", Path::new(&digits))];
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let host = Host::start_under(tempfile::tempdir().unwrap(), &arguments, &variables);
    let key = key(&host, "team", &["TOKEN"]).await;
    store(&host, &key, "TOKEN", (&echo, CANARY)).await;
    push(&host, &key, "fetch", json!(["TOKEN"]), None).await;
    get(&host, &key, "fetch", echo.url("/x")).await;
    assert!(carries(&echo.heads().concat(), CANARY));
    assert!(!host.dir.path().join("data/secrets.key").exists());
}
