//! What is a tool, under which name, and what a call of it answers.

use reqwest::Method;
use serde_json::{Value, json};

use super::{NEWEST, answer};
use crate::support::Host;

#[tokio::test]
async fn a_function_is_a_tool_with_schemas_that_hold_and_its_run_is_an_execution() {
    let host = Host::start().with_hello().await;
    let listed = host.ask(host.key(), "tools/list", json!({})).await;
    let result = &listed.one()["result"];
    assert_eq!((&result["cacheScope"], &result["ttlMs"]), (&json!("private"), &json!(1000)));
    let tools = result["tools"].as_array().unwrap();
    let hello = tools.iter().find(|tool| tool["name"] == "hello").unwrap();
    assert_eq!((&hello["inputSchema"]["type"], &hello["outputSchema"]["type"]), (&json!("object"), &json!("object")));
    let hints = &hello["annotations"];
    assert_eq!((&hints["readOnlyHint"], &hints["openWorldHint"]), (&json!(true), &json!(false)), "{hello}");
    let called = host.call(host.key(), "hello", json!({ "name": "Ada" })).await;
    assert_eq!(called["structuredContent"], json!({ "greeting": "Hello, Ada!" }));
    assert_eq!((&called["isError"], &called["resultType"]), (&json!(false), &json!("complete")), "{called}");
    let id = called["_meta"]["skillvisor/executionId"].as_str().unwrap();
    let record = host.get(&format!("/api/skills/executions/{id}")).await;
    assert_eq!((&record.body["door"], &record.body["status"]), (&json!("mcp"), &json!("success")));
}

