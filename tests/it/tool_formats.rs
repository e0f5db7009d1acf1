//! Skills as tools of four providers' models. The responses are written after the providers' public schemas.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, Reply, reply};

const FORMATS: [&str; 4] = ["openai", "openai-responses", "anthropic", "gemini"];

impl Host {
    async fn tools_in(&self, format: &str) -> Value {
        let page = self.get(&format!("/api/skills/tools?format={format}")).await;
        assert_eq!((page.status.as_u16(), &page.body["format"]), (200, &json!(format)), "{}", page.body);
        page.body["tools"].clone()
    }

    async fn call_tools(&self, query: &str, response: &Value) -> Reply {
        self.send(Method::POST, &format!("/api/skills/tools/calls{query}"), response.clone()).await
    }

    /// How many executions there are.
    async fn executions(&self) -> u64 {
        self.get("/api/skills/executions").await.body["total"].as_u64().unwrap()
    }
}

/// A model's response with these calls: id, name and arguments, as the provider writes them.
fn response(format: &str, id: &str, calls: &[(&str, &str, Value)]) -> Value {
    let each = |write: &dyn Fn(&str, &str, &Value) -> Value| -> Value {
        calls.iter().map(|(id, name, arguments)| write(id, name, arguments)).collect()
    };
    match format {
        "openai" => {
            let calls = each(
                &|id, name, arguments| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments.to_string() } }),
            );
            let message = json!({ "role": "assistant", "content": null, "refusal": null, "tool_calls": calls });
            let choice = json!({ "index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": null });
            json!({ "id": id, "object": "chat.completion", "created": 1, "model": "m", "choices": [choice] })
        }
        "openai-responses" => {
            let output = each(&|id, name, arguments| {
                json!({
                    "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name,
                    "arguments": arguments.to_string(), "status": "completed",
                })
            });
            json!({ "id": id, "object": "response", "status": "completed", "output": output, "error": null })
        }
        "anthropic" => {
            let content =
                each(&|id, name, input| json!({ "type": "tool_use", "id": id, "name": name, "input": input }));
            json!({ "id": id, "type": "message", "role": "assistant", "content": content, "stop_reason": "tool_use" })
        }
        _ => {
            let parts = each(&|id, name, args| json!({ "functionCall": { "id": id, "name": name, "args": args } }));
            let content = json!({ "role": "model", "parts": parts });
            json!({ "responseId": id, "candidates": [{ "content": content, "finishReason": "STOP", "index": 0 }] })
        }
    }
}

/// The text of a result, and whether it is an error, as far as the format says.
fn said(format: &str, result: &Value) -> (String, bool) {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match format {
        "openai" => (text(&result["content"]), false),
        "openai-responses" => (text(&result["output"]), false),
        "anthropic" => (text(&result["content"]), result["is_error"] == true),
        _ => {
            let response = &result["functionResponse"]["response"];
            match response.get("error") {
                Some(error) => (text(error), true),
                None => (text(&response["output"]), false),
            }
        }
    }
}

#[tokio::test]
async fn the_tools_of_each_provider_change_only_on_purpose() {
    let host = Host::start().with_hello().await.with("typed").await;
    let mut all = json!({});
    for format in FORMATS {
        all[format] = host.tools_in(format).await;
    }
    insta::assert_json_snapshot!(all);
}

#[tokio::test]
async fn every_format_lists_calls_and_is_told_what_came_of_it() {
    let host = Host::start().with_hello().await;
    for format in FORMATS {
        let calls = [
            ("call_1", "hello", json!({ "name": "Ada" })),
            ("call_2", "Bash", json!({ "command": "ls" })),
            ("call_3", "hello", json!({ "name": 5 })),
            ("call_4", "hello", json!({ "name": "Grace" })),
        ];
        let answer = host.call_tools("", &response(format, &format!("r-{format}"), &calls)).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.body["passthrough"], json!(["call_2"]), "{format}");
        let results = answer.body["results"].as_array().unwrap();
        let told: Vec<_> = results.iter().map(|result| said(format, result)).collect();
        assert_eq!(told.len(), 3, "{format}: {results:?}");
        assert!(told[0].0.contains("Hello, Ada!") && told[2].0.contains("Hello, Grace!"), "{format}: {told:?}");
        assert!(told[1].0.contains("invalid_args") && told[1].0.contains("/name"), "{format}: {told:?}");
        assert!(told[1].1 || format.starts_with("openai"), "{format}: {told:?}");
        assert!(results[0].to_string().contains("call_1"), "{format}: {}", results[0]);
        let ran = answer.body["executions"].as_array().unwrap();
        let ids: Vec<_> =
            ran.iter().map(|ran| (ran["callId"].as_str().unwrap(), ran["status"].as_str().unwrap())).collect();
        assert_eq!(ids, [("call_1", "success"), ("call_4", "success")], "{format}");
        let id = ran[0]["executionId"].as_str().unwrap();
        assert_eq!(host.get(&format!("/api/skills/executions/{id}")).await.body["output"]["greeting"], "Hello, Ada!");
    }
}

