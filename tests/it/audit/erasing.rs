use std::path::Path;
use std::time::Duration;

use reqwest::Method;
use rusqlite::types::ValueRef;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Host, reply};

use super::{Export, key, push};

/// What only the owner who is erased ever said.
const CANARY: &str = "c4n4ry-of-an-owner";

/// An owner with something everywhere; gives its secret.
async fn settled(host: &Host, owner: &str) -> String {
    let (_, secret) = key(host, owner).await;
    push(host, &secret, ("mine", "echo")).await;
    let ask = async |method: Method, path: &str, body: String| {
        let asked = reply(host.request_as(Some(&secret), method, path).body(body)).await;
        assert!(asked.status.is_success(), "{path}: {}", asked.body);
    };
    // Text that the compression of no file hides, and that the host takes for no secret.
    let run = json!({ "skillId": "mine", "args": CANARY, "sessionId": CANARY });
    ask(Method::POST, "/api/skills/executions", run.to_string()).await;
    ask(Method::PUT, "/api/workspace/a/b.txt", CANARY.to_owned()).await;
    let stored = json!({ "value": "not-so-secret", "for": "https://a.example", "header": "x-key" });
    ask(Method::PUT, "/api/secrets/TOKEN", stored.to_string()).await;
    secret
}

/// Whether some row of the database has this text.
fn database_has(data: &Path, text: &str) -> bool {
    let database = rusqlite::Connection::open(data.join("skillvisor.db")).unwrap();
    let mut tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").unwrap();
    let tables = tables.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap).collect::<Vec<_>>();
    assert!(tables.len() > 15, "{tables:?}");
    tables.iter().any(|table| {
        let mut query = database.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = query.column_count();
        let mut rows = query.query([]).unwrap();
        let mut found = false;
        while let Some(row) = rows.next().unwrap() {
            found |= (0..columns).any(|at| match row.get_ref(at).unwrap() {
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                    bytes.windows(text.len()).any(|window| window == text.as_bytes())
                }
                _ => false,
            });
        }
        found
    })
}

fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

