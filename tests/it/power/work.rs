//! The work that is recorded: everything that the server writes down, side by side.

use std::io::Write;
use std::path::Path;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::known::Note;
use super::recording::note;
use crate::campaign::Random;
use crate::support::{Host, Reply, guest, reply};

/// Clients at a time.
const CLIENTS: usize = 6;
/// Runs of each client in each life of the server.
const RUNS: usize = 14;
/// Bytes of a large result. Some of them fill the write-ahead log, so that it is emptied into
/// the database while others write.
const LARGE: usize = 900_000;

/// The file that recorder and clients write to.
#[derive(Clone, Copy)]
struct Notes<'a>(&'a Path);

impl Notes<'_> {
    fn write(self, text: &Note) {
        let mut file = std::fs::File::options().append(true).open(self.0).unwrap();
        file.write_all(&note(&serde_json::to_string(text).unwrap())).unwrap();
    }
}

/// Two lives of a server: the first is ended in order, the second is killed.
pub(super) async fn run(recorder: &Path, log: &Path, random: &mut Random) -> TempDir {
    let notes = Notes(log);
    let mut dir = tempfile::tempdir().unwrap();
    for life in 0..2 {
        let root = dir.path().to_owned();
        let variables = [("LD_PRELOAD", recorder), ("RECORDER_ROOT", &root), ("RECORDER_LOG", log)];
        let host = Host::start_under(dir, &[], &variables);
        notes.write(&Note::Ready(host.key().to_owned()));
        if life == 0 {
            for name in ["hello", "echo", "trap"] {
                upload(&host, notes, name, name).await;
            }
        }
        let clients = (0..CLIENTS).map(|_| client(&host, notes, Random::new(random.next())));
        tokio::join!(join_all(clients), changes(&host, notes, life));
        dir = if life == 0 { host.stop() } else { host.kill() };
    }
    dir
}

async fn client(host: &Host, notes: Notes<'_>, mut random: Random) {
    for _ in 0..RUNS {
        let (skill, args) = match random.below(10) {
            0..=3 => ("echo", json!("x".repeat(LARGE))),
            4 => ("trap", json!({ "kind": "unreachable" })),
            5..=6 => ("echo", json!({ "n": random.next() })),
            _ => ("hello", json!({ "name": random.next().to_string() })),
        };
        ran(notes, &host.run(skill, args, json!({})).await);
    }
}

fn ran(notes: Notes<'_>, reply: &Reply) {
    assert_eq!(reply.status, 200, "{}", reply.body);
    let text = |name: &str| reply.body[name].as_str().unwrap().to_owned();
    notes.write(&Note::Ran { id: text("id"), status: text("status"), output: reply.body["output"].clone() });
}

async fn upload(host: &Host, notes: Notes<'_>, name: &str, bytes: &str) {
    let uploaded = host.upload(name, guest(bytes)).await;
    assert!(uploaded.status.is_success(), "{}", uploaded.body);
    notes.write(&Note::Uploaded(name.to_owned()));
}

/// Uploads, deletions and keys, while the clients run skills.
async fn changes(host: &Host, notes: Notes<'_>, life: usize) {
    let name = format!("start-loop-{life}");
    upload(host, notes, &name, "start-loop").await;
    let (id, secret) = key(host, notes).await;
    notes.write(&Note::Deleting(name.clone()));
    let deleted = host.send(Method::DELETE, &format!("/api/skills/{name}@1.0.0"), Value::Null).await;
    assert_eq!(deleted.status, 204);
    notes.write(&Note::Deleted(name.clone()));
    notes.write(&Note::Revoking(id.clone()));
    let revoked = host.send(Method::DELETE, &format!("/api/keys/{id}"), Value::Null).await;
    assert_eq!(revoked.status, 204);
    notes.write(&Note::Revoked(id, secret));
    upload(host, notes, &format!("post-return-loop-{life}"), "post-return-loop").await;
    // Back again, what was gone: its bytes and code were removed and are needed again.
    notes.write(&Note::Deleting(name.clone()));
    upload(host, notes, &name, "start-loop").await;
    // Refused only after it was compiled: nothing of it may stay.
    let refused = reply(
        host.request_as(Some(host.key()), Method::POST, "/api/skills?name=x&version=none")
            .header("content-type", "application/wasm")
            .body(guest("table-hog")),
    );
    assert_eq!(refused.await.summary(), "422 invalid_manifest");
    key(host, notes).await;
}

async fn key(host: &Host, notes: Notes<'_>) -> (String, String) {
    let made = host.send(Method::POST, "/api/keys", json!({ "name": "k", "scopes": ["skills:read"] })).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let text = |name: &str| made.body[name].as_str().unwrap().to_owned();
    let key = (text("id"), text("secret"));
    notes.write(&Note::KeyMade(key.0.clone(), key.1.clone()));
    key
}
