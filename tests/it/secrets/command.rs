//! `skillvisor secrets`.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;

use super::CANARY;
use crate::support::{Ended, Host, command, run};

/// Runs a command with something on stdin.
fn piped(data_dir: &Path, arguments: &[&str], input: &str) -> Ended {
    let mut command = command(data_dir, arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[tokio::test]
async fn secrets_are_set_listed_rotated_and_removed_without_being_shown() {
    let host = Host::start();
    let data = host.dir.path().join("data");
    let set =
        ["secrets", "set", "TOKEN", "--for", "https://api.example", "--header", "Authorization", "--prefix", "Bearer "];
    let stored = piped(&data, &set, &format!("{CANARY}\n")).expect(0);
    assert!(stored.stderr.contains("stored TOKEN: goes to https://api.example in authorization"), "{}", stored.stderr);
    let file = host.dir.path().join("value");
    std::fs::write(&file, CANARY).unwrap();
    let rotate = ["secrets", "rotate", "TOKEN", "--json", "--value-file", file.to_str().unwrap()];
    let rotated = run(&mut command(&data, &rotate)).expect(0);
    assert_eq!(rotated.json()["version"], 2);
    let listed = run(&mut command(&data, &["secrets", "list"])).expect(0);
    assert!(listed.stdout.contains("TOKEN") && listed.stdout.contains("https://api.example"), "{}", listed.stdout);
    let json = run(&mut command(&data, &["secrets", "list", "--json", "--owner", "team"])).expect(0).json();
    assert_eq!((&json["secrets"], &json["total"]), (&json!([]), &json!(0)));
    for ended in [&stored, &rotated, &listed] {
        assert!(![&ended.stdout, &ended.stderr].iter().any(|text| text.contains(CANARY)));
    }
    run(&mut command(&data, &["secrets", "rm", "TOKEN"])).expect(0);
    run(&mut command(&data, &["secrets", "rm", "TOKEN"])).expect(4);
    let short = piped(&data, &set, "short\n").expect(2);
    assert!(short.stderr.contains("8 to 2048") && !short.stderr.contains("short\n"), "{}", short.stderr);
}
