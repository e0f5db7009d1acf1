//! The program killed again and again under everything at once: uploads and deletions, synchronous
//! and asynchronous runs, cancels, and requests that come again with the same `Idempotency-Key`.
//! What each run does is seen from outside: it asks a server that counts.

mod sink;

use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use reqwest::{Method, RequestBuilder, multipart};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::campaign::{self, Random};
use crate::power::{Known, Note, found_loss};
use crate::support::{Host, guest, reply, until};

use self::sink::Sink;

const RUN: &str = "/api/skills/executions";
/// Lives when no campaign asks for more.
const LIVES: usize = 10;
/// Clients of one life, and the longest life under load.
const CLIENTS: usize = 6;
const LONGEST_MS: usize = 1200;
/// Of 100 requests, how many are of which kind; the rest is synchronous.
const ASYNC: usize = 35;
const CANCELLED: usize = 10;
const WITH_WORD: usize = 20;

/// What clients were told, and what they asked for.
#[derive(Default)]
struct Told {
    notes: Vec<Note>,
    /// Paths that runs ask the server for, which were answered with success.
    done: Vec<String>,
    /// Runs that were accepted, with their paths.
    accepted: Vec<(String, String)>,
    /// Runs that were cancelled.
    cancelled: Vec<String>,
    /// Requests with a word, whose answer did not come.
    unanswered: Vec<(String, String)>,
    /// All paths.
    asked: Vec<String>,
}

struct Load<'a> {
    host: &'a Host,
    sink: &'a Sink,
    told: &'a Mutex<Told>,
}

