//! What is loaded: each variant is one request to one server.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::time::sleep;

use crate::client::Expected;
use crate::http;
use crate::load::{self, Work};
use crate::options::Options;
use crate::peers;
use crate::product::{self, Api};
use crate::server::{Launch, Ready, Server};
use crate::workdir::WorkDir;

/// All variants, in the order of the report. The first is what the others are compared with.
pub const NAMES: [&str; 8] =
    ["bare", "full", "full-one-commit", "full-no-audit", "spawn", "wasmtime-serve", "wasmtime-serve-tuned", "wassette"];

const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// What the skill `hello` says to the bench.
pub const GREETING: &str = "Hello, bench!";
pub const JSON: (&str, &str) = ("content-type", "application/json");

/// A variant that runs.
pub struct Target {
    pub name: &'static str,
    pub server: Rc<Server>,
    pub work: Rc<Work>,
}

/// A variant that cannot be run here.
pub struct Skipped {
    pub name: &'static str,
    pub reason: String,
}

#[derive(Default)]
pub struct Variants {
    pub targets: Vec<Target>,
    pub skipped: Vec<Skipped>,
    /// The host of the variant `full`.
    pub product: Option<Api>,
}

impl Variants {
    pub fn find(&self, name: &str) -> Option<&Target> {
        self.targets.iter().find(|target| target.name == name)
    }
}

/// Starts every server that is wanted. One that cannot be had is named and left out.
pub async fn start(options: &Options, workdir: &WorkDir) -> Result<Variants> {
    let mut variants = Variants::default();
    for name in NAMES.into_iter().filter(|name| options.wants(name)) {
        match start_one(name, options, workdir, &mut variants).await {
            Ok(target) => variants.targets.push(target),
            Err(error) if name == "bare" => return Err(error),
            Err(error) => {
                let reason = format!("{error:#}");
                println!("skipped: {name}: {reason}");
                variants.skipped.push(Skipped { name, reason });
            }
        }
    }
    Ok(variants)
}

/// Starts one and sees that it answers rightly.
async fn start_one(
    name: &'static str,
    options: &Options,
    workdir: &WorkDir,
    variants: &mut Variants,
) -> Result<Target> {
    let mut product = None;
    let target = match name {
        "bare" => bare(options, workdir).await?,
        "spawn" => spawn(options, variants)?,
        "wassette" => peers::wassette(options, workdir).await?,
        "wasmtime-serve" | "wasmtime-serve-tuned" => peers::wasmtime(name, options, workdir).await?,
        _ => {
            let (target, api) = product::start(name, options, workdir).await?;
            product = Some(api);
            target
        }
    };
    first_answer(&target).await?;
    if name == "full" {
        variants.product = product;
    }
    Ok(target)
}

/// Waits for a right answer: a server that listens may still be loading.
async fn first_answer(target: &Target) -> Result<()> {
    let end = Instant::now() + ANSWERS_WITHIN;
    loop {
        match load::open(&target.work, 1).await {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > end => return Err(error),
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}

/// What is sent to the product, and for comparison to the bare server.
pub fn execution_request() -> Vec<u8> {
    json!({ "skillId": "hello@1.0.0", "args": { "name": "bench" } }).to_string().into_bytes()
}

async fn bare(options: &Options, workdir: &WorkDir) -> Result<Target> {
    let binaries = options.root.join("benches/target/release");
    let launch = Launch {
        name: "bare",
        program: binaries.join("bare"),
        args: vec![binaries.join("echo-process").display().to_string()],
        variables: Vec::new(),
        ready: Ready::Line(|line| line.parse::<SocketAddr>().ok()),
    };
    let server = Server::start(launch, options, workdir).await?;
    Ok(same_back("bare", "POST /echo", Rc::new(server)))
}

/// The second route of the bare server.
fn spawn(options: &Options, variants: &Variants) -> Result<Target> {
    let program = options.root.join("benches/target/release/echo-process");
    ensure!(program.exists(), "echo-process is not built");
    let bare = variants.find("bare").context("no bare server")?;
    Ok(same_back("spawn", "POST /spawn", Rc::clone(&bare.server)))
}

fn same_back(name: &'static str, line: &str, server: Rc<Server>) -> Target {
    let address = server.address;
    let work = Work {
        address,
        request: http::request(address, line, &[JSON], &execution_request()),
        expected: Expected {
            values: vec![("/skillId", json!("hello@1.0.0")), ("/args/name", json!("bench"))],
            bytes: br#""bench""#,
        },
    };
    Target { name, server, work: Rc::new(work) }
}
