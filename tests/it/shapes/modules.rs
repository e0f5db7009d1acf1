use serde_json::{Value, json};

use crate::support::{Host, guest};

/// A program in WebAssembly text: `imports` of WASI, and what `_start` does.
fn module(imports: &str, start: &str) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(module {imports} (memory (export "memory") 1) (func (export "_start") {start})
           (data (i32.const 0) "\10\00\00\00\05\00\00\00") (data (i32.const 16) "\"ab\"\n"))"#
    ))
    .unwrap()
}

const EXIT: &str = r#"(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))"#;
const WRITE: &str =
    r#"(import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))"#;

/// Prints the line of the module's data.
const PRINT: &str = "(drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 32)))";

async fn upload(host: &Host, name: &str, bytes: Vec<u8>) {
    let uploaded = host.upload(name, bytes).await;
    assert_eq!(uploaded.status, 201, "{name}: {}", uploaded.body);
}

#[tokio::test]
async fn a_core_module_is_a_program_whose_exit_codes_are_exact() {
    let mut host = Host::start();
    let skill = host.upload("module", guest("module")).await.body;
    let imports = skill["imports"].as_array().unwrap();
    assert!(imports.contains(&json!("wasi_snapshot_preview1.fd_write")), "{imports:?}");
    host.kill_and_restart();
    let ran = host.run("module", json!({ "text": "a\nb\nc" }), json!({})).await.body;
    assert_eq!((&ran["output"], &ran["exitCode"]), (&json!(3), &json!(0)), "{ran}");
    for (args, code) in [(json!({}), 66), (json!({ "text": 1 }), 65)] {
        let ran = host.run("module", args, json!({})).await.body;
        assert_eq!((&ran["error"]["code"], &ran["exitCode"]), (&json!("exit_nonzero"), &json!(code)), "{ran}");
        assert!(ran["stderr"].as_str().unwrap().starts_with("module: "), "{ran}");
    }
}

#[tokio::test]
async fn exit_codes_of_modules_come_through_whatever_they_are() {
    let host = Host::start();
    for (at, code) in [0, 1, 125, 126, 255, -1, i32::MIN].into_iter().enumerate() {
        let name = format!("exit-{at}");
        upload(&host, &name, module(EXIT, &format!("(call $exit (i32.const {code}))"))).await;
        let ran = host.run(&name, json!(null), json!({})).await.body;
        let outcome = if code == 0 { Value::Null } else { json!("exit_nonzero") };
        assert_eq!((&ran["exitCode"], &ran["error"]["code"]), (&json!(code), &outcome), "{ran}");
        assert_eq!(ran["output"], Value::Null);
    }
}

#[tokio::test]
async fn a_module_that_does_harm_meets_every_limit() {
    let host = Host::start();
    let spin = "(loop (br 0))";
    let flood = format!("(loop {PRINT} (br 0))");
    let eat = "(loop (drop (memory.grow (i32.const 16))) (br 0))";
    let hungry = "(if (i32.eq (memory.grow (i32.const 8000)) (i32.const -1)) (then unreachable))";
    for (name, bytes, outcome) in [
        ("print", module(WRITE, PRINT), "success -"),
        ("silent", module("", "nop"), "success -"),
        ("trap", module("", "unreachable"), "error trap"),
        ("spin", module("", spin), "timeout timeout"),
        ("flood", module(WRITE, &flood), "error output_too_large"),
        ("eat", module("", eat), "timeout timeout"),
        ("hungry", module("", hungry), "error out_of_memory"),
        ("deep", module("", "(call 0)"), "error trap"),
    ] {
        upload(&host, name, bytes).await;
        let limits = json!({ "timeoutMs": 2000, "memoryMb": 64, "outputBytes": 1000 });
        assert_eq!(host.outcome(name, json!(null), limits).await, outcome, "{name}");
    }
    let ran = host.run("print", json!(null), json!({})).await.body;
    assert_eq!((&ran["output"], &ran["stdout"]), (&json!("ab"), &json!("\"ab\"\n")), "{ran}");
    let fuel = json!({ "fuel": 20_000_000 });
    assert_eq!(host.outcome("spin", json!(null), fuel).await, "error out_of_fuel");
}

#[tokio::test]
async fn a_module_starts_inside_the_limits() {
    let host = Host::start();
    let text =
        r#"(module (memory (export "memory") 1) (func $loop (loop (br 0))) (start $loop) (func (export "_start")))"#;
    upload(&host, "start", wat::parse_str(text).unwrap()).await;
    assert_eq!(host.outcome("start", json!(null), json!({ "timeoutMs": 300 })).await, "timeout timeout");
}

#[tokio::test]
async fn a_module_that_is_no_program_for_this_host_is_refused_with_the_reason() {
    let host = Host::start();
    let foreign = r#"(import "env" "foo" (func)) (import "wasi_unstable" "fd_write" (func))"#;
    let other = r#"(import "wasi_snapshot_preview1" "fd_write" (func (param i64)))"#;
    for (bytes, reason) in [
        (module(foreign, "nop"), "env.foo, wasi_unstable.fd_write"),
        (module(other, "nop"), "fd_write"),
        (wat::parse_str("(module)").unwrap(), "`_start`"),
        (b"\0asm\x01\0\0\0\x01".to_vec(), "cannot be read"),
        (wat::parse_str(r#"(module (func (export "_start")) (memory (export "memory") i64 1))"#).unwrap(), "memory64"),
    ] {
        let refused = host.upload("bad", bytes).await;
        assert_eq!(refused.summary(), "422 invalid_component", "{reason}: {}", refused.body);
        assert!(refused.body["detail"].as_str().unwrap().contains(reason), "{reason}: {}", refused.body);
    }
}
