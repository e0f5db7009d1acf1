//! Starts a server on a rebuilt directory and asks for everything that was acknowledged.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use reqwest::Method;
use serde_json::{Value, json};
use skillvisor::model::Digest;
use tempfile::TempDir;

use super::known::Known;
use crate::support::{Host, reply};

/// Requests at a time.
const REQUESTS: usize = 8;
/// How long skills may take to be compiled again after a cut.
const PATIENCE: Duration = Duration::from_secs(60);
/// Everything that may lie in the data directory itself.
const NAMES: &[&str] = &[
    "workspaces",
    "admin.key",
    "audit.key",
    "blobs",
    "cache",
    "lock",
    "secrets.key",
    "server.json",
    "skillvisor.db",
    "skillvisor.db-shm",
    "skillvisor.db-wal",
    "skillvisor.journal-0",
    "skillvisor.journal-1",
    "tmp",
];

/// What is not as the client knows it, if anything.
pub(crate) async fn loss(dir: TempDir, known: &Known) -> Option<String> {
    match Host::try_start_in(dir) {
        Ok(host) => found_loss(&host, known).await.err(),
        Err(log) => Some(format!("the server does not start: {log}")),
    }
}

pub(crate) async fn found_loss(host: &Host, known: &Known) -> Result<(), String> {
    if let Some(key) = &known.admin_key {
        expect(host.key() == key, || "the first admin key is another one".into())?;
    }
    ended(host).await?;
    let runs = known.runs.iter().map(|(id, (status, output))| async move {
        let found = host.get(&format!("/api/skills/executions/{id}")).await;
        let same = found.body["status"] == status.as_str() && found.body["output"] == *output;
        expect(same, || format!("the run {id} ({status}) is {} {}", found.summary(), found.body["status"]))
    });
    all(runs).await?;
    let keys = known.keys.values().map(|(secret, good)| async move {
        let status = reply(host.request_as(Some(secret), Method::GET, "/api/skills")).await.status.as_u16();
        let right = if *good { 200 } else { 401 };
        expect(status == right, || format!("a key that should give {right} gives {status}"))
    });
    all(keys).await?;
    skills(host, known).await?;
    strays(host).await?;
    intact(host)
}

/// No run is open.
pub(crate) async fn ended(host: &Host) -> Result<(), String> {
    let running = host.get("/api/skills/executions?status=running").await;
    expect(running.body["total"] == 0, || format!("runs are left open: {}", running.body))
}

/// The skills resolve and run, or are gone.
async fn skills(host: &Host, known: &Known) -> Result<(), String> {
    let names = known.skills.iter().map(|(name, there)| async move {
        if !there {
            let found = host.get(&format!("/api/skills/{name}")).await;
            return expect(found.status == 404, || format!("{name} was deleted and is {}", found.summary()));
        }
        let run =
            host.run(name, json!({ "kind": "unreachable" }), json!({ "timeoutMs": 60_000, "fuel": 2_000_000 })).await;
        // Whatever it comes to: what matters is that this skill can be run to its end.
        let right = match name.split_once("-loop").map_or(name.as_str(), |(kind, _)| kind) {
            "hello" | "echo" => "-",
            "trap" => "trap",
            _ => "out_of_fuel",
        };
        let code = run.body["error"]["code"].as_str().unwrap_or("-");
        let digest = run.body["digest"].as_str().unwrap_or("none").trim_start_matches("sha256:").to_owned();
        let bytes = std::fs::read(host.dir.path().join("data/blobs").join(&digest)).unwrap_or_default();
        expect(Digest::of(&bytes).hex() == digest, || format!("the bytes of {name} are gone"))?;
        expect(run.status == 200 && code == right, || format!("{name} is {} {}", run.summary(), run.body))
    });
    all(names).await
}

/// Skills are listed, or gone, as the client knows it.
pub(crate) async fn named(host: &Host, known: &Known) -> Result<(), String> {
    let skills = all_skills(host).await;
    let names: BTreeSet<_> = skills.iter().map(|skill| skill["name"].as_str().unwrap()).collect();
    let wrong = known.skills.iter().find(|(name, there)| names.contains(name.as_str()) != **there);
    expect(wrong.is_none(), || format!("a skill is listed as it should not be, or not as it should: {wrong:?}"))
}

/// Every page of the list.
async fn all_skills(host: &Host) -> Vec<Value> {
    let (mut skills, mut next) = (Vec::new(), String::new());
    loop {
        let page = host.get(&format!("/api/skills?limit=500{next}")).await.body;
        skills.extend(page["skills"].as_array().unwrap().iter().cloned());
        let Some(cursor) = page["nextCursor"].as_str() else { return skills };
        next = format!("&cursor={cursor}");
    }
}

/// No file is there that belongs to nothing.
pub(crate) async fn strays(host: &Host) -> Result<(), String> {
    let began = Instant::now();
    let skills = loop {
        let skills = all_skills(host).await;
        if skills.iter().all(|skill| skill["state"] != "compiling") {
            break skills;
        }
        expect(began.elapsed() < PATIENCE, || "skills are still being compiled".into())?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let digest = |skill: &Value| skill["digest"].as_str().unwrap().trim_start_matches("sha256:").to_owned();
    let digests: BTreeSet<_> = skills.iter().map(digest).collect();
    for name in tree(&host.dir.path().join("data")) {
        let parts: Vec<_> = name.split('/').collect();
        let known = match parts[..] {
            [name] => NAMES.contains(&name),
            ["blobs", digest] => digests.contains(digest),
            ["cache", _] => true,
            // Owners' files are the owners' own.
            ["workspaces", _, ..] => true,
            ["cache", _, file] => digests.contains(file.split('.').next().unwrap()),
            _ => false,
        };
        expect(known, || format!("data/{name} belongs to nothing"))?;
    }
    Ok(())
}

/// The database is sound.
pub(crate) fn intact(host: &Host) -> Result<(), String> {
    let database = rusqlite::Connection::open(host.dir.path().join("data/skillvisor.db")).unwrap();
    let integrity: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    expect(integrity == "ok", || format!("the database is damaged: {integrity}"))
}

async fn all(checks: impl Iterator<Item = impl Future<Output = Result<(), String>>>) -> Result<(), String> {
    let checks: Vec<_> = futures_util::stream::iter(checks).buffer_unordered(REQUESTS).collect().await;
    checks.into_iter().collect()
}

fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// Names of everything below a directory.
fn tree(root: &Path) -> BTreeSet<String> {
    let (mut found, mut rest) = (BTreeSet::new(), vec![root.to_owned()]);
    while let Some(directory) = rest.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            if path.is_dir() {
                rest.push(path);
            }
        }
    }
    found
}

/// Names of what differs between two directories, except SQLite's index of its log, which is
/// rebuilt after a crash.
pub(super) fn differences(one: &Path, other: &Path) -> Vec<String> {
    // Nothing for a directory, and for what is not there.
    let content = |root: &Path, name: &str| std::fs::read(root.join(name)).ok();
    let (names, others) = (tree(one), tree(other));
    let differ = |name: &&String| {
        let same = names.contains(*name) && others.contains(*name) && content(one, name) == content(other, name);
        !same && !name.ends_with("-shm")
    };
    names.union(&others).filter(differ).cloned().collect()
}
