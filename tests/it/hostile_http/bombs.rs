//! JSON and schemas that are small and mean much work.

use super::*;

/// What is no JSON, or JSON that two readers read as two values.
fn bombs() -> Vec<Vec<u8>> {
    let mut bombs: Vec<Vec<u8>> = [
        "1e400",
        "-1e400",
        "[1e99999999999999999999]",
        "{\"a\":1,\"a\":2}",
        "[[{\"a\":{\"b\":1,\"\\u0062\":2}}]]",
        "\"\\ud800\"",
        "\"\u{0}\"",
        "nan",
        "01",
        "[1,]",
        "\u{feff}1",
        "",
        "1}{",
        "/**/1",
        "'a'",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    bombs.push(vec![b'9'; 100_000]);
    bombs.push(b"\"\xff\xfe\"".to_vec());
    bombs.push([vec![b'['; 100_000], vec![b']'; 100_000]].concat());
    bombs.push(vec![b'['; 400_000]);
    bombs.push([b"{\"a\":".repeat(65), b"1".to_vec(), b"}".repeat(65)].concat());
    bombs.push([b"{\"a\":".repeat(50_000), b"1".to_vec(), b"}".repeat(50_000)].concat());
    let same: String = (0..20_000).map(|n| format!("\"k{n}\":0,")).collect();
    bombs.push(format!("{{{same}\"k7\":1}}").into_bytes());
    bombs
}

#[tokio::test]
async fn json_bombs_are_malformed_on_every_route_and_cost_little() {
    let host = Host::start().with("echo").await;
    let before = host.resident_mib();
    for (method, path, template) in JSON_ROUTES {
        for bomb in bombs() {
            let (head, tail) = template.split_once("HOLE").unwrap();
            let body = [head.as_bytes(), &bomb, tail.as_bytes()].concat();
            let shown = String::from_utf8_lossy(&bomb[..bomb.len().min(40)]).into_owned();
            let refused = post(&host, method.parse().unwrap(), path, body).await;
            assert_eq!(refused.summary(), "400 malformed", "{path} {shown}: {}", refused.body);
            assert!(refused.body["detail"].as_str().unwrap().len() < 1000, "{path} {shown}");
        }
    }
    let after = host.resident_mib();
    println!("resident before the bombs {before} MiB, after {after} MiB");
    assert!(after < before + HEADROOM_MIB, "{before} MiB, then {after} MiB");
    assert_eq!(host.get("/api/skills/executions").await.body["total"], 0);
    assert_eq!(host.outcome("echo", json!({ "a": 1 }), json!({})).await, "success -");
}

#[tokio::test]
async fn whole_bodies_that_are_no_object_are_malformed_on_every_route() {
    let host = Host::start().with("echo").await;
    for (method, path, _) in JSON_ROUTES {
        for body in ["[]", "null", "7", "\"x\"", "{", "{\"nope\":1}", "{}{}", "{\"a\":1,\"a\":2}"] {
            let refused = post(&host, method.parse().unwrap(), path, body).await;
            assert_eq!(refused.summary(), "400 malformed", "{path} {body}: {}", refused.body);
        }
    }
    for (path, body) in [
        ("/api/skills/executions", json!({ "skillId": "echo", "limits": [5] })),
        ("/api/skills/skillssh", json!({ "name": "x", "grants": [] })),
        ("/api/skills/skillssh", json!({ "name": "x", "limits": [5] })),
        ("/api/skills/skillssh", json!({ "name": "x", "retry": [0] })),
        ("/api/keys", json!({ "name": "x", "ceilings": [] })),
        ("/api/keys", json!({ "name": "x", "ceilings": { "rates": [5] } })),
    ] {
        let refused = host.send(Method::POST, path, body.clone()).await;
        assert_eq!(refused.summary(), "400 malformed", "{path} {body}: {}", refused.body);
    }
}

#[tokio::test]
async fn large_arguments_are_read_up_to_the_limit_and_not_beyond() {
    let host = Host::start().with("echo").await;
    let fields: serde_json::Map<String, Value> = (0..50_000).map(|n| (format!("k{n}"), json!(n))).collect();
    let many = Value::Object(fields);
    assert!(many.to_string().len() < 1 << 20);
    let run = host.run("echo", many.clone(), json!({})).await;
    assert_eq!((run.status.as_u16(), run.body["output"] == many), (200, true), "{:.300}", run.body.to_string());
    let small = format!("0.{}", "0".repeat(100_000));
    let body = format!("{{\"skillId\":\"echo\",\"args\":{{\"n\":{small}}}}}");
    assert_eq!(post(&host, Method::POST, "/api/skills/executions", body).await.status, 200);
    let before = host.resident_mib();
    let made = host.send(Method::POST, "/api/keys", json!({ "name": "k", "owner": "admin" })).await;
    let user = made.body["secret"].as_str().unwrap();
    // Small values are what grows most when it is read.
    for (key, megabytes) in [(user, 1), (user, 10), (&key(&host), 15), (&key(&host), 17)] {
        let args = format!("[{}0]", "[],".repeat(megabytes * 350_000));
        let body = format!("{{\"skillId\":\"echo\",\"args\":{args}}}");
        let request = early(&host, key, "/api/skills/executions").body(body);
        assert_eq!(reply(request).await.summary(), "413 too_large", "{megabytes} MB");
    }
    for path in ["/api/keys", "/api/skills/skillssh"] {
        let body = format!("{{\"name\":\"{}\"}}", "x".repeat(2 << 20));
        assert_eq!(reply(early(&host, &key(&host), path).body(body)).await.summary(), "413 too_large", "{path}");
    }
    let after = host.resident_mib();
    println!("resident before {before} MiB, after {after} MiB");
    assert!(after < before + HEADROOM_MIB, "{before} MiB, then {after} MiB");
}

/// Schemas that cost far more than they weigh.
fn schema_bombs() -> Vec<(&'static str, Value)> {
    let mut deep = json!({ "type": "integer" });
    for _ in 0..25 {
        deep = json!({ "properties": { "a": deep } });
    }
    let mut doubling = serde_json::Map::from_iter([("d0".to_owned(), json!({ "type": "object" }))]);
    for n in 1..40 {
        let twice = json!({ "$ref": format!("#/$defs/d{}", n - 1) });
        doubling.insert(format!("d{n}"), json!({ "allOf": [twice, twice] }));
    }
    let many: serde_json::Map<String, Value> =
        (0..9000).map(|n| (format!("k{n}"), json!({ "type": "string" }))).collect();
    vec![
        ("deep", deep),
        ("doubling", json!({ "$ref": "#/$defs/d39", "$defs": doubling })),
        (
            "circle",
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } }),
        ),
        ("regex", json!({ "properties": { "s": { "pattern": "((((a{1,100}){1,100}){1,100}){1,100})" } } })),
        ("backtracking", json!({ "properties": { "s": { "pattern": "^(?:(?=(a+))a+)+$" } } })),
        ("remote", json!({ "$ref": "http://127.0.0.1:1/schema.json" })),
        ("file", json!({ "$ref": "file:///etc/passwd" })),
        ("many", json!({ "properties": many })),
        ("unique", json!({ "uniqueItems": true, "properties": { "l": { "uniqueItems": true } } })),
    ]
}

