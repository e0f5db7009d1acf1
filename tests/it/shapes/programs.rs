use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, guest};

/// Runs the fixture `program` in one of its ways.
async fn run(host: &Host, args: Value, limits: Value) -> Value {
    host.run("program", args, limits).await.body
}

#[tokio::test]
async fn a_program_reads_json_and_what_it_prints_is_the_output() {
    let host = Host::start();
    let skill = host.upload("command", guest("command")).await.body;
    assert_eq!(skill["functions"][0]["name"], "run", "{skill}");
    let imports = skill["imports"].as_array().unwrap();
    assert!(imports.iter().any(|name| name.as_str().unwrap().starts_with("wasi:cli/stdin@0.2")), "{imports:?}");
    let ran = host.run("command", json!({ "numbers": [1, 2, 3.5] }), json!({})).await.body;
    assert_eq!((&ran["status"], &ran["output"]["sum"]), (&json!("success"), &json!(6.5)), "{ran}");
    assert_eq!((&ran["exitCode"], &ran["function"]), (&json!(0), &json!("run")), "{ran}");
    let failed = host.run("command", json!({ "numbers": "none" }), json!({})).await.body;
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("error"), &json!("exit_nonzero")), "{failed}");
    assert_eq!((&failed["exitCode"], &failed["output"]), (&json!(1), &Value::Null), "{failed}");
    assert_eq!(failed["error"]["detail"]["exitCode"], 1, "{failed}");
    assert!(failed["stderr"].as_str().unwrap().contains("not as they should be"), "{failed}");
    let kept = host.get(&format!("/api/skills/executions/{}", failed["id"].as_str().unwrap())).await.body;
    assert_eq!((&kept["exitCode"], &kept["error"]), (&failed["exitCode"], &failed["error"]), "{kept}");
}

#[tokio::test]
async fn what_is_printed_is_json_if_it_parses_and_else_a_text() {
    let host = Host::start().with("program").await;
    for (printed, output) in [
        ("", Value::Null),
        (" \n", Value::Null),
        ("\n{\"a\": [1, 2]}\n", json!({ "a": [1, 2] })),
        ("7", json!(7)),
        ("null", Value::Null),
        ("hello \"you\"\n", json!("hello \"you\"\n")),
        ("{\"a\": 1} {\"b\": 2}", json!("{\"a\": 1} {\"b\": 2}")),
        ("{\"a\":", json!("{\"a\":")),
        ("\u{1b}[31mred\u{202e}", json!("[31mred")),
    ] {
        let ran = run(&host, json!({ "way": "print", "text": printed }), json!({})).await;
        assert_eq!((&ran["status"], &ran["output"]), (&json!("success"), &output), "{printed:?}: {ran}");
    }
    let ran = run(&host, json!({ "way": "binary" }), json!({})).await;
    assert_eq!(ran["output"], "a\u{fffd}[31mb\n", "{ran}");
    assert_eq!(ran["stdout"], ran["output"]);
}

#[tokio::test]
async fn every_exit_code_but_zero_is_an_error() {
    let host = Host::start().with("program").await;
    // A component says only whether it went well.
    for (code, kept, outcome) in [(0, 0, "success"), (1, 1, "error"), (255, 1, "error")] {
        let ran = run(&host, json!({ "way": "print", "text": "{}", "code": code }), json!({})).await;
        assert_eq!((&ran["status"], &ran["exitCode"]), (&json!(outcome), &json!(kept)), "{code}: {ran}");
        assert_eq!(ran["stdout"], "{}");
        assert_eq!(ran["output"].is_null(), code != 0, "{ran}");
    }
    let ran = run(&host, json!({ "way": "panic" }), json!({})).await;
    assert_eq!((&ran["error"]["code"], &ran["exitCode"]), (&json!("trap"), &Value::Null), "{ran}");
    assert!(ran["stderr"].as_str().unwrap().contains("as it was asked to"), "{ran}");
}

