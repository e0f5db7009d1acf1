//! The program killed with SIGKILL under load, at random moments, again and again on one
//! directory: what was acknowledged in any of its lives is there in all that follow.
//!
//! After each life, everything that it acknowledged is asked for, and a share of what earlier
//! ones did; now and then, and at the end, all of it. What is lost stays lost, so the last look
//! finds it too; meanwhile the numbers of runs and the names of skills must be right.

use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use reqwest::{Method, RequestBuilder};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::audit::Export;
use crate::campaign::{self, Random};
use crate::power::{Known, Note, found_loss, named};
use crate::support::{Host, guest};

/// Lives when no campaign asks for more.
const LIVES: usize = 5;
/// Clients that run skills.
const CLIENTS: usize = 6;
/// After how many lives everything is looked at, and how many things of earlier lives else.
const ALL_EVERY: usize = 50;
const SHARE: usize = 40;
/// The longest life under load.
const LONGEST_MS: usize = 1500;

/// Clients of one life, which end when the program does.
struct Load<'a> {
    host: &'a Host,
    notes: &'a Mutex<Vec<Note>>,
}

impl Load<'_> {
    fn learn(&self, note: Note) {
        self.notes.lock().push(note);
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.host.request_as(Some(self.host.key()), method, path)
    }

    /// Runs skills, one after another.
    async fn runs(&self, mut random: Random) {
        loop {
            let (skill, args) = match random.below(6) {
                0 => ("trap", json!({ "kind": "unreachable" })),
                1 => ("echo", json!("x".repeat(random.below(300_000)))),
                _ => ("hello", json!({ "name": random.next().to_string() })),
            };
            let body = json!({ "skillId": skill, "args": args }).to_string();
            let request = self.request(Method::POST, "/api/skills/executions").body(body);
            let Some((200, run)) = answer(request).await else { return };
            let text = |name: &str| run[name].as_str().unwrap().to_owned();
            self.learn(Note::Ran { id: text("id"), status: text("status"), output: run["output"].clone() });
        }
    }

    /// Uploads and deletes a skill, in turn.
    async fn uploads(&self, life: usize) {
        for number in 0.. {
            let name = format!("start-loop-{life}-{number}");
            let upload = self.request(Method::POST, &format!("/api/skills?name={name}&version=1.0.0"));
            let upload = upload.header("content-type", "application/wasm").body(guest("start-loop"));
            let Some((201 | 202, _)) = answer(upload).await else { return };
            self.learn(Note::Uploaded(name.clone()));
            if number % 2 == 0 {
                self.learn(Note::Deleting(name.clone()));
                let delete = self.request(Method::DELETE, &format!("/api/skills/{name}@1.0.0"));
                let Some((204, _)) = answer(delete).await else { return };
                self.learn(Note::Deleted(name));
            }
        }
    }
}

/// What came back whole, if anything did.
async fn answer(request: RequestBuilder) -> Option<(u16, Value)> {
    let response = request.send().await.ok()?;
    let status = response.status().as_u16();
    let body = response.bytes().await.ok()?;
    assert!(status < 500, "{status} {}", String::from_utf8_lossy(&body));
    Some((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

/// The number of runs, where it is at least `least` and the skills have the names they should.
async fn numbers(host: &Host, known: &Known, least: usize) -> Result<usize, String> {
    named(host, known).await?;
    let page = host.get("/api/skills/executions?limit=1").await.body;
    let total = usize::try_from(page["total"].as_u64().unwrap()).unwrap();
    if total < least { Err(format!("{total} runs are left of {least}")) } else { Ok(total) }
}

/// Whether the audit's chain is whole, and has each run that was acknowledged once.
fn chained(host: &Host, known: &Known) {
    let export = Export::of(host);
    export.whole();
    let text = export.text();
    for id in known.runs.keys() {
        assert_eq!(text.matches(&format!("\"kind\":\"execution\",\"id\":\"{id}\"")).count(), 1, "{id}");
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives_kill_after_kill() {
    let seed = campaign::seed();
    let lives = campaign::size(LIVES);
    println!("CAMPAIGN_SEED={seed} CAMPAIGN_SIZE={lives}");
    let mut random = Random::new(seed);
    let mut host = Host::start().with("hello").await.with("echo").await.with("trap").await;
    let mut all = Known::default();
    all.learn(Note::Ready(host.key().to_owned()));
    let mut runs = 0;
    for life in 0..lives {
        let notes = Mutex::default();
        let load = Load { host: &host, notes: &notes };
        let moment = Duration::from_millis(random.below(LONGEST_MS) as u64);
        let pid = Pid::from_raw(host.pid().cast_signed()).unwrap();
        let kill = async {
            tokio::time::sleep(moment).await;
            kill_process(pid, Signal::KILL).unwrap();
        };
        let clients = join_all((0..CLIENTS).map(|_| load.runs(Random::new(random.next()))));
        tokio::join!(clients, load.uploads(life), kill);
        host.kill_and_restart();
        let mut look = all.share(SHARE, &mut random);
        let before = all.runs.len();
        for note in notes.into_inner() {
            look.learn(note.clone());
            all.learn(note);
        }
        let is_due = life % ALL_EVERY == ALL_EVERY - 1 || life == lives - 1;
        let least = runs + all.runs.len() - before;
        let found = numbers(&host, &all, least).await;
        runs = found.clone().unwrap_or(0);
        let found = found.and(found_loss(&host, if is_due { &all } else { &look }).await);
        assert_eq!(found, Ok(()), "seed {seed}, life {life}, killed after {moment:?}");
        if is_due {
            chained(&host, &all);
        }
    }
    let held = all.len();
    assert!(held > lives, "only {held} acknowledgements in {lives} lives");
    println!("{lives} kills; {held} acknowledgements held");
}
