//! What a load does not show: deadlines, starvation, the way from upload to result.

use std::future::Future;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use tokio::fs;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use crate::client::Connection;
use crate::fairness;
use crate::histogram::Histogram;
use crate::load;
use crate::options::Options;
use crate::powers::Powers;
use crate::product::Api;
use crate::report::rounded;
use crate::rounds::median;
use crate::variants::Variants;
use crate::workdir::WorkDir;

const DEADLINE_MS: u64 = 100;
const SPINNING: usize = 8;
/// Short enough that no guest runs out of fuel before, even with a core to itself.
const SPIN_MS: u64 = 500;
/// Between two requests beside spinning guests.
const PACE: Duration = Duration::from_millis(2);
/// For eight guests to get going.
const HEAD_START: Duration = Duration::from_millis(300);

/// What the probes found, by name, and why those failed that did.
#[derive(Default)]
pub struct Probes {
    pub found: Map<String, Value>,
    pub failed: Vec<(&'static str, String)>,
}

/// Runs all of them against the server of `full`.
pub async fn run(options: &Options, variants: &Variants, workdir: &WorkDir) -> Result<Probes> {
    let mut probes = Probes::default();
    let wants = |name| options.wants(name);
    let Some(api) = variants.product.as_ref().filter(|_| wants("probes") || wants("fairness")) else {
        return Ok(probes);
    };
    let api = Rc::new(api.clone());
    println!("probes");
    if wants("fairness") {
        probes.note("fairness", fairness::measure(&api, options)).await;
    }
    if !wants("probes") {
        return Ok(probes);
    }
    let probe = Probe { api, options };
    let sequential = sequential(options, variants);
    probes.note("sequential", sequential).await;
    probes.note("freshInstance", fresh_instance(options)).await;
    probes.note("uploadToFirstResult", probe.upload_to_first_result()).await;
    match probe.upload_spin().await {
        Ok(()) => {
            probes.note("deadline", probe.deadline()).await;
            probes.note("noGuest", probe.no_guest()).await;
        }
        Err(error) => probes.failed("spin", &error),
    }
    match Powers::start(options, workdir).await {
        Ok(powers) => {
            probes.note("grants", powers.grants()).await;
            probes.note("typed", powers.typed()).await;
            probes.note("fetch", powers.fetch(variants)).await;
        }
        Err(error) => probes.failed("powers", &error),
    }
    Ok(probes)
}

impl Probes {
    async fn note(&mut self, name: &'static str, probe: impl Future<Output = Result<Value>>) {
        match probe.await {
            Ok(value) => {
                println!("  {name}: {value}");
                self.found.insert(name.to_owned(), value);
            }
            Err(error) => self.failed(name, &error),
        }
    }

    fn failed(&mut self, name: &'static str, error: &anyhow::Error) {
        println!("  {name}: failed: {error:#}");
        self.failed.push((name, format!("{error:#}")));
    }
}

/// One client that waits for each result before it asks for the next.
async fn sequential(options: &Options, variants: &Variants) -> Result<Value> {
    let full = variants.find("full").context("no full")?;
    let ready = load::open(&full.work, 1).await?;
    let load = ready.run(options.turn).await?;
    ensure!(load.errors == 0, "{} errors", load.errors);
    Ok(json!({
        "p50Ms": rounded(load.latency.quantile_ms(0.5)),
        "p99Ms": rounded(load.latency.quantile_ms(0.99)),
        "rps": rounded(load.rps()),
    }))
}

/// What the host itself says of a fresh instance, without HTTP, audit or other threads.
async fn fresh_instance(options: &Options) -> Result<Value> {
    let mut doctor = Command::new(options.host());
    let output = doctor.args(["doctor", "--json", "--data-dir", "/nonexistent"]).output().await?;
    let report: Value = serde_json::from_slice(&output.stdout).context("doctor gives no JSON")?;
    let freshness = report.get("freshness").filter(|freshness| freshness.is_object());
    freshness.cloned().context("doctor cannot run a skill here")
}

struct Probe<'a> {
    api: Rc<Api>,
    options: &'a Options,
}