#[tokio::test]
async fn the_same_response_again_runs_nothing_again() {
    let host = Host::start().with_hello().await;
    for format in FORMATS {
        let before = host.executions().await;
        let asked = response(
            format,
            "r1",
            &[("c", "hello", json!({ "name": "Ada" })), ("c", "hello", json!({ "name": "Bo" }))],
        );
        let first = host.call_tools("", &asked).await;
        let again = host.call_tools(&format!("?format={format}"), &asked).await;
        assert_eq!((first.status.as_u16(), &first.body), (200, &again.body), "{format}");
        assert_eq!(host.executions().await, before + 2, "{format}");
        // Another response of the model may have the same ids of calls.
        let other = host.call_tools("", &response(format, "r2", &[("c", "hello", json!({ "name": "Ada" }))])).await;
        assert_ne!(other.body["executions"][0], first.body["executions"][0], "{format}");
        assert_eq!(host.executions().await, before + 3, "{format}");
    }
}

#[tokio::test]
async fn a_response_without_an_id_is_known_by_its_text_or_by_the_callers_word() {
    let host = Host::start().with_hello().await;
    let part = json!({ "functionCall": { "name": "hello", "args": { "name": "Ada" } } });
    let asked = json!({ "candidates": [{ "content": { "parts": [part] } }] });
    let run = async |word: Option<&str>| {
        let request = host.request_as(Some(host.key()), Method::POST, "/api/skills/tools/calls");
        let request = word.into_iter().fold(request, |request, word| request.header("idempotency-key", word));
        let answer = reply(request.body(asked.to_string())).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.body["executions"][0]["callId"], "0");
        assert!(answer.body["results"][0]["functionResponse"].get("id").is_none());
        answer.body["executions"][0]["executionId"].clone()
    };
    let first = run(None).await;
    assert_eq!(run(None).await, first);
    let second = run(Some("turn-2")).await;
    assert_ne!(second, first);
    assert_eq!(run(Some("turn-2")).await, second);
}

#[tokio::test]
async fn arguments_that_are_no_json_are_an_error_for_the_model_and_run_nothing() {
    let host = Host::start().with_hello().await;
    for arguments in ["", "{", "{'name': 'Ada'}", "{\"name\":\"a\",\"name\":\"b\"}", "[]", "null", "\"x\""] {
        let mut asked = response("openai", &format!("r{arguments}"), &[("c", "hello", json!({}))]);
        asked["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = json!(arguments);
        let answer = host.call_tools("", &asked).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let (told, _) = said("openai", &answer.body["results"][0]);
        assert!(told.starts_with("malformed: ") || told.starts_with("invalid_args: "), "{arguments:?}: {told}");
        assert_eq!(answer.body["executions"], json!([]), "{arguments:?}");
    }
    assert_eq!(host.executions().await, 0);
}

#[tokio::test]
async fn a_skill_that_takes_no_object_has_one_argument_and_errors_name_its_places() {
    let host = Host::start();
    let schema = json!({ "type": "array", "items": { "type": "integer" } });
    let manifest = json!({ "name": "list", "version": "1.0.0", "schema": schema });
    assert!(host.register(None, manifest, "echo").await.status.is_success());
    for (arguments, wanted) in [
        (json!({ "value": [1, 2] }), "[1,2]"),
        (json!({ "value": [1, "x"] }), "\n/value/1: "),
        (json!({ "values": [1] }), "\n/value: "),
        (json!({ "value": [1], "more": 1 }), "\n/more: "),
    ] {
        let asked = response("gemini", &arguments.to_string(), &[("c", "list", arguments.clone())]);
        let answer = host.call_tools("", &asked).await;
        let (told, is_error) = said("gemini", &answer.body["results"][0]);
        assert!(told.contains(wanted), "{arguments}: {told}");
        assert_eq!(is_error, wanted != "[1,2]", "{arguments}");
    }
}

#[tokio::test]
async fn calls_have_a_budget_of_time_and_results_one_of_bytes() {
    let host = Host::start().with("spin").await.with("echo").await;
    let calls = [("a", "spin", json!({})), ("b", "spin", json!({}))];
    let answer = host.call_tools("?timeoutMs=300", &response("anthropic", "r", &calls)).await;
    for result in answer.body["results"].as_array().unwrap() {
        let (told, is_error) = said("anthropic", result);
        assert!(is_error && told.starts_with("timeout: "), "{told}");
    }
    let long = json!({ "text": "ä".repeat(5000) });
    let calls: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|id| (id, "echo", long.clone())).to_vec();
    let answer = host.call_tools("?maxBytes=1000", &response("openai", "r", &calls)).await;
    let results = answer.body["results"].as_array().unwrap();
    assert_eq!(results.len(), 6, "{}", answer.body);
    let lengths: Vec<_> = results.iter().map(|result| said("openai", result).0.len()).collect();
    assert!(lengths.iter().all(|length| *length <= 1000) && lengths.iter().sum::<usize>() < 5000, "{lengths:?}");
    for (result, ran) in results.iter().zip(answer.body["executions"].as_array().unwrap()) {
        let (told, id) = (said("openai", result).0, ran["executionId"].as_str().unwrap());
        assert!(told.contains(&format!("GET /api/skills/executions/{id}")), "{told}");
    }
}

