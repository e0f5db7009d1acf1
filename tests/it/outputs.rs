use serde_json::json;

use crate::support::{Host, reply};

/// A skill that always answers `text`.
fn answering(text: &str) -> Vec<u8> {
    let escaped: String = text.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    let length = u32::try_from(text.len()).unwrap().to_le_bytes().map(|byte| format!("\\{byte:02x}")).concat();
    wat::parse_str(format!(
        r#"(component
          (import "skillvisor:skill/types@0.1.0" (instance $types
            (type $record (record (field "code" string) (field "message" string)))
            (export "skill-error" (type (eq $record)))))
          (alias export $types "skill-error" (type $skill-error))
          (type $run (func (param "args" string) (result (result string (error $skill-error)))))
          (core module $guest
            (memory (export "memory") 1)
            ;; At 0: ok, and where the text lies. At 32: the text.
            (data (i32.const 0) "\00\00\00\00" "\20\00\00\00" "{length}")
            (data (i32.const 32) "{escaped}")
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
            (func (export "run") (param i32 i32) (result i32) i32.const 0))
          (core instance $guest (instantiate $guest))
          (func (export "run") (type $run) (canon lift
            (core func $guest "run")
            (memory (core memory $guest "memory"))
            (realloc (core func $guest "realloc")))))"#
    ))
    .unwrap()
}

#[tokio::test]
async fn an_output_that_can_be_read_in_two_ways_does_not_pass_its_schema() {
    let host = Host::start();
    let number = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    for (name, text, outcome) in [
        ("once", r#"{"n":1}"#, "success -"),
        ("twice", r#"{"n":"x","n":1}"#, "error invalid_output"),
        ("twice-below", r#"{"n":1,"a":[{"b":1,"\u0062":2}]}"#, "error invalid_output"),
        ("infinite", r#"{"n":1,"a":1e999}"#, "error invalid_output"),
        ("other", r#"{"n":"x"}"#, "error invalid_output"),
    ] {
        let manifest = json!({
            "name": name, "version": "1.0.0", "handler": "wasm", "schema": { "input": {}, "output": number },
        });
        let form = reqwest::multipart::Form::new()
            .text("manifest", manifest.to_string())
            .part("component", reqwest::multipart::Part::bytes(answering(text)));
        let upload = host.request_as(Some(host.key()), reqwest::Method::POST, "/api/skills").multipart(form);
        let uploaded = reply(upload).await;
        assert_eq!(uploaded.status, 201, "{}", uploaded.body);
        assert_eq!(host.outcome(name, json!({}), json!({})).await, outcome, "{name}");
    }
}

#[tokio::test]
async fn a_guests_message_cannot_turn_the_direction_of_writing_or_end_a_line() {
    let host = Host::start().with("refuse").await;
    let args = json!({ "code": "a\u{202e}b", "message": "c\u{2028}d\u{2066}e\u{1b}f" });
    let run = host.run("refuse", args, json!({})).await;
    let error = &run.body["error"];
    assert_eq!((&error["message"], &error["detail"]["code"]), (&json!("cdef"), &json!("ab")), "{}", run.body);
}
