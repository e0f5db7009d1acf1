//! What one might use instead: installed by `scripts/bench-peers`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Result, bail, ensure};
use serde_json::json;
use tokio::fs;
use tokio::process::Command;

use crate::client::Expected;
use crate::http;
use crate::load::Work;
use crate::options::Options;
use crate::server::{Launch, Ready, Server, free_address};
use crate::variants::{GREETING, JSON, Target};
use crate::workdir::WorkDir;

/// A fresh instance per request, as the default, but with memory reset as cheaply as can be.
const TUNED: &str = "-Opooling-memory-keep-resident=2097152,pooling-table-keep-resident=65536,\
                     pooling-pagemap-scan=y";

/// The revision of MCP in which each request stands alone.
const MCP_REVISION: &str = "2026-07-28";

fn installed(options: &Options, name: &str) -> Result<PathBuf> {
    let folder = options.root.join("target/bench-peers");
    if let Ok(reason) = std::fs::read_to_string(folder.join(format!("{name}.missing"))) {
        bail!("{}", reason.trim());
    }
    let program = folder.join("bin").join(name);
    ensure!(program.exists(), "not installed: run scripts/bench-peers");
    Ok(program)
}

/// Names and versions, as `scripts/bench-peers` noted them.
pub fn versions(options: &Options) -> Option<String> {
    let noted = options.root.join("target/bench-peers/installed");
    Some(std::fs::read_to_string(noted).ok()?.trim().to_owned())
}

pub async fn wasmtime(name: &'static str, options: &Options, workdir: &WorkDir) -> Result<Target> {
    let program = installed(options, "wasmtime")?;
    let guest = "benches/target/wasm32-wasip2/release/http_hello.wasm";
    let guest = options.root.join(guest);
    ensure!(guest.exists(), "the guest http-hello is not built");
    let address = free_address().await?;
    let mut args: Vec<String> = ["serve", "-Scli", "--addr"].map(str::to_owned).into();
    args.push(address.to_string());
    if name == "wasmtime-serve-tuned" {
        args.push(TUNED.to_owned());
    }
    args.push(guest.display().to_string());
    let launch = Launch { name, program, args, variables: Vec::new(), ready: Ready::Address(address) };
    let server = Server::start(launch, options, workdir).await?;
    let work = Work {
        address,
        request: http::request(address, "POST /", &[JSON], br#"{"name":"bench"}"#),
        expected: Expected { values: vec![("/greeting", json!(GREETING))], bytes: GREETING.as_bytes() },
    };
    Ok(Target { name, server: Rc::new(server), work: Rc::new(work) })
}

/// Serves the very component that the product runs, as an MCP tool.
pub async fn wassette(options: &Options, workdir: &WorkDir) -> Result<Target> {
    let program = installed(options, "wassette")?;
    let folder = workdir.folder("wassette")?;
    load_hello(&program, &folder, options, workdir).await?;
    let address = free_address().await?;
    let flags = "serve --streamable-http --disable-builtin-tools --json-response true --bind-address";
    let mut args: Vec<String> = flags.split(' ').map(str::to_owned).collect();
    args.push(address.to_string());
    args.extend(["--component-dir".to_owned(), folder.display().to_string()]);
    let launch = Launch {
        name: "wassette",
        program,
        args,
        variables: vec![("RUST_LOG", "error")],
        ready: Ready::Address(address),
    };
    let server = Server::start(launch, options, workdir).await?;
    Ok(Target { name: "wassette", server: Rc::new(server), work: Rc::new(tool_call(address)) })
}

async fn load_hello(program: &Path, folder: &Path, options: &Options, workdir: &WorkDir) -> Result<()> {
    let component = fs::canonicalize(options.root.join("skills/hello/hello.wasm")).await?;
    let output = Command::new(program)
        .args(["component", "load", "--component-dir"])
        .arg(folder)
        .arg(format!("file://{}", component.display()))
        .env("HOME", workdir.folder("home")?)
        .kill_on_drop(true)
        .output()
        .await?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cannot load hello: {complaint}");
    Ok(())
}

/// `tools/call` over stateless streamable HTTP.
fn tool_call(address: SocketAddr) -> Work {
    let args = r#"{"name":"bench"}"#;
    let body = json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "run",
            "arguments": { "args": args },
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": MCP_REVISION,
                "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    });
    let headers = [
        JSON,
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", MCP_REVISION),
        ("mcp-method", "tools/call"),
        ("mcp-name", "run"),
    ];
    let answer = json!({ "greeting": GREETING }).to_string();
    Work {
        address,
        request: http::request(address, "POST /mcp", &headers, body.to_string().as_bytes()),
        expected: Expected {
            values: vec![("/result/isError", json!(false)), ("/result/structuredContent/result/ok", json!(answer))],
            bytes: GREETING.as_bytes(),
        },
    }
}
