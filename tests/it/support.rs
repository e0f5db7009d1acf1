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
    pub(crate) url: String,
    /// What the program said when it was ready.
    pub(crate) ready: Value,
    key: String,
    pub(crate) client: Client,
    arguments: Vec<String>,
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
        Self::start_with(&[])
    }

    /// Starts on a new directory with more arguments of `serve`.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), arguments)
    }

    /// Starts on a directory that may have something in it.
    pub(crate) fn start_in(dir: TempDir, arguments: &[&str]) -> Self {
        Self::start_under(dir, arguments, &[])
    }

    /// Starts with more arguments of `serve` and with more variables.
    pub(crate) fn start_under(dir: TempDir, arguments: &[&str], variables: &[(&str, &Path)]) -> Self {
        let started = Self::try_start(dir, arguments, variables);
        started.unwrap_or_else(|log| panic!("the program does not start: {log}"))
    }

    /// Starts on a directory that may be damaged; the error is the program's log.
    pub(crate) fn try_start_in(dir: TempDir) -> Result<Self, String> {
        Self::try_start(dir, &[], &[])
    }

    fn try_start(dir: TempDir, arguments: &[&str], variables: &[(&str, &Path)]) -> Result<Self, String> {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let (child, ready) = spawn(dir.path(), &arguments, variables)?;
        let url = ready["url"].as_str().unwrap().to_owned();
        let key = std::fs::read_to_string(dir.path().join("data/admin.key")).unwrap();
        Ok(Self { child, url, ready, key, client: Client::new(), arguments, dir })
    }

    /// Kills the program with SIGKILL, and starts it again on the same directory.
    pub(crate) fn kill_and_restart(&mut self) {
        self.end();
        let (child, ready) = spawn(self.dir.path(), &self.arguments, &[]).unwrap();
        self.url = ready["url"].as_str().unwrap().to_owned();
        (self.child, self.ready) = (child, ready);
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
        assert!(matches!(uploaded.status.as_u16(), 201 | 202), "{name}: {}", uploaded.body);
        // A machine with much else to do takes longer to compile it than an upload waits.
        until(async || {
            let state = self.get(&format!("/api/skills/{name}@1.0.0")).await.body["state"].clone();
            assert!(state == "ready" || state == "compiling", "{name}: {state}");
            (state == "ready").then_some(())
        })
        .await;
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

fn spawn(dir: &Path, arguments: &[String], variables: &[(&str, &Path)]) -> Result<(Child, Value), String> {
    let listen: &[&str] =
        if arguments.iter().any(|argument| argument == "--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
    let mut child = Command::new(env!("CARGO_BIN_EXE_skillvisor"))
        .args(["serve", "--json", "--data-dir"])
        .arg(dir.join("data"))
        .args(listen)
        // Its skills would be compiled in each of the tests; those that are about it say so.
        .env("SKILLVISOR_CATALOGUE_DISABLED", "all")
        .args(arguments)
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
    Ok((child, ready))
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

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// What the command printed, as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {} {}", self.stdout, self.stderr))
    }

    /// The same, after a look at the exit code.
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }
}

/// A command line on a data directory, with nothing else around it.
pub(crate) fn command(data_dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skillvisor"));
    command.env_clear().env("HOME", "/nonexistent").env("SKILLVISOR_DATA_DIR", data_dir);
    command.env("SKILLVISOR_CATALOGUE_DISABLED", "all").args(arguments);
    command.stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Waits until `ask` gives something, for at most two minutes.
pub(crate) async fn until<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let late = std::time::Instant::now() + std::time::Duration::from_secs(120);
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(std::time::Instant::now() < late, "it did not happen in time");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
