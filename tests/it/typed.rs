use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, Reply, guest, reply};

/// Runs a function of the guest `typed`.
async fn call(host: &Host, function: &str, args: &Value) -> Value {
    let ran = host.run(&format!("typed#{function}"), args.clone(), json!({})).await;
    assert_eq!(ran.status, 200, "{function}: {}", ran.body);
    ran.body
}

/// The function of this name, as the skill lists it.
fn listed<'a>(skill: &'a Value, name: &str) -> &'a Value {
    let functions = skill["functions"].as_array().unwrap();
    functions.iter().find(|function| function["name"] == name).unwrap_or_else(|| panic!("no `{name}` in {skill}"))
}

/// Uploads a component as `name@1.0.0` with a manifest that has this schema.
async fn upload_with_schema(host: &Host, name: &str, component: Vec<u8>, schema: Value) -> Reply {
    let manifest = json!({ "name": name, "version": "1.0.0", "handler": "wasm", "schema": schema });
    let form = reqwest::multipart::Form::new()
        .text("manifest", manifest.to_string())
        .part("component", reqwest::multipart::Part::bytes(component));
    reply(host.request_as(Some(host.key()), Method::POST, "/api/skills").multipart(form)).await
}

/// A component whose one function `twice` doubles a number.
fn twice() -> Vec<u8> {
    wat::parse_str(
        r#"(component
          (core module $m (func (export "twice") (param i32) (result i32) (i32.add (local.get 0) (local.get 0))))
          (core instance $i (instantiate $m))
          (func (export "twice") (param "n" s32) (result s32) (canon lift (core func $i "twice"))))"#,
    )
    .unwrap()
}

