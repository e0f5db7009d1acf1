//! What powers cost: a run that was granted everything, values of types, requests of guests.
//!
//! On a server of their own, whose operator opened the machine's loopback.

use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::fs;

use crate::client::{Connection, Expected};
use crate::load::{self, Work};
use crate::options::Options;
use crate::product::{self, Api};
use crate::report::rounded;
use crate::rounds::median;
use crate::server::Server;
use crate::variants::Variants;
use crate::workdir::WorkDir;

const RUN: &str = "POST /api/skills/executions";
/// Below the default limit of arguments and output, 1 MiB each.
const TYPED_BYTES: usize = 1_000_000;

pub struct Powers<'a> {
    options: &'a Options,
    server: Server,
    api: Api,
}

impl<'a> Powers<'a> {
    pub async fn start(options: &'a Options, workdir: &WorkDir) -> Result<Self> {
        let (server, api) = product::start_open(options, workdir).await?;
        Ok(Self { options, server, api })
    }

    /// The same component doing nothing, without a grant and with all there are. The difference
    /// is the server's processor time for a request.
    pub async fn grants(&self) -> Result<Value> {
        let mut connection = Connection::open(self.api.address).await?;
        let secret = json!({ "value": "s".repeat(40), "for": "https://a.example", "header": "Authorization" });
        let (status, answer) = self.api.send(&mut connection, "PUT /api/secrets/BENCH", &secret).await?;
        ensure!(status < 300, "the secret: {status} {answer}");
        let all = json!({
            "workspace": "write", "network": ["GET https://a.example/*"], "secrets": ["BENCH"],
            "config": { "UNITS": "metric" }, "env": { "LANG": "C" }, "kv": true, "skills": ["leaf"],
        });
        for (name, grants) in [("leaf", json!({})), ("plain", json!({})), ("granted", all)] {
            self.push(name, "powers-probe", grants).await?;
        }
        let (mut plain, mut granted) = (Vec::new(), Vec::new());
        for round in 0..self.options.rounds {
            // Every other round backwards, as the rounds of the variants.
            for name in if round % 2 == 0 { ["plain", "granted"] } else { ["granted", "plain"] } {
                let us = self.cpu_us(name, json!([])).await?;
                if name == "plain" { plain.push(us) } else { granted.push(us) }
            }
        }
        let more: Vec<f64> = granted.iter().zip(&plain).map(|(granted, plain)| granted - plain).collect();
        let (plain, granted, more) = (median(plain), median(granted), median(more));
        Ok(json!({
            "plainCpuUs": rounded(plain), "grantedCpuUs": rounded(granted), "moreCpuUs": rounded(more),
        }))
    }

    /// A value of a megabyte of JSON to a typed function and back: the whole run, seen by a client.
    pub async fn typed(&self) -> Result<Value> {
        self.push("typed", "typed", json!({})).await?;
        let point = json!({ "x": -12345, "y": 67890, "label": "a label of a point" });
        let points = TYPED_BYTES / (point.to_string().len() + 1);
        let series = TYPED_BYTES / 9;
        let bytes = TYPED_BYTES - 100;
        Ok(json!({
            "jsonBytes": TYPED_BYTES,
            "recordsMs": self.whole_ms("points", vec![point; points].into()).await?,
            "numbersMs": self.whole_ms("series", vec![json!(1234.567); series].into()).await?,
            "base64Ms": self.whole_ms("bytes", "QUJD".repeat(bytes / 4).into()).await?,
        }))
    }

    async fn whole_ms(&self, function: &str, value: Value) -> Result<f64> {
        let args = json!({ if function == "bytes" { "data" } else { "values" }: value });
        let body = json!({ "skillId": format!("typed#{function}"), "args": args });
        let mut connection = Connection::open(self.api.address).await?;
        let mut times = Vec::new();
        for _ in 0..if self.options.quick { 2 } else { 11 } {
            let request = self.api.request(RUN, body.to_string().as_bytes());
            let start = Instant::now();
            let (response, bytes) = connection.exchange(&request).await?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            let run: Value = serde_json::from_slice(&response.body(bytes))?;
            let (status, code) = (run.get("status"), run.pointer("/error/message"));
            ensure!(status == Some(&json!("success")), "{function}: {status:?} {code:?}");
        }
        Ok(rounded(median(times)))
    }

    /// Each run sends one request to the server of `bare` and gives back what it answers.
    pub async fn fetch(&self, variants: &Variants) -> Result<Value> {
        let address = variants.find("bare").context("no bare")?.work.address;
        let url = format!("http://{address}/echo");
        self.push("fetch", "fetch", json!({ "network": [format!("POST {url}")] })).await?;
        let args = json!({
            "url": url, "method": "POST", "headers": { "content-type": "application/json" },
            "body": json!({ "skillId": "x", "args": {} }).to_string(),
        });
        let ready = load::open(&self.work("fetch", args, br#"{\"skillId\":\"x\""#), self.options.connections).await?;
        let load = ready.run(self.options.turn).await?;
        ensure!(load.errors == 0, "{} errors: {:?}", load.errors, load.first_error);
        Ok(json!({ "callsPerSecond": rounded(load.rps()), "p99Ms": rounded(load.latency.quantile_ms(0.99)) }))
    }

    async fn cpu_us(&self, skill: &str, args: Value) -> Result<f64> {
        let ready = load::open(&self.work(skill, args, b"\"success\""), self.options.connections).await?;
        let before = self.server.cpu_time()?;
        let load = ready.run(self.options.turn).await?;
        ensure!(load.errors == 0, "{} errors: {:?}", load.errors, load.first_error);
        let used = self.server.cpu_time()? - before;
        Ok(used.as_secs_f64() * 1e6 / load.latency.total() as f64)
    }

    fn work(&self, skill: &str, args: Value, bytes: &'static [u8]) -> Rc<Work> {
        let body = json!({ "skillId": skill, "args": args }).to_string();
        let expected = Expected { values: vec![("/status", json!("success"))], bytes };
        Rc::new(Work { address: self.api.address, request: self.api.request(RUN, body.as_bytes()), expected })
    }

    async fn push(&self, name: &str, guest: &str, grants: Value) -> Result<()> {
        let file = self.options.root.join(format!("guest-examples/target/guests/{guest}.wasm"));
        let component = fs::read(&file).await.context("run scripts/guests first")?;
        let manifest = json!({ "name": name, "version": "1.0.0", "grants": grants });
        self.api.push(&manifest.to_string(), &component).await
    }
}