#[tokio::test]
async fn what_is_no_response_is_refused_and_so_is_a_key_that_may_not() {
    let host = Host::start().with_hello().await;
    let many: Vec<_> = (0..129).map(|_| ("c", "hello", json!({ "name": "x" }))).collect();
    for (query, asked) in [
        ("", json!({})),
        ("", json!([])),
        ("?format=openai", json!({ "content": [] })),
        ("?format=openai", json!({ "choices": "x" })),
        ("?format=cohere", json!({ "choices": [] })),
        ("?maxBytes=1", json!({ "choices": [] })),
        ("?timeoutMs=0", json!({ "choices": [] })),
        ("?nonsense=1", json!({ "choices": [] })),
        ("", response("gemini", "r", &many)),
    ] {
        let answer = host.call_tools(query, &asked).await;
        assert_eq!(answer.summary(), "400 malformed", "{query}: {}", answer.body);
    }
    for path in ["/api/skills/tools?format=x", "/api/skills/tools?limit=51", "/api/skills/tools?x=1"] {
        assert_eq!(host.get(path).await.summary(), "400 malformed", "{path}");
    }
    assert_eq!(host.executions().await, 0);
    let reader = host.agent(&["skills:read"]).await;
    let as_reader = |method, path| host.request_as(reader["secret"].as_str(), method, path);
    let asked = response("openai", "r", &[("c", "hello", json!({ "name": "Ada" }))]);
    let refused = reply(as_reader(Method::POST, "/api/skills/tools/calls").body(asked.to_string())).await;
    assert_eq!(refused.summary(), "403 insufficient_scope");
    let offered = reply(as_reader(Method::GET, "/api/skills/tools?context=hello")).await;
    assert_eq!((offered.status.as_u16(), &offered.body["tools"]), (200, &json!([])));
}

#[tokio::test]
async fn skills_that_are_auto_are_offered_where_they_have_to_do_with_the_context() {
    let host = Host::start().with_hello().await;
    for (name, description) in
        [("thumbs", "makes images smaller"), ("suoxiao", "把图像缩小"), ("unrelated", "counts words")]
    {
        let manifest = json!({ "name": name, "version": "1.0.0", "description": description, "mode": "auto" });
        assert!(host.register(None, manifest, "echo").await.status.is_success());
    }
    let named = |tools: &Value| -> Vec<String> {
        tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let offered = async |body: Value| {
        let page = host.send(Method::POST, "/api/skills/tools", body).await;
        assert_eq!(page.status, 200, "{}", page.body);
        assert_eq!(page.body["total"], page.body["tools"].as_array().unwrap().len());
        named(&page.body["tools"])
    };
    assert_eq!(offered(json!({ "format": "anthropic" })).await, ["hello"]);
    let messages = json!([{ "role": "user", "content": [{ "type": "text", "text": "make my images smaller" }] }]);
    assert_eq!(offered(json!({ "format": "anthropic", "context": messages })).await, ["hello", "thumbs"]);
    assert_eq!(offered(json!({ "format": "anthropic", "context": "请缩小图像" })).await, ["hello", "suoxiao"]);
    assert_eq!(offered(json!({ "format": "anthropic", "context": messages, "limit": 0 })).await, ["hello"]);
    let page = host.get("/api/skills/tools?format=anthropic&context=images").await;
    assert_eq!(named(&page.body["tools"]), ["hello", "thumbs"]);
    // What was not offered can be called.
    let answer = host.call_tools("", &response("anthropic", "r", &[("c", "unrelated", json!({ "a": 1 }))])).await;
    assert_eq!(answer.body["executions"][0]["status"], "success", "{}", answer.body);
}

#[tokio::test]
async fn what_is_off_or_another_owners_is_no_tool() {
    let host = Host::start().with_hello().await;
    let key = host.send(Method::POST, "/api/keys", json!({ "name": "k", "owner": "other" })).await.body;
    let asked = response("openai", "r", &[("c", "hello", json!({ "name": "Ada" }))]);
    let answer =
        reply(host.request_as(key["secret"].as_str(), Method::POST, "/api/skills/tools/calls").body(asked.to_string()))
            .await;
    assert_eq!((&answer.body["passthrough"], &answer.body["results"]), (&json!(["c"]), &json!([])));
    host.send(Method::PATCH, "/api/skills/hello", json!({ "mode": "off" })).await;
    assert_eq!(host.tools_in("openai").await, json!([]));
    let answer = host.call_tools("", &asked).await;
    assert!(said("openai", &answer.body["results"][0]).0.starts_with("skill_disabled: "), "{}", answer.body);
}
