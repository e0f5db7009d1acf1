use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::support::{Ended, Host, command, guest, run, until};

/// The skill folder that comes with the repository.
const HELLO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/skills/hello");

fn data(host: &Host) -> PathBuf {
    host.dir.path().join("data")
}

/// Runs a command on the data directory of a server.
fn on(host: &Host, arguments: &[&str]) -> Ended {
    run(&mut command(&data(host), arguments))
}

/// The same with a key of its own.
fn with_key(host: &Host, key: &str, arguments: &[&str]) -> Ended {
    run(command(&data(host), arguments).env("SKILLVISOR_KEY", key))
}

/// Writes a guest into a file, to be pushed.
fn file(dir: &Path, name: &str) -> String {
    let path = dir.join(format!("{name}.wasm"));
    std::fs::write(&path, guest(name)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Pushes a guest under its own name.
fn push(data_dir: &Path, name: &str) {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["push", &file(dir.path(), name), "--name", name, "--version", "1.0.0"];
    run(&mut command(data_dir, &arguments)).expect(0);
}

/// The member names of a JSON object, in their order.
fn members(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_skill_goes_through_its_life_by_command() {
    let host = Host::start();
    assert!(on(&host, &["list"]).expect(0).stdout.is_empty());
    let pushed = on(&host, &["push", HELLO]).expect(0);
    assert!(pushed.stdout.starts_with("pushed hello@1.0.0 (ready, "), "{}", pushed.stdout);
    assert!(on(&host, &["push", HELLO]).expect(0).stdout.starts_with("unchanged hello@1.0.0"));
    let list = on(&host, &["list"]).expect(0).stdout;
    assert!(list.lines().nth(1).unwrap().starts_with("hello@1.0.0  ready"), "{list}");
    assert!(on(&host, &["show", "hello"]).expect(0).stdout.contains("run it: skillvisor exec"));

    let ran = on(&host, &["exec", "hello@^1", "--args", r#"{"name":"Ada"}"#, "--session", "s-1"]).expect(0);
    assert_eq!(ran.stdout, "{\"greeting\":\"Hello, Ada!\"}\n");
    assert!(ran.stderr.starts_with("success: hello@1.0.0 in "), "{}", ran.stderr);
    let logs = on(&host, &["logs", "--session", "s-1", "--json"]).expect(0).json();
    let id = logs["executions"][0]["id"].as_str().unwrap();
    let page = on(&host, &["logs", id]).expect(0).stdout;
    assert!(page.contains("session   s-1\n") && page.contains("\"Hello, Ada!\""), "{page}");

    assert_eq!(on(&host, &["disable", "hello"]).expect(0).stderr, "disabled hello@1.0.0\n");
    assert!(on(&host, &["exec", "hello"]).expect(5).stderr.contains("code: skill_disabled"));
    on(&host, &["enable", "hello"]).expect(0);
    on(&host, &["exec", "hello"]).expect(0);
    assert_eq!(on(&host, &["delete", "hello@1.0.0"]).expect(0).stderr, "deleted hello@1.0.0\n");
    on(&host, &["exec", "hello"]).expect(4);
    assert!(on(&host, &["logs", id]).expect(0).stdout.contains("hello@1.0.0"), "the record outlives the skill");
}

#[test]
fn arguments_come_from_the_command_a_file_or_stdin_as_they_were_written() {
    let host = Host::start();
    push(&data(&host), "echo");
    let text = r#"{"n":123456789012345678901234567890,"t":"ä"}"#;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("args.json");
    std::fs::write(&path, format!("{text}\n")).unwrap();
    for word in [text, &format!("@{}", path.display())] {
        assert_eq!(on(&host, &["exec", "echo", "--args", word]).expect(0).stdout.trim_end(), text, "{word}");
    }
    let mut piped = command(&data(&host), &["exec", "echo", "--args", "-"]);
    let mut child = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), text);
}

#[test]
fn every_exit_code_means_what_the_help_says() {
    let host = Host::start();
    for name in ["hello", "trap", "spin"] {
        push(&data(&host), name);
    }
    let dir = tempfile::tempdir().unwrap();
    let broken = dir.path().join("broken.wasm");
    std::fs::write(&broken, b"\0asm\x0d\0\x01\0\x01").unwrap();
    let (broken, echo) = (broken.to_str().unwrap(), file(dir.path(), "echo"));
    for (arguments, code, says) in [
        (&["exec", "hello"] as &[&str], 0, "success: hello@1.0.0"),
        (&["exec", "trap", "--args", "{\"kind\":\"divide\"}"], 1, "code: trap"),
        (&["exec", "spin", "--timeout", "200"], 1, "timeout: spin@1.0.0"),
        (&["exec", "hello", "--args", "{"], 2, "--args"),
        (&["exec", "hello", "--args", "@/nonexistent"], 2, "cannot read /nonexistent"),
        (&["exec"], 2, "REF"),
        (&["exec", "hello", "--nope"], 2, "--nope"),
        (&["push", "/nonexistent.wasm"], 2, "cannot read /nonexistent.wasm"),
        (&["exec", "nothing"], 4, "code: not_found"),
        (&["show", "nothing"], 4, "code: not_found"),
        (&["logs", "01980000-0000-7000-8000-000000000000"], 4, "code: not_found"),
        (&["keys", "show", "key_00000000000000000000000000000000"], 4, "code: not_found"),
        (&["push", &echo, "--name", "hello", "--version", "1.0.0"], 5, "code: conflict"),
        (&["push", broken, "--name", "broken", "--version", "1.0.0"], 6, "code: invalid_component"),
        (&["push", &echo, "--name", "../x", "--version", "1.0.0"], 6, "code: invalid_manifest"),
        (&["serve", "--listen", "127.0.0.1:0"], 9, "is locked: process "),
    ] {
        let ended = on(&host, arguments);
        assert_eq!(ended.code, code, "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(says), "{arguments:?}: {}", ended.stderr);
    }
    assert!(with_key(&host, "sk_wrong", &["list"]).expect(3).stderr.contains("code: unauthenticated"));
    let unreachable = ["list", "--url", "http://127.0.0.1:1"];
    assert!(with_key(&host, "sk_any", &unreachable).expect(8).stderr.contains("cannot reach http://127.0.0.1:1"));
    assert!(on(&host, &["list", "--url", "http://127.0.0.1:1"]).expect(3).stderr.contains("no key for"));
    let misspelt = run(command(&data(&host), &["list"]).env("SKILLVISOR_LISTNE", "x")).expect(2);
    assert!(misspelt.stderr.contains("SKILLVISOR_LISTEN"), "{}", misspelt.stderr);
}

#[test]
fn arguments_that_do_not_fit_the_schema_are_told_with_their_places() {
    let host = Host::start();
    on(&host, &["push", HELLO]).expect(0);
    let wrong = ["exec", "hello", "--args", r#"{"name":7,"nmae":"x"}"#];
    let ended = on(&host, &wrong).expect(6);
    assert!(ended.stderr.contains("at /name: ") && ended.stderr.contains("code: invalid_args"), "{}", ended.stderr);
    let problem = on(&host, &[&wrong[..], &["--json"]].concat()).expect(6).json();
    assert_eq!((&problem["status"], &problem["code"]), (&json!(422), &json!("invalid_args")));
}

#[tokio::test]
async fn with_json_a_command_prints_what_the_api_says() {
    let host = Host::start();
    let pushed = on(&host, &["push", HELLO, "--json"]).expect(0).json();
    assert_eq!(pushed, host.get("/api/skills/hello").await.body);
    assert_eq!(on(&host, &["show", "hello", "--json"]).expect(0).json(), pushed);
    let list = on(&host, &["list", "--json"]).expect(0).json();
    assert_eq!(list, json!({ "skills": [pushed], "nextCursor": null, "total": 1 }));

    let ran = on(&host, &["exec", "hello", "--json"]).expect(0).json();
    let path = format!("/api/skills/executions/{}", ran["id"].as_str().unwrap());
    assert_eq!(ran, host.get(&path).await.body);
    assert_eq!(on(&host, &["logs", ran["id"].as_str().unwrap(), "--json"]).expect(0).json(), ran);
    let logs = on(&host, &["logs", "--json"]).expect(0).json();
    assert_eq!(members(&logs), ["executions", "nextCursor", "total"]);
    assert_eq!(
        members(&ran),
        [
            "id",
            "owner",
            "skillId",
            "function",
            "digest",
            "status",
            "output",
            "stdout",
            "stderr",
            "stdoutTruncated",
            "stderrTruncated",
            "log",
            "logTruncated",
            "exitCode",
            "killed",
            "error",
            "denials",
            "attempts",
            "durationMs",
            "usage",
            "parentId",
            "sessionId",
            "door",
            "keyId",
            "createdAt",
            "startedAt",
            "finishedAt",
        ]
    );
    let missing = on(&host, &["show", "nothing", "--json"]).expect(4);
    assert_eq!(missing.json()["code"], "not_found");
    assert_eq!(on(&host, &["disable", "hello", "--json"]).expect(0).json()["enabled"], false);
    assert_eq!(on(&host, &["delete", "hello@1.0.0", "--json"]).expect(0).json(), json!({ "deleted": "hello@1.0.0" }));
    assert_eq!(on(&host, &["list", "--json"]).expect(0).json()["total"], 0);
}

#[test]
fn keys_are_made_used_and_ended_by_command() {
    let host = Host::start();
    on(&host, &["push", HELLO]).expect(0);
    let create = ["keys", "create", "ci", "--owner", "admin", "--scope", "skills:read", "--expires", "1d"];
    let made = on(&host, &create).expect(0);
    let secret = made.stdout.trim();
    assert!(secret.starts_with("sk_") && !made.stderr.contains(secret), "{}", made.stderr);
    with_key(&host, secret, &["show", "hello"]).expect(0);
    assert!(with_key(&host, secret, &["exec", "hello"]).expect(3).stderr.contains("code: insufficient_scope"));
    assert!(with_key(&host, secret, &["keys", "list"]).expect(3).stderr.contains("code: insufficient_scope"));

    let list = on(&host, &["keys", "list", "--json"]).expect(0).json();
    assert_eq!((&list["total"], &list["keys"][1]["name"]), (&json!(2), &json!("ci")));
    let id = list["keys"][1]["id"].as_str().unwrap();
    let shown = on(&host, &["keys", "show", id, "--json"]).expect(0).json();
    assert_eq!(shown, list["keys"][1]);
    assert_eq!(
        members(&shown),
        ["id", "owner", "name", "scopes", "skills", "ceilings", "createdAt", "expiresAt", "revokedAt", "graceUntil"]
    );
    let rotated = on(&host, &["keys", "rotate", id, "--grace", "1h"]).expect(0);
    for secret in [secret, rotated.stdout.trim()] {
        with_key(&host, secret, &["list"]).expect(0);
    }
    assert!(on(&host, &["keys", "rotate", id, "--grace", "soon"]).expect(2).stderr.contains("--grace"));
    assert_eq!(on(&host, &["keys", "revoke", id]).expect(0).stderr, format!("revoked {id}\n"));
    for secret in [secret, rotated.stdout.trim()] {
        with_key(&host, secret, &["list"]).expect(3);
    }
    assert!(on(&host, &["keys", "list"]).expect(0).stdout.contains("revoked"));
    on(&host, &["keys", "rotate", id]).expect(5);
}

#[test]
fn a_key_comes_from_a_file_and_never_from_an_argument() {
    let host = Host::start();
    let dir = tempfile::tempdir().unwrap();
    let made = on(&host, &["keys", "create", "ci"]).expect(0);
    let path = dir.path().join("key");
    std::fs::write(&path, &made.stdout).unwrap();
    let path = path.to_str().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    run(&mut command(elsewhere.path(), &["list", "--url", &host.url, "--key-file", path])).expect(0);
    run(&mut command(elsewhere.path(), &["list", "--url", &host.url, "--key", made.stdout.trim()])).expect(2);
}

/// Where the holder of a data directory is, as it says there.
fn holder(data_dir: &Path) -> Option<Value> {
    serde_json::from_str(&std::fs::read_to_string(data_dir.join("server.json")).ok()?).ok()
}

struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn in_background(data_dir: &Path, arguments: &[&str]) -> Background {
    let mut command = command(data_dir, arguments);
    Background(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

#[tokio::test]
async fn where_no_server_runs_a_command_is_its_own_and_others_join_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    run(&mut command(&data, &["push", HELLO])).expect(8);
    assert!(!data.exists(), "a mistyped directory is not made");
    std::fs::create_dir(&data).unwrap();
    run(&mut command(&data, &["push", HELLO])).expect(0);
    push(&data, "slow-host-call");
    assert_eq!(holder(&data), None, "who has ended says so");

    let long = r#"{"ms":60000}"#;
    let mut first = in_background(&data, &["exec", "slow-host-call", "--args", long, "--timeout", "60000"]);
    let found = until(async || holder(&data)).await;
    assert_eq!(found["pid"], first.0.id());
    until(async || {
        let logs = run(&mut command(&data, &["logs", "--status", "running", "--json"])).expect(0).json();
        (logs["total"] == 1).then_some(())
    })
    .await;
    let joined = run(&mut command(&data, &["exec", "hello"])).expect(0);
    assert_eq!(joined.stdout, "{\"greeting\":\"Hello, world!\"}\n");
    run(&mut command(&data, &["serve", "--listen", "127.0.0.1:0"])).expect(9);
    assert!(first.0.try_wait().unwrap().is_none(), "it was joined while it ran");

    let pid = rustix::process::Pid::from_raw(first.0.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(first.0.wait().unwrap().code(), Some(130));
    assert_eq!(holder(&data), None);
    let logs = run(&mut command(&data, &["logs", "--skill", "slow-host-call", "--json"])).expect(0).json();
    let last = &logs["executions"][0];
    assert_eq!((&last["status"], &last["error"]["code"]), (&json!("cancelled"), &json!("cancelled")));
}

#[tokio::test]
async fn a_command_that_is_interrupted_cancels_its_run() {
    let host = Host::start().with("slow-host-call").await;
    let mut child = in_background(&data(&host), &["exec", "slow-host-call", "--args", r#"{"ms":60000}"#]);
    let status = async |wanted: &str| {
        let list = host.get("/api/skills/executions").await;
        (list.body["executions"][0]["status"] == wanted).then_some(())
    };
    until(async || status("running").await).await;
    let pid = rustix::process::Pid::from_raw(child.0.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
    until(async || status("cancelled").await).await;
}

#[test]
fn doctor_says_what_is_wrong_and_how_to_mend_it() {
    use std::os::unix::fs::PermissionsExt;
    let host = Host::start();
    let report = on(&host, &["doctor", "--json"]).expect(0).json();
    let limits = report["limits"].as_array().unwrap();
    assert!(limits.len() >= 19 && limits.iter().all(|one| one["holds"] == true), "{limits:#?}");
    let check = |name: &str| {
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name}: {report}")).clone()
    };
    assert_eq!(check("settings")["verdict"], "ok");
    assert!(check("server")["found"].as_str().unwrap().contains(&host.url), "{report}");
    let text = on(&host, &["doctor", "--settings"]).expect(0).stdout;
    assert!(text.contains("retention.results") && text.contains("environment variable SKILLVISOR_DATA_DIR"), "{text}");

    let data = data(&host);
    let dir = host.stop();
    assert!(dir.path().exists());
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o777)).unwrap();
    let open = run(&mut command(&data, &["doctor"])).expect(1).stdout;
    assert!(open.contains("FAIL") && open.contains("chmod 700"), "{open}");
    let refused = run(&mut command(&data, &["list"])).expect(2);
    assert!(refused.stderr.contains("not safe to use"), "{}", refused.stderr);
    run(&mut command(&data, &["doctor", "--config", "/nonexistent.toml"])).expect(1);
}

#[test]
fn completions_are_scripts_for_each_shell() {
    let nowhere = Path::new("/nonexistent");
    for (shell, part) in
        [("bash", "complete -F _skillvisor"), ("zsh", "#compdef skillvisor"), ("fish", "complete -c skillvisor")]
    {
        let script = run(&mut command(nowhere, &["completions", shell])).expect(0).stdout;
        assert!(script.contains(part) && script.contains("push"), "{shell}");
    }
    run(&mut command(nowhere, &["completions", "sh"])).expect(2);
}

#[test]
fn what_is_written_in_the_wrong_place_or_unit_is_told_how_to_be_written() {
    let nowhere = Path::new("/nonexistent");
    let mut misplaced = command(nowhere, &["exec", "hello", "{\"a\":1}"]);
    let misplaced = run(misplaced.env("SKILLVISOR_URL", "http://127.0.0.1:9").env("SKILLVISOR_KEY", "sk_any"));
    assert!(misplaced.expect(2).stderr.contains("skillvisor exec hello --args '{\"a\":1}'"));
    let unit = run(&mut command(nowhere, &["exec", "hello", "--timeout", "5s"])).expect(2);
    assert!(unit.stderr.contains("a number of milliseconds, such as 5000"), "{}", unit.stderr);
}

#[test]
fn help_and_version_ask_for_nothing() {
    let nowhere = Path::new("/nonexistent");
    let help = run(&mut command(nowhere, &["--help"])).expect(0).stdout;
    assert!(help.contains("Exit codes:") && help.contains("9   data directory locked"), "{help}");
    assert!(run(&mut command(nowhere, &["--version"])).expect(0).stdout.starts_with("skillvisor 0."));
    run(&mut command(nowhere, &[])).expect(2);
}