impl Probe<'_> {
    /// Uploads of components that differ, so that each is compiled.
    async fn upload_to_first_result(&self) -> Result<Value> {
        let file = self.guest("word-count").await?;
        let mut connection = Connection::open(self.api.address).await?;
        let (mut uploads, mut totals) = (Vec::new(), Vec::new());
        let times = if self.options.quick { 2 } else { 7 };
        for time in 0..times {
            let name = format!("word-count-{time}");
            let component = [&*file, &custom_section(&name)].concat();
            let body = json!({ "skillId": name, "args": { "text": "The cat. The hat!" } });
            let body = body.to_string();
            let start = Instant::now();
            self.api.upload(&mut connection, &name, &component).await?;
            uploads.push(ms(start.elapsed()));
            let run = self.api.request("POST /api/skills/executions", body.as_bytes());
            expect_end(&mut connection, &run, "success").await?;
            totals.push(ms(start.elapsed()));
        }
        Ok(json!({
            "componentBytes": file.len(),
            "medianMs": rounded(median(totals)),
            "uploadMedianMs": rounded(median(uploads)),
        }))
    }

    async fn guest(&self, name: &str) -> Result<Vec<u8>> {
        let path = format!("guest-examples/target/guests/{name}.wasm");
        let path = self.options.root.join(path);
        fs::read(&path).await.context("run scripts/guests first")
    }

    async fn upload_spin(&self) -> Result<()> {
        let component = self.guest("spin").await?;
        let mut connection = Connection::open(self.api.address).await?;
        self.api.upload(&mut connection, "spin", &component).await
    }

    /// How late the answer about a missed deadline comes, as the client sees it.
    async fn deadline(&self) -> Result<Value> {
        let (pairs, eights) = if self.options.quick { (3, 1) } else { (20, 6) };
        let mut found = Map::new();
        found.insert("timeoutMs".to_owned(), json!(DEADLINE_MS));
        for (name, guests, times) in [("two", 2, pairs), ("eight", SPINNING, eights)] {
            let mut lateness = Vec::new();
            for _ in 0..times {
                let spinning = self.spin(guests, DEADLINE_MS, Duration::ZERO).await?;
                for took in spinning.join_all().await {
                    lateness.push(took? - DEADLINE_MS as f64);
                }
            }
            let worst = lateness.iter().copied().fold(f64::MIN, f64::max);
            let value = json!({
                "samples": lateness.len(),
                "medianMs": rounded(median(lateness)),
                "worstMs": rounded(worst),
            });
            found.insert(name.to_owned(), value);
        }
        Ok(found.into())
    }

    /// Starts guests that loop until their deadline, and starts each again while `length`
    /// has not passed. Gives the milliseconds that the last run of each took.
    async fn spin(&self, guests: usize, timeout_ms: u64, length: Duration) -> Result<JoinSet<Result<f64>>> {
        let body = json!({
            "skillId": "spin@1.0.0",
            "args": {},
            "limits": { "timeoutMs": timeout_ms },
        });
        let line = "POST /api/skills/executions";
        let request = Rc::new(self.api.request(line, body.to_string().as_bytes()));
        let mut spinning = JoinSet::new();
        for _ in 0..guests {
            let mut connection = Connection::open(self.api.address).await?;
            let request = Rc::clone(&request);
            spinning.spawn_local(async move {
                let begin = Instant::now();
                loop {
                    let start = Instant::now();
                    expect_end(&mut connection, &request, "timeout").await?;
                    if begin.elapsed() >= length {
                        return Ok(ms(start.elapsed()));
                    }
                }
            });
        }
        Ok(spinning)
    }

    /// Requests that need no guest, beside eight that loop.
    async fn no_guest(&self) -> Result<Value> {
        let length = self.options.turn;
        let mut found = Map::new();
        found.insert("spinning".to_owned(), json!(SPINNING));
        for (name, line) in [("livez", "GET /livez"), ("skills", "GET /api/skills")] {
            let idle = self.paced(line, length / 2).await?;
            let spinning = self.spin(SPINNING, SPIN_MS, HEAD_START + length).await?;
            tokio::time::sleep(HEAD_START).await;
            let beside = self.paced(line, length).await?;
            for took in spinning.join_all().await {
                took?;
            }
            let value = json!({
                "idleP99Ms": rounded(idle.quantile_ms(0.99)),
                "p50Ms": rounded(beside.quantile_ms(0.5)),
                "p99Ms": rounded(beside.quantile_ms(0.99)),
                "worstMs": rounded(beside.quantile_ms(1.0)),
                "samples": beside.total(),
            });
            found.insert(name.to_owned(), value);
        }
        Ok(found.into())
    }

    /// A request every [`PACE`]. One that had to wait for the answer before it is counted
    /// from when it was due: a server that stands still does not hide the wait.
    async fn paced(&self, line: &str, length: Duration) -> Result<Histogram> {
        let request = self.api.request(line, b"");
        let mut connection = Connection::open(self.api.address).await?;
        let mut latency = Histogram::new();
        let start = Instant::now();
        let mut due = start;
        while due < start + length {
            let late = Instant::now() > due;
            if !late {
                sleep_until(due.into()).await;
            }
            let since = if late { due } else { Instant::now() };
            let (response, _) = connection.exchange(&request).await?;
            ensure!(response.status == 200, "{line}: {}", response.status);
            latency.record(since.elapsed());
            due += PACE;
        }
        Ok(latency)
    }
}

/// Runs a skill and sees that it ends with `wanted`.
async fn expect_end(connection: &mut Connection, request: &[u8], wanted: &str) -> Result<()> {
    let (response, bytes) = connection.exchange(request).await?;
    let run: Value = serde_json::from_slice(&response.body(bytes))?;
    let status = run.get("status").and_then(Value::as_str);
    ensure!(status == Some(wanted), "a run did not end as {wanted}: {run}");
    Ok(())
}

/// A section that every host passes over, to make a component unlike any other.
fn custom_section(name: &str) -> Vec<u8> {
    let mut content = vec![name.len() as u8];
    content.extend(name.bytes());
    let mut section = vec![0, content.len() as u8];
    section.extend(content);
    section
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
