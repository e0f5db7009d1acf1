//! The host itself, as it ships, with the skill `hello`.

use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::fs;
use tokio::time::{sleep, timeout};

use crate::client::{Connection, Expected};
use crate::http;
use crate::load::Work;
use crate::options::Options;
use crate::server::{Launch, Ready, Server};
use crate::variants::{GREETING, JSON, Target, execution_request};
use crate::workdir::WorkDir;

const USABLE_WITHIN: Duration = Duration::from_secs(60);
const BOUNDARY: &str = "bench-boundary-4b1d";

/// Where the host listens, and the key for it.
#[derive(Clone)]
pub struct Api {
    pub address: SocketAddr,
    authorization: String,
}

/// Starts the variant `name`: it decides how the audit is kept.
pub async fn start(name: &'static str, options: &Options, workdir: &WorkDir) -> Result<(Target, Api)> {
    // The program that ships cannot give up its audit.
    let measure = || options.root.join("target/release/skillvisor-measure");
    let program = if name == "full" { options.host() } else { measure() };
    ensure!(program.exists(), "{} is not built", program.display());
    let data = workdir.folder(&format!("data-{name}"))?;
    let flags = "serve --json --listen 127.0.0.1:0 --data-dir";
    let mut args: Vec<String> = flags.split(' ').map(str::to_owned).collect();
    args.push(data.display().to_string());
    match name {
        "full-one-commit" => args.push("--unsafe-audit=one-commit".to_owned()),
        "full-no-audit" => args.push("--unsafe-audit=none".to_owned()),
        _ => {}
    }
    let launch = Launch { name, program, args, variables: Vec::new(), ready: Ready::Line(ready_address) };
    let server = Server::start(launch, options, workdir).await?;
    let api = Api::new(server.address, &data).await?;
    upload_hello(&api, options).await?;
    let target = Target { name, work: Rc::new(api.hello()), server: Rc::new(server) };
    Ok((target, api))
}

/// Starts the program that ships with its machine's loopback open to guests.
pub async fn start_open(options: &Options, workdir: &WorkDir) -> Result<(Server, Api)> {
    let data = workdir.folder("data-powers")?;
    let flags = "serve --json --listen 127.0.0.1:0 --egress-allow-cidrs 127.0.0.1/32 --data-dir";
    let mut args: Vec<String> = flags.split(' ').map(str::to_owned).collect();
    args.push(data.display().to_string());
    let program = options.host();
    let launch = Launch { name: "powers", program, args, variables: Vec::new(), ready: Ready::Line(ready_address) };
    let server = Server::start(launch, options, workdir).await?;
    let api = Api::new(server.address, &data).await?;
    Ok((server, api))
}

/// From `{"event":"ready","url":"http://127.0.0.1:1234"}`.
fn ready_address(line: &str) -> Option<SocketAddr> {
    let event: Value = serde_json::from_str(line).ok()?;
    let url = event.get("url")?.as_str()?;
    let authority = url.strip_prefix("http://")?;
    authority.trim_end_matches('/').parse().ok()
}

impl Api {
    async fn new(address: SocketAddr, data: &Path) -> Result<Self> {
        let key = fs::read_to_string(data.join("admin.key")).await;
        let key = key.context("no admin.key")?;
        Ok(Self { address, authorization: format!("Bearer {}", key.trim()) })
    }

    /// The same host, for another key.
    pub fn with_key(&self, secret: &str) -> Self {
        Self { authorization: format!("Bearer {secret}"), ..self.clone() }
    }

    /// A request with the key; the body is JSON.
    pub fn request(&self, line: &str, body: &[u8]) -> Vec<u8> {
        let headers = [JSON, ("authorization", &*self.authorization)];
        http::request(self.address, line, &headers, body)
    }

    fn hello(&self) -> Work {
        Work {
            address: self.address,
            request: self.request("POST /api/skills/executions", &execution_request()),
            expected: Expected {
                values: vec![("/status", json!("success")), ("/output/greeting", json!(GREETING))],
                bytes: GREETING.as_bytes(),
            },
        }
    }

    /// Uploads a component without a manifest and waits until it can be used.
    pub async fn upload(&self, connection: &mut Connection, name: &str, component: &[u8]) -> Result<()> {
        let line = format!("POST /api/skills?name={name}&version=1.0.0");
        self.register(connection, &line, "application/wasm", component).await
    }

    /// Sends JSON and gives the status and the answer.
    pub async fn send(&self, connection: &mut Connection, line: &str, body: &Value) -> Result<(u16, Value)> {
        let headers = [JSON, ("authorization", &*self.authorization)];
        connection.call(line, &headers, body.to_string().as_bytes()).await
    }

    /// Uploads a component with its manifest and waits until it can be used.
    pub async fn push(&self, manifest: &str, component: &[u8]) -> Result<()> {
        let mut body = part("manifest", "application/json", manifest.as_bytes());
        body.extend(part("component", "application/wasm", component));
        body.extend(format!("--{BOUNDARY}--\r\n").bytes());
        let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
        let mut connection = Connection::open(self.address).await?;
        self.register(&mut connection, "POST /api/skills", &content_type, &body).await
    }

    async fn register(&self, connection: &mut Connection, line: &str, content_type: &str, body: &[u8]) -> Result<()> {
        let headers = [("content-type", content_type), ("authorization", &*self.authorization)];
        let (status, skill) = connection.call(line, &headers, body).await?;
        ensure!(matches!(status, 200..=202), "upload: {status} {skill}");
        let usable = timeout(USABLE_WITHIN, self.usable(connection, skill)).await;
        usable.context("still compiling")?
    }

    async fn usable(&self, connection: &mut Connection, mut skill: Value) -> Result<()> {
        loop {
            match skill.get("state").and_then(Value::as_str) {
                Some("ready") => return Ok(()),
                Some("compiling") => {}
                _ => bail!("the skill cannot be used: {skill}"),
            }
            sleep(Duration::from_millis(10)).await;
            let id = skill.get("id").and_then(Value::as_str);
            let line = format!("GET /api/skills/{}", id.context("a skill without id")?);
            let headers = [("authorization", &*self.authorization)];
            (_, skill) = connection.call(&line, &headers, b"").await?;
        }
    }
}

/// With the manifest, so that each call is checked against the schemas.
async fn upload_hello(api: &Api, options: &Options) -> Result<()> {
    let folder = options.root.join("skills/hello");
    let text = fs::read_to_string(folder.join("SKILL.md")).await?;
    let (_, rest) = text.split_once("```json skill\n").context("no manifest")?;
    let (manifest, _) = rest.split_once("\n```").context("no end of the manifest")?;
    let component = fs::read(folder.join("hello.wasm")).await?;
    api.push(manifest, &component).await
}

fn part(name: &str, content_type: &str, bytes: &[u8]) -> Vec<u8> {
    let head = format!(
        "--{BOUNDARY}\r\n\
         content-disposition: form-data; name=\"{name}\"; filename=\"{name}\"\r\n\
         content-type: {content_type}\r\n\r\n"
    );
    [head.as_bytes(), bytes, b"\r\n"].concat()
}