#[tokio::test]
async fn every_function_of_a_component_is_listed_with_the_schemas_of_its_types() {
    let host = Host::start();
    let skill = host.upload("typed", guest("typed")).await.body;
    let all: Vec<_> = skill["functions"].as_array().unwrap().iter().map(|function| &function["name"]).collect();
    for name in ["greet", "wide", "draw", "divide", "numbers-add", "notes-add", "account-new", "account-balance"] {
        assert!(all.contains(&&json!(name)), "{name}: {all:?}");
    }
    assert_eq!(skill["schema"], json!({}), "several functions have no schema in common");
    let wide = json!({
        "type": "object",
        "properties": {
            "signed": { "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX },
            "unsigned": { "type": "integer", "minimum": 0, "maximum": u64::MAX },
        },
        "required": ["signed", "unsigned"],
        "additionalProperties": false,
    });
    assert_eq!(listed(&skill, "wide")["schema"]["input"], wide);
    let greet = &listed(&skill, "greet")["schema"];
    assert_eq!(greet["input"]["required"], json!([]), "an option may be absent");
    assert_eq!(greet["output"], json!({ "type": "string" }));
    assert_eq!(listed(&skill, "divide")["schema"]["output"]["type"], "integer", "what is ok is the output");
    assert_eq!(listed(&skill, "forget")["schema"]["output"], json!({ "type": "null" }));
    assert_eq!(listed(&skill, "bytes")["schema"]["output"]["contentEncoding"], "base64");
}

#[tokio::test]
async fn values_of_every_type_come_back_as_they_were() {
    let host = Host::start().with("typed").await;
    for (function, args, output) in [
        ("wide", json!({ "signed": i64::MIN, "unsigned": u64::MAX }), json!([i64::MIN, u64::MAX])),
        ("floats", json!({ "single": "NaN", "double": "-Infinity" }), json!(["NaN", "-Infinity"])),
        ("floats", json!({ "single": 0.1, "double": -0.0 }), json!([0.1, -0.0])),
        (
            "texts",
            json!({ "letter": "é", "text": "a\u{0}\u{1f600}\"", "yes": true }),
            json!(["é", "a\u{0}\u{1f600}\"", true]),
        ),
        ("bytes", json!({ "data": "AP8Q" }), json!("AP8Q")),
        ("bytes", json!({ "data": "" }), json!("")),
        ("draw", json!({ "value": { "tag": "nothing" } }), json!({ "tag": "nothing" })),
        ("draw", json!({ "value": { "val": 1.5, "tag": "circle" } }), json!({ "tag": "circle", "val": 1.5 })),
        ("points", json!({ "values": [{ "y": -2, "x": 1 }] }), json!([{ "x": 1, "y": -2, "label": null }])),
        ("choice", json!({ "size": "large", "access": ["run", "read"] }), json!(["large", ["read", "run"]])),
        ("maybe", json!({}), json!(null)),
        ("maybe", json!({ "value": { "some": null } }), json!({ "some": null })),
        ("maybe", json!({ "value": { "some": 7 } }), json!({ "some": 7 })),
        ("outcomes", json!({ "values": [{ "ok": 1 }, { "err": "no" }] }), json!([{ "ok": 1 }, { "err": "no" }])),
        (
            "small",
            json!({ "a": -128, "b": 255, "c": -32768, "d": 65535, "e": i32::MIN, "f": u32::MAX }),
            json!([-128, 255, -32768, 65535, i32::MIN, u32::MAX]),
        ),
        ("small", json!({ "a": 1.0, "b": 0, "c": 0, "d": 0, "e": 0, "f": 0 }), json!([1, 0, 0, 0, 0, 0])),
        ("forget", json!({ "value": "x" }), json!(null)),
        ("greet", json!({}), json!("Hello, world!")),
        ("greet", json!({ "name": null }), json!("Hello, world!")),
        ("divide", json!({ "dividend": 7, "divisor": 2 }), json!(3)),
        ("numbers-add", json!({ "a": 1, "b": 2 }), json!(3)),
        ("notes-add", json!({ "text": "four" }), json!(4)),
    ] {
        let ran = call(&host, function, &args).await;
        assert_eq!((&ran["status"], &ran["output"]), (&json!("success"), &output), "{function} {args}: {ran}");
        assert_eq!(ran["function"], function);
    }
}

#[tokio::test]
async fn arguments_of_the_wrong_shape_are_refused_where_they_are_wrong() {
    let host = Host::start().with("typed").await;
    for (function, args, pointer) in [
        ("wide", json!([]), ""),
        ("wide", json!({ "signed": 1 }), ""),
        ("wide", json!({ "signed": 1, "unsigned": -1 }), "/unsigned"),
        ("wide", json!({ "signed": 9.3e18, "unsigned": 0 }), "/signed"),
        ("wide", json!({ "signed": "1", "unsigned": 0 }), "/signed"),
        ("texts", json!({ "letter": "ab", "text": "", "yes": true }), "/letter"),
        ("points", json!({ "values": [{ "x": 1, "y": 2 }, { "x": 1, "y": 2.5 }] }), "/values/1/y"),
        ("points", json!({ "values": [{ "x": 1, "y": 2, "z": 3 }] }), "/values/0"),
        ("choice", json!({ "size": "huge", "access": [] }), "/size"),
        ("choice", json!({ "size": "large", "access": ["run", "fly"] }), "/access/1"),
        ("choice", json!({ "size": "large", "access": ["run", "run"] }), "/access"),
        ("draw", json!({ "value": { "tag": "circle" } }), "/value"),
        ("maybe", json!({ "value": 7 }), "/value"),
        // Only the type refuses these.
        ("bytes", json!({ "data": "not base64!" }), "/data"),
    ] {
        let refused = host.run(&format!("typed#{function}"), args.clone(), json!({})).await;
        assert_eq!(refused.summary(), "422 invalid_args", "{function} {args}: {}", refused.body);
        assert_eq!(refused.body["errors"][0]["pointer"], pointer, "{function} {args}: {}", refused.body);
    }
    assert_eq!(host.get("/api/skills/executions").await.body["total"], 0, "nothing was started");
}

#[tokio::test]
async fn an_error_that_a_function_gives_is_a_skill_error_with_its_value() {
    let host = Host::start().with("typed").await;
    let ran = call(&host, "divide", &json!({ "dividend": 7, "divisor": 0 })).await;
    assert_eq!((&ran["status"], &ran["error"]["code"]), (&json!("error"), &json!("skill_error")), "{ran}");
    assert_eq!(ran["error"]["detail"]["value"], json!({ "reason": "no-answer", "dividend": 7 }));
    let kept = host.get(&format!("/api/skills/executions/{}", ran["id"].as_str().unwrap())).await.body;
    assert_eq!((&kept["function"], &kept["error"]), (&json!("divide"), &ran["error"]));
}

#[tokio::test]
async fn a_function_is_named_behind_the_skill_unless_it_is_the_only_one() {
    let host = Host::start().with("typed").await;
    let id = host.get("/api/skills/typed").await.body["id"].as_str().unwrap().to_owned();
    for skill in ["typed#greet", "typed@^1#greet", "typed@1.0.0#greet", &format!("{id}#greet")] {
        let ran = host.run(skill, json!({}), json!({})).await;
        assert_eq!(ran.body["output"], "Hello, world!", "{skill}: {}", ran.body);
    }
    for skill in ["typed", "typed@1.0.0", &id] {
        let refused = host.run(skill, json!({}), json!({})).await;
        assert_eq!(refused.summary(), "400 malformed", "{}", refused.body);
        assert_eq!(refused.body["errors"][0]["pointer"], "/skillId");
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.contains("greet") && detail.contains("notes-add"), "{detail}");
        assert!(!detail.contains("account"), "{detail}");
    }
    for skill in ["typed#add", "typed#run", "typed#", &format!("{id}#nope")] {
        assert_eq!(host.run(skill, json!({}), json!({})).await.summary(), "404 not_found", "{skill}");
    }
    assert_eq!(host.upload("twice", twice()).await.summary(), "201 -");
    for skill in ["twice", "twice#twice"] {
        assert_eq!(host.run(skill, json!({ "n": 21 }), json!({})).await.body["output"], 42, "{skill}");
    }
}