/// Owners by name.
async fn owners(host: &Host) -> Vec<String> {
    let list = host.get("/api/owners").await.body;
    list["owners"].as_array().unwrap().iter().map(|owner| owner["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_owner_who_is_erased_leaves_nothing_and_the_audit_is_whole() {
    let host = Host::start().with("hello").await;
    let data = host.dir.path().join("data");
    let (blobs, spaces) = (entries(&data.join("blobs")), entries(&data.join("workspaces")));
    let secret = settled(&host, "team-red").await;
    assert_eq!(owners(&host).await, ["admin", "team-red"]);
    assert_eq!((entries(&data.join("blobs")), entries(&data.join("workspaces"))), (blobs + 1, spaces + 1));
    let before = Export::of(&host);
    assert!(before.text().contains(CANARY) && before.text().contains("team-red"));
    let erased = host.send(Method::DELETE, "/api/owners/team-red", Value::Null).await;
    assert_eq!(erased.status, 200, "{}", erased.body);
    let count = erased.body["erased"].as_u64().unwrap();
    assert!(count >= 5, "key, skill, run, secret and what was asked for: {count}");

    let export = Export::of(&host);
    let report = export.whole();
    assert_eq!(report["erased"].as_u64(), Some(count), "{report}");
    let text = export.text();
    assert!(!text.contains(CANARY) && !text.contains("\"team-red\""), "{text}");
    assert!(!database_has(&data, CANARY) && !database_has(&data, "team-red"));
    assert_eq!((entries(&data.join("blobs")), entries(&data.join("workspaces"))), (blobs, spaces));
    assert_eq!(reply(host.request_as(Some(&secret), Method::GET, "/api/skills")).await.status, 401);
    let left = owners(&host).await;
    assert_eq!((left.len(), left[0].as_str(), left[1].starts_with("erased-")), (2, "admin", true), "{left:?}");
    assert_eq!(host.send(Method::DELETE, "/api/owners/team-red", Value::Null).await.summary(), "404 not_found");
    for secure in ["admin", "system"] {
        let refused = host.send(Method::DELETE, &format!("/api/owners/{secure}"), Value::Null).await;
        assert_eq!(refused.summary(), "409 conflict", "{secure}");
    }
    // The name can be somebody else's, who finds nothing of before, also after a restart.
    let host = Host::start_in(host.stop(), &[]);
    let (_, secret) = key(&host, "team-red").await;
    for path in ["/api/skills", "/api/skills/executions", "/api/secrets"] {
        let found = reply(host.request_as(Some(&secret), Method::GET, path)).await;
        assert_eq!(found.body["total"], 0, "{path}: {}", found.body);
    }
    assert_eq!(host.run("hello", json!({}), json!({})).await.body["status"], "success");
}

#[tokio::test]
async fn runs_of_an_owner_who_is_erased_are_ended_before_they_are_forgotten() {
    let host = Host::start();
    let (_, secret) = key(&host, "team-red").await;
    push(&host, &secret, ("spin", "spin")).await;
    for _ in 0..3 {
        let body = json!({ "skillId": "spin", "args": {}, "mode": "async", "limits": { "timeoutMs": 30_000 } });
        let run = host.request_as(Some(&secret), Method::POST, "/api/skills/executions").body(body.to_string());
        assert_eq!(reply(run).await.status, 202);
    }
    let erased = host.send(Method::DELETE, "/api/owners/team-red", Value::Null).await;
    assert_eq!(erased.status, 200, "{}", erased.body);
    let runs = host.get("/api/skills/executions").await.body;
    let statuses: Vec<_> = runs["executions"].as_array().unwrap().iter().map(|run| &run["status"]).collect();
    assert_eq!(statuses, ["cancelled"; 3], "{runs}");
    assert!(Export::of(&host).whole()["erased"].as_u64().unwrap() >= 3);
}

#[tokio::test]
async fn an_erasing_that_a_kill_interrupts_is_whole_after_the_next_start_or_was_never_begun() {
    let mut host = Host::start();
    for (round, wait) in [0, 2, 5, 10, 20, 40].into_iter().enumerate() {
        let owner = format!("team-{round}");
        let secret = settled(&host, &owner).await;
        let pid = Pid::from_raw(host.pid().cast_signed()).unwrap();
        let path = format!("/api/owners/{owner}");
        let asked = host.request_as(Some(host.key()), Method::DELETE, &path);
        let kill = async {
            tokio::time::sleep(Duration::from_millis(wait)).await;
            kill_process(pid, Signal::KILL).unwrap();
        };
        let (answered, ()) = tokio::join!(asked.send(), kill);
        host.kill_and_restart();
        let is_there = owners(&host).await.contains(&owner);
        let works = reply(host.request_as(Some(&secret), Method::GET, "/api/skills/mine")).await.status == 200;
        assert_eq!(is_there, works, "killed after {wait} ms");
        assert!(!is_there || answered.is_err(), "what was answered is done");
        if is_there {
            assert_eq!(host.send(Method::DELETE, &path, Value::Null).await.status, 200);
        }
        assert!(!Export::of(&host).text().contains(&format!("\"{owner}\"")), "killed after {wait} ms");
        Export::of(&host).whole();
    }
    assert!(!database_has(&host.dir.path().join("data"), CANARY));
}

#[tokio::test]
async fn an_erasing_that_had_only_been_written_down_is_done_by_the_next_start() {
    let host = Host::start();
    settled(&host, "team-red").await;
    let dir = host.stop();
    let database = rusqlite::Connection::open(dir.path().join("data/skillvisor.db")).unwrap();
    database.execute("INSERT INTO erasures VALUES ('team-red', 'erased-1', 0)", []).unwrap();
    drop(database);
    let host = Host::start_in(dir, &[]);
    assert_eq!(owners(&host).await, ["admin", "erased-1"]);
    assert!(!database_has(&host.dir.path().join("data"), CANARY));
    Export::of(&host).whole();
}
