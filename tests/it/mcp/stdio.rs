//! `skillvisor mcp`: lines in, lines out.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Host, command, run};

fn mcp(data_dir: &Path) -> Command {
    let mut command = command(data_dir, &["mcp"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn request(id: u64, method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": super::NEWEST,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// Pipes lines in, closes stdin, and gives what came out.
fn pipe(mut command: Command, lines: &[String]) -> Vec<Value> {
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not a message: {line}"))).collect()
}

fn with_id(messages: &[Value], id: impl Into<Value>) -> &Value {
    let id = id.into();
    messages.iter().find(|message| message["id"] == id).unwrap_or_else(|| panic!("{id}: {messages:?}"))
}

#[tokio::test]
async fn calls_are_answered_before_it_ends_and_garbage_ends_nothing() {
    let host = Host::start().with_hello().await;
    let data_dir = host.dir.path().join("data");
    let call =
        |id: u64, name: &str| request(id, "tools/call", json!({ "name": "hello", "arguments": { "name": name } }));
    let lines = [
        call(1, "A"),
        "garbage".to_owned(),
        call(2, "B"),
        String::new(),
        "[]".to_owned(),
        request(3, "tools/call", json!({ "name": "constructor" })),
        call(4, "C"),
    ];
    for is_running in [true, false] {
        let messages = pipe(mcp(&data_dir), &lines);
        for (id, name) in [(1, "A"), (2, "B"), (4, "C")] {
            let answer = with_id(&messages, id);
            assert_eq!(
                answer["result"]["structuredContent"]["greeting"],
                format!("Hello, {name}!"),
                "{is_running}: {answer}"
            );
        }
        assert_eq!(with_id(&messages, 3)["error"]["code"], -32602);
        let codes: Vec<_> = messages.iter().filter(|message| message["id"].is_null()).collect();
        assert_eq!((codes.len(), messages.len()), (2, 6), "{messages:?}");
        if is_running {
            let keys = host.get("/api/keys").await;
            let own = keys.body["keys"]
                .as_array()
                .unwrap()
                .iter()
                .find(|key| key["name"] == "mcp on this machine")
                .unwrap()
                .clone();
            assert_eq!(own["scopes"], json!(["skills:read", "skills:execute"]));
            let ran = host.get("/api/skills/executions").await;
            assert!(ran.body["executions"].as_array().unwrap().iter().all(|run| run["keyId"] == own["id"]));
            // From here on it opens the directory itself.
            let pid = rustix::process::Pid::from_raw(i32::try_from(host.pid()).unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
            crate::support::until(async || (!data_dir.join("server.json").exists()).then_some(())).await;
        }
    }
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(data_dir.join("mcp.key")).unwrap());
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn an_older_session_over_lines_is_opened_told_of_changes_and_cancelled_in() {
    let host = Host::start().with_hello().await.with("slow-host-call").await;
    let mut child = mcp(&host.dir.path().join("data")).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut send = |message: Value| writeln!(stdin, "{message}").unwrap();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let client =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    send(json!({ "jsonrpc": "2.0", "id": "i", "method": "initialize", "params": client }));
    assert_eq!(next()["result"]["protocolVersion"], "2025-06-18");
    send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let arguments = json!({ "name": "slow-host-call", "arguments": { "ms": 60_000 } });
    send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": arguments }));
    let status = async |status: &str| {
        let page = host.get(&format!("/api/skills/executions?status={status}")).await;
        page.body["executions"].get(0).cloned()
    };
    crate::support::until(async || status("running").await).await;
    send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }));
    crate::support::until(async || status("cancelled").await).await;
    send(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "hello" } }));
    let answer = next();
    assert_eq!(
        (&answer["id"], &answer["result"]["isError"]),
        (&json!(2), &json!(false)),
        "what was cancelled is not answered"
    );
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_key_of_the_machines_agents_that_was_revoked_is_not_replaced() {
    let host = Host::start().with_hello().await;
    let data_dir = host.dir.path().join("data");
    assert_eq!(pipe(mcp(&data_dir), &[request(1, "tools/list", json!({}))]).len(), 1);
    let keys = host.get("/api/keys").await;
    let own =
        keys.body["keys"].as_array().unwrap().iter().find(|key| key["name"] == "mcp on this machine").unwrap().clone();
    let path = format!("/api/keys/{}", own["id"].as_str().unwrap());
    assert_eq!(host.send(reqwest::Method::DELETE, &path, Value::Null).await.status, 204);
    let refused = run(&mut command(&data_dir, &["mcp"])).expect(3);
    assert!(refused.stdout.is_empty() && refused.stderr.contains("mcp.key"), "{}", refused.stderr);
    let agent = host.agent(&["skills:read", "skills:execute"]).await;
    let mut given = mcp(&data_dir);
    given.env("SKILLVISOR_KEY", agent["secret"].as_str().unwrap());
    assert!(pipe(given, &[request(1, "tools/list", json!({}))])[0]["result"]["tools"].is_array());
}