#[tokio::test]
async fn a_function_that_json_cannot_be_says_why_it_is_not_called() {
    let host = Host::start();
    let skill = host.upload("typed", guest("typed")).await.body;
    for name in ["account-new", "account-balance"] {
        let function = listed(&skill, name);
        assert_eq!(function["callable"], false, "{function}");
        assert!(function["reason"].as_str().unwrap().contains("handle to a resource"), "{function}");
        let refused = host.run(&format!("typed#{name}"), json!({}), json!({})).await;
        assert_eq!(refused.summary(), "422 not_supported", "{}", refused.body);
        assert!(refused.body["detail"].as_str().unwrap().contains("handle to a resource"), "{}", refused.body);
    }
}

#[tokio::test]
async fn a_manifest_may_describe_an_only_function_and_not_one_of_several() {
    let host = Host::start();
    let schema = json!({ "type": "object", "properties": { "n": { "maximum": 10 } } });
    let skill = upload_with_schema(&host, "twice", twice(), schema.clone()).await.body;
    assert_eq!(skill["functions"][0]["schema"]["input"], schema, "{skill}");
    assert_eq!(skill["schema"]["output"]["type"], "integer", "what the manifest leaves out comes from the types");
    assert_eq!(host.run("twice", json!({ "n": 11 }), json!({})).await.summary(), "422 invalid_args");
    // The manifest's schema lets it pass, the type does not.
    let refused = host.run("twice", json!({ "n": "x" }), json!({})).await;
    assert_eq!(refused.summary(), "422 invalid_args", "{}", refused.body);
    assert_eq!(refused.body["errors"][0]["pointer"], "/n", "{}", refused.body);
    let refused = upload_with_schema(&host, "typed", guest("typed"), schema).await;
    assert_eq!(refused.summary(), "422 invalid_manifest");
    assert_eq!(refused.body["errors"][0]["pointer"], "/schema");
}

#[tokio::test]
async fn a_result_that_is_larger_than_it_may_be_is_refused_and_the_host_goes_on() {
    let host = Host::start().with("typed").await;
    for (times, limit, outcome) in [
        (75_u32, 102, "success -"),
        (75, 101, "error output_too_large"),
        (50_000_000, 1 << 20, "error output_too_large"),
    ] {
        let limits = json!({ "outputBytes": limit });
        let ended = host.outcome("typed#fill", json!({ "byte": 7, "times": times }), limits).await;
        assert_eq!(ended, outcome, "{times} bytes under {limit}");
    }
    let many = json!({ "data": "A".repeat(800_000) });
    assert_eq!(host.outcome("typed#bytes", many, json!({ "memoryMb": 8 })).await, "error out_of_memory");
    assert_eq!(host.outcome("typed#greet", json!({}), json!({})).await, "success -");
}

#[tokio::test]
async fn functions_are_known_again_after_a_restart() {
    let mut host = Host::start().with("typed").await;
    host.kill_and_restart();
    let ran = call(&host, "numbers-add", &json!({ "a": 1, "b": i64::MAX - 1 })).await;
    assert_eq!(ran["output"], i64::MAX);
}

#[tokio::test]
async fn a_megabyte_of_values_goes_in_and_comes_out_as_it_was() {
    let host = Host::start().with("typed").await;
    let values: Vec<f64> = (0..80_000_u32).map(|at| f64::from(at) + 0.123_456).collect();
    let args = json!({ "values": values });
    assert!(args.to_string().len() > 900_000, "{}", args.to_string().len());
    let limits = json!({ "outputBytes": 2 << 20, "argsBytes": 2 << 20 });
    let ran = host.run("typed#series", args, limits).await.body;
    assert_eq!(ran["output"], json!(values), "{}", ran["error"]);
}