impl Load<'_> {
    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.host.request_as(Some(self.host.key()), method, path)
    }

    fn body(&self, path: &str, mode: &str) -> String {
        let args = json!({ "url": format!("http://{}{path}", self.sink.address) });
        json!({ "skillId": "fetch", "args": args, "mode": mode }).to_string()
    }

    /// Runs until the host is gone.
    async fn runs(&self, mut random: Random) {
        loop {
            let path = format!("/{:016x}", random.next());
            self.told.lock().asked.push(path.clone());
            let kind = random.below(100);
            let goes_on = if kind < ASYNC {
                self.submit(&path, None).await
            } else if kind < ASYNC + CANCELLED {
                self.submit(&path, Some(Duration::from_millis(random.below(5) as u64))).await
            } else if kind < ASYNC + CANCELLED + WITH_WORD {
                self.with_word(&path, &path[1..]).await
            } else {
                let request = self.request(Method::POST, RUN).body(self.body(&path, "sync"));
                self.ran(&path, answer(request).await)
            };
            if goes_on.is_none() {
                return;
            }
        }
    }

    /// Keeps what was answered to a synchronous request.
    fn ran(&self, path: &str, answered: Option<(u16, Value)>) -> Option<()> {
        let (status, run) = answered?;
        if status == 429 {
            return Some(());
        }
        assert_eq!(status, 200, "{run}");
        let text = |name: &str| run[name].as_str().unwrap().to_owned();
        let mut told = self.told.lock();
        told.notes.push(Note::Ran { id: text("id"), status: text("status"), output: run["output"].clone() });
        if run["status"] == "success" {
            told.done.push(path.to_owned());
        }
        Some(())
    }

    /// Submits a run, and cancels it after a while, if so.
    async fn submit(&self, path: &str, cancel: Option<Duration>) -> Option<()> {
        let request = self.request(Method::POST, RUN).body(self.body(path, "async"));
        let (status, run) = answer(request).await?;
        let Some(id) = run["id"].as_str().filter(|_| status == 202).map(str::to_owned) else {
            assert_eq!(status, 429, "{run}");
            return Some(());
        };
        self.told.lock().accepted.push((id.clone(), path.to_owned()));
        let Some(wait) = cancel else { return Some(()) };
        tokio::time::sleep(wait).await;
        let (status, run) = answer(self.request(Method::POST, &format!("{RUN}/{id}/cancel"))).await?;
        assert!(matches!(status, 200 | 409), "{status} {run}");
        if run["status"] == "cancelled" {
            self.told.lock().cancelled.push(id);
        }
        Some(())
    }

    /// A request that comes again where no answer came.
    async fn with_word(&self, path: &str, word: &str) -> Option<()> {
        let request = self.request(Method::POST, RUN).header("idempotency-key", word).body(self.body(path, "sync"));
        let answered = answer(request).await;
        if answered.is_none() {
            self.told.lock().unanswered.push((path.to_owned(), word.to_owned()));
        }
        self.ran(path, answered)
    }

    /// Uploads skills and deletes half of them.
    async fn uploads(&self, life: usize) {
        for number in 0.. {
            let name = format!("start-loop-{life}-{number}");
            let upload = self.request(Method::POST, &format!("/api/skills?name={name}&version=1.0.0"));
            let upload = upload.header("content-type", "application/wasm").body(guest("start-loop"));
            let Some((201 | 202, _)) = answer(upload).await else { return };
            self.told.lock().notes.push(Note::Uploaded(name.clone()));
            if number % 2 == 0 {
                self.told.lock().notes.push(Note::Deleting(name.clone()));
                let delete = self.request(Method::DELETE, &format!("/api/skills/{name}@1.0.0"));
                let Some((204, _)) = answer(delete).await else { return };
                self.told.lock().notes.push(Note::Deleted(name));
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

/// A host with a skill that may ask the server.
async fn start(sink: &Sink) -> Host {
    let host = Host::start_with(&[
        "--egress-allow-cidrs",
        "127.0.0.1/32",
        "--concurrency-per-owner",
        "4",
        "--queue-per-owner",
        "200",
    ]);
    let rule = format!("GET http://{}/*", sink.address);
    let manifest = json!({ "name": "fetch", "version": "1.0.0", "grants": { "network": [rule] } });
    let form = multipart::Form::new()
        .part("manifest", multipart::Part::text(manifest.to_string()).mime_str("application/json").unwrap())
        .part("component", multipart::Part::bytes(guest("fetch")).mime_str("application/wasm").unwrap());
    let pushed = reply(host.request_as(Some(host.key()), Method::POST, "/api/skills").multipart(form)).await;
    assert!(pushed.status.is_success(), "{}", pushed.body);
    until(async || (host.get("/api/skills/fetch").await.body["state"] == "ready").then_some(())).await;
    host
}

async fn open(host: &Host) -> u64 {
    let count = async |status: &str| host.get(&format!("{RUN}?limit=1&status={status}")).await.body["total"].as_u64();
    count("pending").await.unwrap() + count("running").await.unwrap()
}

/// What is wrong after all: nothing may be lost, and nothing may have happened twice.
async fn wrongs(host: &Host, sink: &Sink, told: &Told) -> Vec<String> {
    let mut wrongs = Vec::new();
    for path in &told.asked {
        let count = sink.count(path);
        if count > 1 {
            wrongs.push(format!("{path} was asked for {count} times"));
        }
    }
    wrongs.extend(
        told.done.iter().filter(|path| sink.count(path) != 1).map(|path| format!("{path} was never asked for")),
    );
    for (id, path) in &told.accepted {
        let ended = host.get(&format!("{RUN}/{id}")).await.body;
        let success = ended["status"] == "success";
        if !ended["finishedAt"].is_string() || (success && sink.count(path) != 1) {
            wrongs.push(format!("{path} was asked for {} times: {ended}", sink.count(path)));
        }
        if told.cancelled.contains(id) && ended["status"] != "cancelled" {
            wrongs.push(format!("it was cancelled: {ended}"));
        }
    }
    wrongs
}

#[tokio::test]
async fn nothing_is_lost_and_nothing_happens_twice_through_kill_after_kill_under_everything_at_once() {
    let seed = campaign::seed();
    let lives = campaign::size(LIVES);
    println!("CAMPAIGN_SEED={seed} CAMPAIGN_SIZE={lives}");
    println!(
        "of 100: {ASYNC} async, {CANCELLED} async and cancelled, {WITH_WORD} with a word, the rest sync; uploads beside"
    );
    let mut random = Random::new(seed);
    let sink = Sink::start().await;
    let mut host = start(&sink).await;
    let mut known = Known::default();
    known.learn(Note::Ready(host.key().to_owned()));
    let told = Mutex::new(Told::default());
    for life in 0..lives {
        let load = Load { host: &host, sink: &sink, told: &told };
        let moment = Duration::from_millis(random.below(LONGEST_MS) as u64);
        let pid = Pid::from_raw(host.pid().cast_signed()).unwrap();
        let kill = async {
            tokio::time::sleep(moment).await;
            kill_process(pid, Signal::KILL).unwrap();
        };
        let clients = join_all((0..CLIENTS).map(|_| load.runs(Random::new(random.next()))));
        tokio::join!(clients, load.uploads(life), kill);
        host.kill_and_restart();
        let load = Load { host: &host, sink: &sink, told: &told };
        let unanswered = std::mem::take(&mut told.lock().unanswered);
        for (path, word) in unanswered {
            assert!(load.with_word(&path, &word).await.is_some(), "seed {seed}, life {life}: no answer");
        }
        let mut look = Known::default();
        for note in std::mem::take(&mut told.lock().notes) {
            look.learn(note.clone());
            known.learn(note);
        }
        until(async || (open(&host).await == 0).then_some(())).await;
        let found = found_loss(&host, &look).await;
        assert_eq!(found, Ok(()), "seed {seed}, life {life}, killed after {moment:?}");
    }
    assert_eq!(found_loss(&host, &known).await, Ok(()), "seed {seed}");
    let told = told.into_inner();
    assert_eq!(wrongs(&host, &sink, &told).await, [] as [String; 0], "seed {seed}");
    assert!(!told.done.is_empty() && !told.accepted.is_empty(), "nothing was done in {lives} lives");
    println!(
        "{lives} kills: {} asked, {} answered with success, {} accepted, {} cancelled; {} acknowledgements held",
        told.asked.len(),
        told.done.len(),
        told.accepted.len(),
        told.cancelled.len(),
        known.len(),
    );
}
