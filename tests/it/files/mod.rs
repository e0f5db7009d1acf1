//! Owners' files: what guests and callers may do with them, and how much.

/// By way of guests of WASI 0.3.
mod async_guests;
/// By way of the command line.
mod cli;
/// Paths that lead nowhere.
mod corpus;
/// By way of a crash.
mod crash;
/// By way of guests.
mod guest;

use std::path::PathBuf;

use reqwest::{Method, multipart};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Host, Reply, guest, reply};

/// Pushes the guest `files` as `name`, with the key of some owner.
async fn push(host: &Host, key: &str, name: &str, workspace: &str) -> Reply {
    let manifest = json!({ "name": name, "version": "1.0.0", "grants": { "workspace": workspace } });
    let form = multipart::Form::new()
        .part("manifest", multipart::Part::text(manifest.to_string()).mime_str("application/json").unwrap())
        .part("component", multipart::Part::bytes(guest("files")).mime_str("application/wasm").unwrap());
    let pushed = reply(host.request_as(Some(key), Method::POST, "/api/skills").multipart(form)).await;
    assert!(pushed.status.is_success(), "{}", pushed.body);
    pushed
}

/// Makes a key of this owner with these ceilings.
async fn key(host: &Host, owner: &str, ceilings: Value) -> String {
    let scopes = ["skills:read", "skills:write", "skills:execute", "files:read", "files:write"];
    let body = json!({ "name": "k", "owner": owner, "scopes": scopes, "ceilings": ceilings });
    let made = host.send(Method::POST, "/api/keys", body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.body["secret"].as_str().unwrap().to_owned()
}

/// Runs steps in a skill, and gives the execution.
async fn execute(host: &Host, key: &str, skill: &str, steps: Value) -> Value {
    let body = json!({ "skillId": skill, "args": { "steps": steps } });
    let ran = reply(host.request_as(Some(key), Method::POST, "/api/skills/executions").body(body.to_string())).await;
    assert_eq!(ran.status, 200, "{}", ran.body);
    ran.body
}

/// Runs steps, and gives an answer for each.
async fn steps(host: &Host, key: &str, skill: &str, steps: Value) -> Vec<Value> {
    let execution = execute(host, key, skill, steps).await;
    assert_eq!(execution["status"], "success", "{execution}");
    execution["output"].as_array().unwrap().clone()
}

async fn put(host: &Host, key: &str, path: &str, bytes: impl Into<reqwest::Body>) -> Reply {
    reply(host.request_as(Some(key), Method::PUT, &format!("/api/workspace/{path}")).body(bytes)).await
}

async fn get(host: &Host, key: &str, path: &str) -> Reply {
    reply(host.request_as(Some(key), Method::GET, &format!("/api/workspace/{path}"))).await
}

async fn bytes(host: &Host, key: &str, path: &str) -> Vec<u8> {
    let request = host.request_as(Some(key), Method::GET, &format!("/api/workspace/{path}"));
    request.send().await.unwrap().error_for_status().unwrap().bytes().await.unwrap().to_vec()
}

/// Where the files of an owner lie.
fn directory(host: &Host, owner: &str) -> PathBuf {
    host.dir.path().join("data/workspaces").join(hex::encode(Sha256::digest(owner)))
}

/// All bytes of the files of an owner, as they lie there.
fn on_disk(host: &Host, owner: &str) -> u64 {
    fn sum(directory: &std::path::Path) -> u64 {
        let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
        entries
            .map(|entry| {
                let metadata = entry.metadata().unwrap();
                if metadata.is_dir() { sum(&entry.path()) } else { metadata.len() }
            })
            .sum()
    }
    sum(&directory(host, owner))
}

/// Sends a request exactly as it is, and gives the answer's status and the rest.
async fn raw(host: &Host, key: &str, method: &str, target: &str) -> (u16, String) {
    let address = host.url.trim_start_matches("http://");
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\ncontent-length: 1\r\n\
         connection: close\r\n\r\nx"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

#[tokio::test]
async fn a_file_that_was_put_is_listed_given_back_replaced_and_removed() {
    let host = Host::start();
    let key = key(&host, "team", json!({})).await;
    let made = put(&host, &key, "a/b%20c.txt", "one").await;
    assert_eq!((made.status.as_u16(), &made.body["path"], &made.body["size"]), (201, &json!("a/b c.txt"), &json!(3)));
    assert_eq!(put(&host, &key, "a/b%20c.txt", "twice").await.status, 200);
    let response = host.request_as(Some(&key), Method::GET, "/api/workspace/a/b%20c.txt").send().await.unwrap();
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-disposition"), "attachment; filename*=UTF-8''b%20c.txt");
    assert_eq!(
        (header("content-security-policy"), header("x-content-type-options")),
        ("sandbox".into(), "nosniff".into())
    );
    assert_eq!(response.text().await.unwrap(), "twice");
    for path in ["", "/", "?limit=1"] {
        let root = reply(host.request_as(Some(&key), Method::GET, &format!("/api/workspace{path}"))).await;
        assert_eq!((&root.body["entries"][0]["path"], &root.body["total"]), (&json!("a"), &json!(1)), "{}", root.body);
        assert_eq!(root.body["entries"][0]["kind"], "directory");
    }
    let listed = get(&host, &key, "a/").await.body;
    assert_eq!((&listed["entries"][0]["path"], &listed["entries"][0]["size"]), (&json!("a/b c.txt"), &json!(5)));
    assert!(listed["entries"][0]["modifiedAt"].as_str().unwrap().ends_with('Z'));
    let remove = |path: &str| reply(host.request_as(Some(&key), Method::DELETE, &format!("/api/workspace/{path}")));
    assert_eq!(put(&host, &key, "a", "x").await.summary(), "409 conflict");
    assert_eq!(remove("a").await.summary(), "409 conflict");
    assert_eq!(remove("a?recursive=true").await.status, 204);
    assert_eq!(get(&host, &key, "a/").await.summary(), "404 not_found");
    assert_eq!(get(&host, &key, "a/b%20c.txt").await.body["detail"], get(&host, &key, "never").await.body["detail"]);
}

#[tokio::test]
async fn a_directory_is_listed_in_pages_by_name() {
    let host = Host::start();
    for name in ["c", "a", "e", "b", "d"] {
        assert_eq!(put(&host, host.key(), name, name).await.status, 201);
    }
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = host.get(&format!("/api/workspace?limit=2{cursor}")).await.body;
        assert_eq!(page["total"], 5);
        seen.extend(page["entries"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap().to_owned()));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
}

#[tokio::test]
async fn a_key_needs_the_scope_and_sees_its_own_owners_files_alone() {
    let host = Host::start();
    let (one, two) = (key(&host, "one", json!({})).await, key(&host, "two", json!({})).await);
    assert_eq!(put(&host, &one, "mine", "secret").await.status, 201);
    assert_eq!(get(&host, &two, "mine").await.summary(), "404 not_found");
    assert_eq!(get(&host, &two, "mine?owner=one").await.summary(), "403 forbidden");
    assert_eq!(put(&host, &two, "mine?owner=one", "x").await.summary(), "403 forbidden");
    assert_eq!(bytes(&host, host.key(), "mine?owner=one").await, b"secret");
    let body = json!({ "name": "k", "owner": "one", "scopes": ["files:read"] });
    let made = host.send(Method::POST, "/api/keys", body).await;
    let reader = made.body["secret"].as_str().unwrap();
    assert_eq!(bytes(&host, reader, "mine").await, b"secret");
    assert_eq!(put(&host, reader, "mine", "x").await.summary(), "403 insufficient_scope");
    let removed = reply(host.request_as(Some(reader), Method::DELETE, "/api/workspace/mine")).await;
    assert_eq!(removed.summary(), "403 insufficient_scope");
}

#[tokio::test]
async fn a_file_too_large_for_the_quota_leaves_what_was_there() {
    let host = Host::start();
    let key = key(&host, "team", json!({ "storage": { "fileBytes": 1000, "files": 3 } })).await;
    assert_eq!(put(&host, &key, "a", vec![b'a'; 400]).await.status, 201);
    assert_eq!(put(&host, &key, "a", vec![b'b'; 2000]).await.summary(), "507 storage_full");
    // Of unknown length: it ends where there is no more room.
    let endless = reqwest::Body::wrap_stream(futures_util::stream::iter(
        (0..20).map(|_| Ok::<_, std::io::Error>(vec![b'c'; 100])),
    ));
    assert_eq!(put(&host, &key, "a", endless).await.summary(), "507 storage_full");
    assert_eq!(bytes(&host, &key, "a").await, [b'a'; 400]);
    assert_eq!(put(&host, &key, "b", vec![b'b'; 600]).await.status, 201);
    assert_eq!(put(&host, &key, "c", "x").await.summary(), "507 storage_full");
    assert_eq!(put(&host, &key, "c", "").await.status, 201);
    assert_eq!(put(&host, &key, "d", "").await.summary(), "507 storage_full");
    let removed = reply(host.request_as(Some(&key), Method::DELETE, "/api/workspace/b")).await;
    assert_eq!(removed.status, 204);
    assert_eq!(put(&host, &key, "d", vec![b'd'; 600]).await.status, 201);
    assert_eq!(std::fs::read_dir(host.dir.path().join("data/tmp")).unwrap().count(), 0);
}

#[tokio::test]
async fn no_spelling_of_a_path_leads_out_by_way_of_the_api() {
    let host = Host::start();
    let key = key(&host, "team", json!({})).await;
    assert_eq!(put(&host, &key, "bait", "bait").await.status, 201);
    let outside = traps(&host, "team");
    assert!(corpus::SPELLINGS.len() >= 60);
    let canary = "not for guests";
    for spelling in corpus::SPELLINGS {
        let encoded: String = spelling.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let plain = spelling.bytes().all(|byte| byte.is_ascii_graphic());
        for path in
            [Some(encoded.as_str()), plain.then_some(*spelling)].into_iter().flatten().filter(|path| !path.is_empty())
        {
            let target = format!("/api/workspace/{path}");
            for method in ["GET", "PUT", "DELETE"] {
                let (status, answer) = raw(&host, &key, method, &target).await;
                assert!(status < 500, "{method} {target}: {answer}");
                assert!(!answer.contains(canary) && !answer.contains("root:"), "{method} {target}: {answer}");
            }
        }
    }
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), canary);
    untouched(&host);
}

/// Puts links into a workspace as an operator could, and a file beside it that they lead to.
fn traps(host: &Host, owner: &str) -> PathBuf {
    use std::os::unix::fs::symlink;
    let directory = directory(host, owner);
    let outside = directory.parent().unwrap().join("outside");
    std::fs::write(&outside, "not for guests").unwrap();
    for (name, target) in [("trap", ".."), ("trap-root", "/"), ("trap-inside", "bait")] {
        let _ = std::fs::remove_file(directory.join(name));
        symlink(target, directory.join(name)).unwrap();
    }
    outside
}

/// Beside the workspaces there is nothing new.
#[track_caller]
fn untouched(host: &Host) {
    let names = |path: &str| {
        let entries = std::fs::read_dir(host.dir.path().join(path)).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name.len() != 64);
        names.sort();
        names
    };
    assert_eq!(names("data/workspaces"), ["empty", "outside"]);
    assert_eq!(names("data/workspaces/empty"), [""; 0]);
    assert_eq!(names(""), ["data", "log"]);
    let data = names("data");
    assert!(!data.iter().any(|name| ["outside", "caught", "planted"].contains(&name.as_str())), "{data:?}");
}
