//! OpenAI's responses.

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::{Asked, Call, Described, Format, Said, openai};

/// `openai-responses`.
pub(super) struct Responses;

#[derive(Deserialize)]
struct Response {
    id: Option<String>,
    output: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    r#type: String,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<Box<RawValue>>,
}

impl Format for Responses {
    fn name(&self) -> &'static str {
        "openai-responses"
    }

    fn mark(&self) -> &'static str {
        "output"
    }

    fn definitions(&self, tools: &[Described]) -> Vec<Value> {
        let definition = |tool: &Described| {
            let mut function = openai::function(tool);
            function["type"] = json!("function");
            // It is what a tool gets that says nothing, and allows too little.
            function["strict"] = json!(false);
            function
        };
        tools.iter().map(definition).collect()
    }

    fn calls(&self, response: &str) -> serde_json::Result<Asked> {
        let Response { id, output } = serde_json::from_str(response)?;
        let calls = output.into_iter().filter(|item| item.r#type == "function_call").filter_map(|item| {
            Some(Call { id: item.call_id, name: item.name?, arguments: openai::written(item.arguments.as_deref()) })
        });
        Ok(Asked { id, calls: calls.collect() })
    }

    fn result(&self, call: &Call, said: Said) -> serde_json::Result<Box<RawValue>> {
        to_raw_value(&json!({ "type": "function_call_output", "call_id": call.id, "output": said.text }))
    }
}
