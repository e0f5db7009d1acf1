//! Clients that nobody here wrote, as processes: `scripts/clients` installs them.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::support::{Host, until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_skillvisor");

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The Python client in one of its modes; nothing if it is not installed.
fn python(mode: &str) -> Option<Command> {
    let mut command = installed("mcp-python", &root("target/tools/mcp-python/bin/python"))?;
    command.arg(root("tests/clients/mcp_client.py")).arg(mode);
    Some(command)
}

/// The JavaScript client; nothing if it is not installed.
fn javascript() -> Option<Command> {
    let mut command = installed("mcp-js", Path::new("node"))?;
    command.arg(root("tests/clients/mcp_client.mjs")).env("MCP_SDK", root("target/tools/mcp-js"));
    Some(command)
}

/// A client that is not there fails in CI. Elsewhere its tests are left out.
#[expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "no setting of the program; whoever tests should know"
)]
fn installed(tool: &str, program: &Path) -> Option<Command> {
    if root(&format!("target/tools/{tool}/version")).exists() {
        return Some(Command::new(program));
    }
    assert!(std::env::var_os("CI").is_none(), "{tool} is not installed: scripts/clients");
    eprintln!("left out: {tool} is not installed (scripts/clients)");
    None
}

/// A client at work.
struct Client {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Client {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { stdin: child.stdin.take().unwrap(), lines, child }
    }

    /// What it says of its next step, which must be this one.
    async fn did(&mut self, step: &str) -> Value {
        let line = self.lines.next_line().await.unwrap().unwrap_or_else(|| panic!("it ended before {step}"));
        let said: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(said["step"], step, "{said}");
        said
    }

    async fn go_on(&mut self) {
        self.stdin.write_all(b"go on\n").await.unwrap();
    }
}

async fn prepared() -> Host {
    Host::start().with_hello().await.with("trap").await.with("slow-host-call").await
}

/// Lets a client do everything that there is to do, and gives the revision that it speaks.
async fn follow(host: &Host, command: Command) -> Value {
    let mut client = Client::start(command);
    let connected = client.did("connected").await;
    assert_eq!(connected["server"], "skillvisor");
    let listed = client.did("listed").await["tools"].clone();
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(
        names.is_sorted() && ["hello", "slow-host-call", "trap"].iter().all(|name| names.contains(name)),
        "{names:?}"
    );
    let called = client.did("called").await;
    assert_eq!((&called["isError"], &called["structured"]), (&json!(false), &json!({ "greeting": "Hello, Ada!" })));
    assert_eq!(called["text"], r#"{"greeting":"Hello, Ada!"}"#);
    let wrong = client.did("wrong").await;
    assert_eq!((&wrong["isError"], &wrong["structured"]), (&json!(true), &Value::Null), "{wrong}");
    assert!(wrong["text"].as_str().unwrap().contains("/name"), "{wrong}");
    let failed = client.did("failed").await;
    assert_eq!((&failed["isError"], &failed["structured"]), (&json!(true), &Value::Null), "{failed}");
    assert!(failed["text"].as_str().unwrap().starts_with("trap: "), "{failed}");
    assert_eq!(client.did("unknown").await["code"], -32602);
    client.did("listening").await;
    upload_until_told(host, &mut client).await;
    until(async || execution(host, "running").await).await;
    client.go_on().await;
    client.did("cancelled").await;
    let cancelled = until(async || execution(host, "cancelled").await).await;
    assert_eq!((&cancelled["door"], &cancelled["error"]["code"]), (&json!("mcp"), &json!("cancelled")));
    assert_eq!(client.did("again").await["isError"], false);
    client.did("closed").await;
    assert!(client.child.wait().await.unwrap().success());
    connected["version"].clone()
}

/// Uploads skills until the client hears of one: the stream of an older revision opens some
/// time after the client has begun to wait for it.
async fn upload_until_told(host: &Host, client: &mut Client) {
    let mut told = Box::pin(client.did("changed"));
    for n in 0.. {
        assert!(n < 300, "nobody tells");
        let made = host.upload(&format!("new-{n}"), crate::support::guest("echo")).await;
        assert!(made.status.is_success(), "{}", made.body);
        let soon = tokio::time::timeout(std::time::Duration::from_millis(500), &mut told).await;
        if let Ok(changed) = soon {
            assert!(changed["tools"].as_array().unwrap().contains(&json!("new-0")), "{changed}");
            return;
        }
    }
}

async fn execution(host: &Host, status: &str) -> Option<Value> {
    let page = host.get(&format!("/api/skills/executions?skill=slow-host-call&status={status}")).await;
    page.body["executions"].get(0).cloned()
}

/// Each client over HTTP, with a key that may look and run.
async fn over_http(command: Option<Command>) -> Option<Value> {
    let mut command = command?;
    let host = prepared().await;
    let key = host.agent(&["skills:read", "skills:execute"]).await;
    command.arg(format!("{}/mcp", host.url)).env("MCP_KEY", key["secret"].as_str().unwrap());
    Some(follow(&host, command).await)
}

/// Each client over `skillvisor mcp`, beside a server that runs.
async fn over_stdio(command: Option<Command>) -> Option<Value> {
    let mut command = command?;
    let host = prepared().await;
    command.arg(PROGRAM).arg("mcp").env("SKILLVISOR_DATA_DIR", host.dir.path().join("data"));
    Some(follow(&host, command).await)
}

fn speaks(version: Option<Value>, wanted: &str) {
    assert!(version.as_ref().is_none_or(|version| version == wanted), "{version:?}");
}

#[tokio::test]
async fn the_python_client_works_over_http_in_the_newest_revision() {
    speaks(over_http(python("auto")).await, super::NEWEST);
}

#[tokio::test]
async fn the_python_client_works_over_http_in_an_older_revision() {
    speaks(over_http(python("legacy")).await, "2025-11-25");
}

#[tokio::test]
async fn the_python_client_works_over_stdio_in_the_newest_revision() {
    speaks(over_stdio(python("auto")).await, super::NEWEST);
}

#[tokio::test]
async fn the_python_client_works_over_stdio_in_an_older_revision() {
    speaks(over_stdio(python("legacy")).await, "2025-11-25");
}

#[tokio::test]
async fn the_javascript_client_works_over_http() {
    speaks(over_http(javascript()).await, "2025-11-25");
}

#[tokio::test]
async fn the_javascript_client_works_over_stdio() {
    // Its transport over stdio does not say which revision it speaks.
    over_stdio(javascript()).await;
}

/// The official suite, on the Node that it needs. It cannot be told a key, so that one is added on its way.
#[tokio::test]
async fn the_conformance_suite_passes_but_for_what_is_listed_with_its_reason() {
    let folder = root("target/tools/mcp-conformance/node_modules");
    let node = folder.join("node/bin/node");
    let Some(mut proxy) = installed("mcp-conformance", &node) else { return };
    let host = prepared().await;
    let key = host.agent(&["skills:read", "skills:execute"]).await;
    proxy.arg(root("tests/clients/with_key.mjs")).arg(&host.url).env("MCP_KEY", key["secret"].as_str().unwrap());
    let mut proxy = Client::start(proxy);
    let url = proxy.lines.next_line().await.unwrap().unwrap();
    let mut suite = Command::new(node);
    suite.arg(folder.join("@modelcontextprotocol/conformance/dist/index.js")).args(["server", "--url", &url]);
    suite.arg("--expected-failures").arg(root("tests/clients/mcp_conformance.yml")).current_dir(host.dir.path());
    let output = suite.output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", &text[text.find("=== SUMMARY").unwrap_or_default()..]);
}
