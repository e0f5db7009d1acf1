//! What one owner notices of another who keeps far more calls under way than can run.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use tokio::fs;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use crate::client::Connection;
use crate::histogram::Histogram;
use crate::options::Options;
use crate::product::Api;
use crate::report::rounded;

/// Calls that the loud owner keeps under way.
const UNDER_WAY: usize = 500;
/// Between two calls of the quiet one: 50 a second.
const PACE: Duration = Duration::from_millis(20);
/// For the loud one to fill the line.
const HEAD_START: Duration = Duration::from_secs(1);
/// Some milliseconds of work: more than one slice.
const BUSY_FUEL: u64 = 10_000_000;

const RUN: &str = "POST /api/skills/executions";

/// How the quiet owner fares alone, and beside calls that are short, or busy for some milliseconds.
pub async fn measure(api: &Api, options: &Options) -> Result<Value> {
    let hello = fs::read(options.root.join("skills/hello/hello.wasm")).await?;
    let spin = options.root.join("guest-examples/target/guests/spin.wasm");
    let spin = fs::read(spin).await.context("run scripts/guests first")?;
    let mut connection = Connection::open(api.address).await?;
    api.upload(&mut connection, "fair-hello&owner=system", &hello).await?;
    api.upload(&mut connection, "fair-spin&owner=system", &spin).await?;
    let (loud, quiet) = (owner(api, &mut connection, "loud").await?, owner(api, &mut connection, "quiet").await?);
    let short = json!({ "skillId": "fair-hello", "args": { "name": "bench" } });
    let busy = json!({ "skillId": "fair-spin", "args": {}, "limits": { "fuel": BUSY_FUEL } });
    let length = options.turn * 5;
    let request = quiet.request(RUN, short.to_string().as_bytes());
    paced(&quiet, &request, length / 5).await?; // To warm up.
    let alone = paced(&quiet, &request, length).await?;
    let mut found = Map::new();
    found.insert("underWay".to_owned(), json!(UNDER_WAY));
    found.insert("alone".to_owned(), times(&alone));
    for (name, body) in [("besideShort", short), ("besideBusy", busy)] {
        let load = load(&loud, body.to_string().as_bytes(), HEAD_START + length).await?;
        tokio::time::sleep(HEAD_START).await;
        let beside = paced(&quiet, &request, length).await?;
        let mut answers = BTreeMap::new();
        for counted in load.join_all().await {
            for (status, count) in counted? {
                *answers.entry(status.to_string()).or_insert(0_u64) += count;
            }
        }
        let mut value = times(&beside);
        value["loudAnswers"] = json!(answers);
        found.insert(name.to_owned(), value);
    }
    Ok(found.into())
}

/// The host, for a new key with an owner of its own.
async fn owner(api: &Api, connection: &mut Connection, name: &str) -> Result<Api> {
    let request = api.request("POST /api/keys", json!({ "name": name, "owner": name }).to_string().as_bytes());
    let (response, bytes) = connection.exchange(&request).await?;
    let key: Value = serde_json::from_slice(&response.body(bytes))?;
    let secret = key.get("secret").and_then(Value::as_str);
    Ok(api.with_key(secret.with_context(|| format!("no key: {key}"))?))
}

/// Keeps calls under way for `length`; gives how many were answered with which status.
async fn load(api: &Api, body: &[u8], length: Duration) -> Result<JoinSet<Result<BTreeMap<u16, u64>>>> {
    let request = Rc::new(api.request(RUN, body));
    let mut callers = JoinSet::new();
    for _ in 0..UNDER_WAY {
        let mut connection = Connection::open(api.address).await?;
        let request = Rc::clone(&request);
        callers.spawn_local(async move {
            let (begin, mut answers) = (Instant::now(), BTreeMap::new());
            while begin.elapsed() < length {
                let (response, _) = connection.exchange(&request).await?;
                *answers.entry(response.status).or_insert(0) += 1;
            }
            Ok(answers)
        });
    }
    Ok(callers)
}

/// A call every [`PACE`], whether the one before was answered or not, from when it was due.
async fn paced(api: &Api, request: &[u8], length: Duration) -> Result<Histogram> {
    let idle = Rc::new(RefCell::new(Vec::new()));
    let (request, address): (Rc<[u8]>, _) = (request.into(), api.address);
    let mut calls = JoinSet::new();
    let start = Instant::now();
    let mut due = start;
    while due < start + length {
        sleep_until(due.into()).await;
        let (idle, request) = (Rc::clone(&idle), Rc::clone(&request));
        calls.spawn_local(async move {
            let kept = idle.borrow_mut().pop();
            let mut connection = match kept {
                Some(connection) => connection,
                None => Connection::open(address).await?,
            };
            let (response, bytes) = connection.exchange(&request).await?;
            let took = due.elapsed();
            let right = response.status == 200 && memchr::memmem::find(bytes, b"Hello, bench!").is_some();
            ensure!(right, "the quiet owner got {}", response.status);
            idle.borrow_mut().push(connection);
            Ok(took)
        });
        due += PACE;
    }
    let mut latency = Histogram::new();
    for took in calls.join_all().await {
        latency.record(took?);
    }
    Ok(latency)
}

fn times(latency: &Histogram) -> Value {
    json!({
        "samples": latency.total(),
        "p50Ms": rounded(latency.quantile_ms(0.5)),
        "p99Ms": rounded(latency.quantile_ms(0.99)),
        "worstMs": rounded(latency.quantile_ms(1.0)),
    })
}
