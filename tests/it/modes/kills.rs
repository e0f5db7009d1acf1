//! Runs that nobody waits for, others, and cancels at once, on a host that is killed again and
//! again: what was accepted comes to one end, and nothing is done twice.

use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::campaign::{self, Random};
use crate::support::{Host, until};

use super::{RUN, look, push_probe};

/// Lives when no campaign asks for more.
const LIVES: usize = 6;
/// Clients of one life, and the longest life under load.
const CLIENTS: usize = 5;
const LONGEST_MS: usize = 1200;

/// What was accepted, and what was cancelled while it had not ended, by their ids.
#[derive(Default)]
struct Told {
    accepted: Vec<String>,
    cancelled: Vec<String>,
}

/// The answer, if one came.
async fn send(host: &Host, path: &str, body: Value) -> Option<(u16, Value)> {
    let request = host.request_as(Some(host.key()), Method::POST, path).body(body.to_string());
    let response = request.send().await.ok()?;
    let status = response.status().as_u16();
    Some((status, serde_json::from_slice(&response.bytes().await.ok()?).unwrap_or_default()))
}

/// Submits, runs and cancels until the host is gone.
async fn load(host: &Host, told: &Mutex<Told>, mut random: Random) {
    loop {
        let mode = if random.below(4) == 0 { "sync" } else { "async" };
        let body = json!({ "skillId": "probe", "args": [["add", "n", 1]], "mode": mode });
        let Some((status, run)) = send(host, RUN, body).await else { return };
        let Some(id) = run["id"].as_str().filter(|_| status < 300).map(str::to_owned) else {
            assert_eq!(status, 429, "{run}");
            continue;
        };
        told.lock().accepted.push(id.clone());
        if random.below(5) == 0 {
            let Some((status, run)) = send(host, &format!("{RUN}/{id}/cancel"), Value::Null).await else { return };
            assert!(matches!(status, 200 | 409), "{status} {run}");
            if run["status"] == "cancelled" {
                told.lock().cancelled.push(id);
            }
        }
    }
}

async fn total(host: &Host, filter: &str) -> u64 {
    host.get(&format!("{RUN}?limit=1&{filter}")).await.body["total"].as_u64().unwrap()
}

/// How many that stand so had begun.
async fn begun(host: &Host, status: &str) -> u64 {
    let (mut count, mut cursor) = (0, String::new());
    loop {
        let page = host.get(&format!("{RUN}?limit=500&status={status}{cursor}")).await.body;
        let executions = page["executions"].as_array().unwrap();
        count += executions.iter().filter(|execution| execution["startedAt"].is_string()).count() as u64;
        let Some(next) = page["nextCursor"].as_str() else { return count };
        cursor = format!("&cursor={next}");
    }
}

#[tokio::test]
async fn what_was_accepted_comes_to_one_end_through_kill_after_kill() {
    let seed = campaign::seed();
    let lives = campaign::size(LIVES);
    println!("CAMPAIGN_SEED={seed} CAMPAIGN_SIZE={lives}");
    let mut random = Random::new(seed);
    let mut host = Host::start_with(&["--concurrency-per-owner", "2", "--queue-per-owner", "200"]);
    push_probe(&host, json!({ "kv": true })).await;
    let told = Mutex::new(Told::default());
    for _ in 0..lives {
        let moment = Duration::from_millis(random.below(LONGEST_MS) as u64);
        let pid = Pid::from_raw(host.pid().cast_signed()).unwrap();
        let kill = async {
            tokio::time::sleep(moment).await;
            kill_process(pid, Signal::KILL).unwrap();
        };
        let clients = join_all((0..CLIENTS).map(|_| load(&host, &told, Random::new(random.next()))));
        tokio::join!(clients, kill);
        host.kill_and_restart();
    }
    until(async || (total(&host, "status=pending").await + total(&host, "status=running").await == 0).then_some(()))
        .await;
    let Told { accepted, cancelled } = told.into_inner();
    for id in &accepted {
        let ended = look(&host, id).await;
        assert!(ended["finishedAt"].is_string(), "seed {seed}: {ended}");
    }
    for id in &cancelled {
        assert_eq!(look(&host, id).await["status"], "cancelled", "seed {seed}");
    }
    let success = total(&host, "status=success&skill=probe").await;
    let lost = begun(&host, "error").await + begun(&host, "cancelled").await;
    let count = host.run("probe", json!([["get", "n"]]), json!({})).await.body["output"][0].clone();
    let added: u64 = count.as_str().unwrap_or("0").parse().unwrap();
    // What began and was stopped may have added once before that; what succeeded has, once.
    assert!((success..=success + lost).contains(&added), "seed {seed}: {success} and {lost}, {added} added");
    assert!(!accepted.is_empty() && success > 0);
    println!(
        "{lives} kills: {} accepted, {success} succeeded, {lost} began and did not, {added} added",
        accepted.len()
    );
}
