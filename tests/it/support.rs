//! Starts `skillvisor serve` on a directory of its own, and talks HTTP to it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A running program. Killed when dropped.
pub(crate) struct Host {
    child: Child,
    url: String,
    key: String,
    client: Client,
    pub(crate) dir: TempDir,
}

/// What came back.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

impl Reply {
    /// The status and, for a problem, its code.
    pub(crate) fn summary(&self) -> String {
        format!("{} {}", self.status.as_u16(), self.body["code"].as_str().unwrap_or("-"))
    }
}

impl Host {
    /// Starts on a new directory.
    pub(crate) fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap())
    }

    /// Starts on a directory that may have been used before.
    pub(crate) fn start_in(dir: TempDir) -> Self {
        Self::start_with(dir, &[], &[])
    }

    /// Starts with more flags and variables.
    pub(crate) fn start_with(dir: TempDir, flags: &[&str], variables: &[(&str, &Path)]) -> Self {
        Self::try_start(dir, flags, variables).unwrap_or_else(|log| panic!("the program does not start: {log}"))
    }

    /// Starts on a directory that may be damaged; the error is the program's log.
    pub(crate) fn try_start_in(dir: TempDir) -> Result<Self, String> {
        Self::try_start(dir, &[], &[])
    }

    fn try_start(dir: TempDir, flags: &[&str], variables: &[(&str, &Path)]) -> Result<Self, String> {
        let (child, url) = spawn(dir.path(), flags, variables)?;
        let key = std::fs::read_to_string(dir.path().join("data/admin.key")).unwrap();
        Ok(Self { child, url, key, client: Client::new(), dir })
    }

    /// Kills the program with SIGKILL, and starts it again on the same directory.
    pub(crate) fn kill_and_restart(&mut self) {
        self.end();
        let (child, url) = spawn(self.dir.path(), &[], &[]).unwrap();
        (self.child, self.url) = (child, url);
    }

    fn end(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Kills the program with SIGKILL, and gives its directory back.
    pub(crate) fn kill(mut self) -> TempDir {
        self.end();
        self.give_back()
    }

    /// Ends the program as an administrator does, and gives its directory back.
    pub(crate) fn stop(mut self) -> TempDir {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        self.give_back()
    }

    fn give_back(&mut self) -> TempDir {
        std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap())
    }

    /// What the program has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// The first admin key.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Process id of the program.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The same host for another key; none sends no key at all.
    pub(crate) fn request_as(&self, key: Option<&str>, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        match key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Value) -> Reply {
        reply(self.request_as(Some(&self.key), method, path).body(body.to_string())).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        reply(self.request_as(Some(&self.key), Method::GET, path)).await
    }

    /// Uploads bytes as `name@1.0.0`.
    pub(crate) async fn upload(&self, name: &str, bytes: Vec<u8>) -> Reply {
        let path = format!("/api/skills?name={name}&version=1.0.0");
        let request = self.request_as(Some(&self.key), Method::POST, &path);
        reply(request.header("content-type", "application/wasm").body(bytes)).await
    }

    /// Uploads a guest under its own name.
    pub(crate) async fn with(self, name: &str) -> Self {
        let uploaded = self.upload(name, guest(name)).await;
        assert_eq!(uploaded.status, 201, "{name}: {}", uploaded.body);
        self
    }

    /// Runs a skill.
    pub(crate) async fn run(&self, skill: &str, args: Value, limits: Value) -> Reply {
        let body = json!({ "skillId": skill, "args": args, "limits": limits });
        self.send(Method::POST, "/api/skills/executions", body).await
    }

    /// Runs a skill and says how that ended: its status and error code.
    pub(crate) async fn outcome(&self, skill: &str, args: Value, limits: Value) -> String {
        let reply = self.run(skill, args, limits).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        let code = reply.body["error"]["code"].as_str().unwrap_or("-");
        format!("{} {code}", reply.body["status"].as_str().unwrap())
    }

    /// Memory of the program that is in use, in MiB.
    pub(crate) fn resident_mib(&self) -> u64 {
        self.memory_mib("VmRSS:")
    }

    /// The most memory that the program ever had in use, in MiB.
    pub(crate) fn peak_mib(&self) -> u64 {
        self.memory_mib("VmHWM:")
    }

    fn memory_mib(&self, kind: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(kind)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(dir: &Path, flags: &[&str], variables: &[(&str, &Path)]) -> Result<(Child, String), String> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_skillvisor"))
        .args(["serve", "--json", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(dir.join("data"))
        .args(flags)
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::options().create(true).append(true).open(dir.join("log")).unwrap())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let Ok(ready) = serde_json::from_str::<Value>(&line) else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(std::fs::read_to_string(dir.join("log")).unwrap());
    };
    Ok((child, ready["url"].as_str().unwrap().to_owned()))
}

/// Sends a request and reads the reply; a problem must be well-formed.
pub(crate) async fn reply(request: RequestBuilder) -> Reply {
    let response = request.send().await.unwrap();
    let status = response.status();
    let kind = response.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
    let text = response.text().await.unwrap();
    let body: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
    if status.as_u16() >= 400 {
        assert_eq!(kind.as_deref(), Some("application/problem+json"), "{text}");
        assert_eq!(body["status"], status.as_u16());
        assert!(body["code"].is_string() && body["detail"].is_string(), "{text}");
    }
    Reply { status, body }
}

/// The bytes of a guest that `scripts/guests` built.
pub(crate) fn guest(name: &str) -> Vec<u8> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("guest-examples/target/guests/{name}.wasm"));
    std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}; run scripts/guests first", file.display()))
}