#[tokio::test]
async fn wrong_arguments_name_the_field_and_a_run_that_fails_its_code() {
    let host = Host::start().with_hello().await.with("trap").await.with("refuse").await;
    for (arguments, place) in [(json!({ "name": 1 }), "/name"), (json!({ "nmae": "x" }), "nmae")] {
        let wrong = host.call(host.key(), "hello", arguments).await;
        assert_eq!((&wrong["isError"], wrong.get("structuredContent")), (&json!(true), None), "{wrong}");
        let text = wrong["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("invalid_args: ") && text.contains(place), "{text}");
    }
    let failed = host.call(host.key(), "trap", json!({ "kind": "unreachable" })).await;
    assert_eq!((&failed["isError"], failed.get("structuredContent")), (&json!(true), None));
    assert_eq!(failed["_meta"]["skillvisor/code"], "trap");
    let page = host.get("/api/skills/executions").await;
    assert_eq!(page.body["total"], 1, "wrong arguments start nothing");
}

#[tokio::test]
async fn what_takes_and_gives_no_object_is_wrapped_and_loses_no_digit() {
    let host = Host::start();
    let schema = json!({ "input": { "type": "array", "items": { "$ref": "#/$defs/n" }, "$defs": { "n": { "type": "number" } } } });
    let manifest = json!({ "name": "echo", "version": "1.0.0", "schema": schema });
    assert_eq!(host.register(None, manifest, "echo").await.status, 201);
    let listed = host.ask(host.key(), "tools/list", json!({})).await;
    let tools = listed.one()["result"]["tools"].as_array().unwrap();
    let echo = tools.iter().find(|tool| tool["name"] == "echo").unwrap();
    assert_eq!(echo["inputSchema"]["required"], json!(["value"]), "{echo}");
    assert_eq!(echo["inputSchema"]["properties"]["value"]["items"]["$ref"], "#/properties/value/$defs/n");
    // Written as it is: a double has not so many digits.
    let params = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"value":[12345678901234567890123]}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"{NEWEST}","io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/clientInfo":{{"name":"t","version":"1"}}}}}}}}"#
    );
    let request = host.mcp(host.key()).header("mcp-protocol-version", NEWEST).header("mcp-method", "tools/call");
    let called = answer(request.header("mcp-name", "echo").body(params)).await;
    let text = called.one()["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("12345678901234567890123"), "{text}");
    for (arguments, place) in [
        (json!({}), "/value"),
        (json!([]), ""),
        (json!({ "value": ["x"] }), "/value/0"),
        (json!({ "value": [], "x": 1 }), "/x"),
    ] {
        let answer = host.ask(host.key(), "tools/call", json!({ "name": "echo", "arguments": arguments })).await;
        if arguments.is_array() {
            assert_eq!(answer.code(), -32602, "{}", answer.one());
            continue;
        }
        let text = answer.one()["result"]["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text.contains(place) && answer.one()["result"]["isError"] == true, "{arguments}: {}", answer.one());
    }
}

#[tokio::test]
async fn each_function_of_a_skill_is_a_tool_and_names_are_legal_and_lasting() {
    let host = Host::start().with("typed").await;
    let long = format!("a{}", "-long".repeat(12));
    assert_eq!(host.upload(&long, crate::support::guest("typed")).await.status.as_u16() / 100, 2);
    let tools = host.tools(host.key()).await;
    assert!(tools.is_sorted() && tools.contains(&"typed__greet".to_owned()), "{tools:?}");
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    assert!(tools.iter().all(|name| name.len() <= 64 && name.chars().all(legal)), "{tools:?}");
    let cut: Vec<_> = tools.iter().filter(|name| name.starts_with("a-long")).collect();
    let plain = tools.iter().filter(|name| name.starts_with("typed__")).count();
    assert_eq!(cut.len(), plain, "none is lost: {tools:?}");
    let (mut greeted, mut again) = (0, host.tools(host.key()).await);
    again.retain(|name| name.starts_with("a-long"));
    assert_eq!(again.iter().collect::<Vec<_>>(), cut);
    for name in cut {
        let called = host.ask(host.key(), "tools/call", json!({ "name": name, "arguments": { "name": "Ada" } })).await;
        greeted += usize::from(
            called.one()["result"]["content"][0]["text"]
                .as_str()
                .is_some_and(|text| text.contains("Ada") && called.one()["result"]["isError"] == false),
        );
    }
    assert!(greeted >= 1);
}

#[tokio::test]
async fn a_key_is_offered_what_it_may_run_and_nothing_else() {
    let host = Host::start().with_hello().await.with("echo").await.with("trap").await;
    for (name, change) in [("echo", json!({ "enabled": false })), ("trap", json!({ "mode": "auto" }))] {
        let changed = host.send(Method::PATCH, &format!("/api/skills/{name}@1.0.0"), change).await;
        assert_eq!(changed.status, 200);
    }
    let agent = host.agent(&["skills:read", "skills:execute"]).await;
    let agent = agent["secret"].as_str().unwrap();
    assert_eq!(host.tools(agent).await, ["hello", "skills_execute", "skills_executions", "skills_list"]);
    let called = host.call(agent, "trap", json!({ "kind": "unreachable" })).await;
    assert_eq!(called["_meta"]["skillvisor/code"], "trap", "what is `auto` can be called by name");
    let disabled = host.call(agent, "echo", json!({})).await;
    assert_eq!((&disabled["isError"], &disabled["_meta"]["skillvisor/code"]), (&json!(true), &json!("skill_disabled")));
    let reader = host.agent(&["skills:read"]).await;
    let reader = reader["secret"].as_str().unwrap();
    assert_eq!(host.tools(reader).await, ["skills_list"]);
    let refused = host.ask(reader, "tools/call", json!({ "name": "hello" })).await;
    assert_eq!(
        (refused.code(), &refused.one()["error"]["data"]["code"]),
        (&json!(-32600), &json!("insufficient_scope"))
    );
    let stranger = host.send(Method::POST, "/api/keys", json!({ "name": "stranger" })).await;
    let stranger = stranger.body["secret"].as_str().unwrap();
    assert!(!host.tools(stranger).await.contains(&"hello".to_owned()));
    let (foreign, absent) = (
        host.ask(stranger, "tools/call", json!({ "name": "hello" })).await,
        host.ask(stranger, "tools/call", json!({ "name": "absen" })).await,
    );
    assert_eq!(foreign.one().to_string().replace("hello", "absen"), absent.one().to_string());
}

#[tokio::test]
async fn the_hosts_own_tools_find_switch_run_and_look_by_scope() {
    let host = Host::start().with_hello().await;
    let manifest = json!({ "name": "thumb", "version": "1.0.0", "description": "Resizes images.", "mode": "auto", "tags": ["画像"] });
    assert_eq!(host.register(None, manifest, "echo").await.status, 201);
    let key = host.key();
    let found = async |context: &str| {
        let listed = host.call(key, "omniroute_skills_list", json!({ "context": context })).await;
        let skills = listed["structuredContent"]["skills"].as_array().unwrap().clone();
        skills.iter().map(|skill| skill["tools"][0].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found("please make these IMAGES smaller").await, ["thumb"]);
    assert_eq!(found("この画像を縮小").await, ["thumb"]);
    assert_eq!(found("greet somebody").await, [""; 0]);
    let ran = host.call(key, "skills_execute", json!({ "skill": "thumb@^1", "args": { "a": 1 } })).await;
    assert_eq!(ran["isError"], false, "{ran}");
    let ran = host.call(key, "skills_executions", json!({ "skill": "thumb" })).await;
    assert_eq!(ran["structuredContent"]["executions"][0]["door"], "mcp");
    let off = host.call(key, "skills_enable", json!({ "skill": "hello", "enabled": false })).await;
    assert_eq!(off["structuredContent"]["enabled"], false, "{off}");
    assert!(!host.tools(key).await.contains(&"hello".to_owned()));
    for (tool, arguments) in [("skills_list", json!({ "contxt": "x" })), ("skills_execute", json!({}))] {
        let wrong = host.call(key, tool, arguments).await;
        assert_eq!(
            (&wrong["isError"], &wrong["_meta"]["skillvisor/code"]),
            (&json!(true), &json!("invalid_args")),
            "{wrong}"
        );
    }
    let missing = host.call(key, "skills_execute", json!({ "skill": "nothing" })).await;
    assert_eq!(missing["_meta"]["skillvisor/code"], "not_found");
}

#[tokio::test]
async fn a_list_of_many_tools_comes_in_pages_that_a_change_does_not_shift() {
    let host = Host::start();
    for n in 0..26 {
        // Thirty functions each, or so.
        let uploaded = host.upload(&format!("s{n:02}"), crate::support::guest("typed")).await;
        assert!(uploaded.status.is_success(), "{}", uploaded.body);
    }
    let (mut names, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let page = host.ask(host.key(), "tools/list", params).await;
        let result = &page.one()["result"];
        names.extend(result["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        cursor = result["nextCursor"].clone();
        pages += 1;
        if cursor.is_null() {
            break;
        }
    }
    let known = names.len();
    names.dedup();
    assert!(names.is_sorted() && names.len() == known && pages == known.div_ceil(500), "{known} on {pages}");
    let garbage = host.ask(host.key(), "tools/list", json!({ "cursor": "zz" })).await;
    assert_eq!(garbage.code(), -32602);
}