#[tokio::test]
async fn schema_bombs_are_refused_or_harmless() {
    let host = Host::start();
    let before = host.resident_mib();
    let args = json!({ "s": "a".repeat(40_000) + "b", "l": (0..20_000).collect::<Vec<_>>(), "a": { "a": 1 } });
    for (name, schema) in schema_bombs() {
        let began = Instant::now();
        let manifest =
            json!({ "name": format!("bomb-{name}"), "version": "1.0.0", "handler": "wasm", "schema": schema });
        let made = form(&host, &manifest).await;
        let ran = match made.status {
            StatusCode::CREATED => {
                let run = host.run(&format!("bomb-{name}"), args.clone(), json!({})).await;
                assert!(matches!(run.status.as_u16(), 200 | 422), "{name}: {}", run.body);
                run.summary()
            }
            _ => {
                assert_eq!(made.summary(), "422 invalid_manifest", "{name}: {}", made.body);
                "refused".to_owned()
            }
        };
        println!("schema bomb {name}: {ran}, {:?}", began.elapsed());
        assert!(began.elapsed() < Duration::from_secs(20), "{name} took {:?}", began.elapsed());
        assert!(!made.body.to_string().contains("root:"), "{name}");
    }
    assert!(host.resident_mib() < before + HEADROOM_MIB, "{before} MiB, then {} MiB", host.resident_mib());
}