#[tokio::test]
async fn a_program_that_prints_more_than_it_may_is_ended() {
    let host = Host::start().with("program").await;
    let limits = json!({ "outputBytes": 10_000, "timeoutMs": 60_000 });
    let ran = run(&host, json!({ "way": "flood" }), limits.clone()).await;
    assert_eq!(ran["error"]["code"], "output_too_large", "{ran}");
    assert_eq!((&ran["stdoutTruncated"], &ran["exitCode"]), (&json!(true), &Value::Null), "{ran}");
    assert_eq!(ran["stdout"].as_str().unwrap().len(), 10_000);
    let half = "x".repeat(5_001);
    let ran = run(&host, json!({ "way": "twice", "text": half }), limits.clone()).await;
    assert_eq!(ran["error"]["code"], "output_too_large", "{ran}");
    // Two bytes for the quotes of a text, and one more for each quote in it.
    for (text, code) in [("x".repeat(9_998), Value::Null), ("\"".repeat(5_000), json!("output_too_large"))] {
        let ran = run(&host, json!({ "way": "print", "text": text }), limits.clone()).await;
        assert_eq!(ran["error"]["code"], code, "{}", ran["error"]);
    }
    // What is complained is no output: it is cut, and the limits of time and fuel end it.
    let ran = run(&host, json!({ "way": "flood-errors" }), json!({ "outputBytes": 100, "timeoutMs": 500 })).await;
    assert_eq!((&ran["status"], &ran["stderrTruncated"]), (&json!("timeout"), &json!(true)), "{ran}");
}

#[tokio::test]
async fn limits_hold_for_programs_as_for_others() {
    let host = Host::start().with("program").await;
    assert_eq!(host.outcome("program", json!({ "way": "spin" }), json!({ "timeoutMs": 300 })).await, "timeout timeout");
    let limits = json!({ "fuel": 20_000_000 });
    assert_eq!(host.outcome("program", json!({ "way": "spin" }), limits).await, "error out_of_fuel");
    assert_eq!(
        host.outcome("program", json!({ "way": "start" }), json!({ "memoryMb": 1 })).await,
        "error out_of_memory"
    );
}

#[tokio::test]
async fn a_program_is_started_with_the_skills_name_and_nothing_else() {
    let host = Host::start().with("program").await;
    let ran = run(&host, json!({ "way": "start" }), json!({})).await;
    assert_eq!(ran["output"], json!({ "arguments": ["program"], "variables": 0, "files": false }), "{ran}");
}

#[tokio::test]
async fn exit_codes_of_components_that_say_them_are_exact() {
    let host = Host::start();
    let text = r#"(component
        (import "wasi:cli/exit@0.2.12" (instance $exit (export "exit-with-code" (func (param "status-code" u8)))))
        (alias export $exit "exit-with-code" (func $f))
        (core func $exit (canon lower (func $f)))
        (core module $m (import "" "exit" (func $exit (param i32)))
            (func (export "run") (result i32) (call $exit (i32.const 255)) i32.const 0))
        (core instance $i (instantiate $m (with "" (instance (export "exit" (func $exit))))))
        (type $t (func (result (result))))
        (func $run (type $t) (canon lift (core func $i "run")))
        (instance $run (export "run" (func $run)))
        (export "wasi:cli/run@0.2.0" (instance $run)))"#;
    let uploaded = host.upload("exact", wat::parse_str(text).unwrap()).await;
    assert_eq!(uploaded.status, 201, "{}", uploaded.body);
    let ran = host.run("exact", json!(null), json!({})).await.body;
    assert_eq!((&ran["exitCode"], &ran["error"]["code"]), (&json!(255), &json!("exit_nonzero")), "{ran}");
}

#[tokio::test]
async fn a_program_is_known_again_after_a_restart_and_its_output_is_checked() {
    let mut host = Host::start();
    let manifest = json!({
        "name": "program", "version": "1.0.0", "handler": "wasm",
        "schema": { "input": { "required": ["way"] }, "output": { "type": "object" } },
    });
    let form = reqwest::multipart::Form::new()
        .text("manifest", manifest.to_string())
        .part("component", reqwest::multipart::Part::bytes(guest("program")));
    let uploaded = host.request_as(Some(host.key()), Method::POST, "/api/skills").multipart(form).send().await.unwrap();
    assert_eq!(uploaded.status(), 201);
    host.kill_and_restart();
    let ran = run(&host, json!({ "way": "print", "text": "{\"a\": 1}" }), json!({})).await;
    assert_eq!(ran["output"], json!({ "a": 1 }), "{ran}");
    let ran = run(&host, json!({ "way": "print", "text": "[]" }), json!({})).await;
    assert_eq!(ran["error"]["code"], "invalid_output", "{ran}");
    assert_eq!(host.run("program", json!({}), json!({})).await.summary(), "422 invalid_args");
}
