//! Anthropic's messages.

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::{Asked, Call, Described, Format, Said, plain};
use crate::model::{Code, Error, StrictJson};

/// `anthropic`.
pub(super) struct Messages;

#[derive(Deserialize)]
struct Response {
    id: Option<String>,
    content: Vec<Block>,
}

#[derive(Deserialize)]
struct Block {
    r#type: String,
    id: Option<String>,
    name: Option<String>,
    input: Option<Box<RawValue>>,
}

impl Format for Messages {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn mark(&self) -> &'static str {
        "content"
    }

    fn definitions(&self, tools: &[Described]) -> Vec<Value> {
        let definition = |tool: &Described| {
            let schema = plain::with_keys(plain::object(tool.input.clone()), is_key);
            json!({ "name": tool.name, "description": tool.description, "input_schema": schema })
        };
        tools.iter().map(definition).collect()
    }

    fn calls(&self, response: &str) -> serde_json::Result<Asked> {
        let Response { id, content } = serde_json::from_str(response)?;
        let calls = content
            .into_iter()
            .filter(|block| block.r#type == "tool_use")
            .filter_map(|block| Some(Call { id: block.id, name: block.name?, arguments: sent(block.input) }));
        Ok(Asked { id, calls: calls.collect() })
    }

    fn result(&self, call: &Call, said: Said) -> serde_json::Result<Box<RawValue>> {
        let is_error = said.outcome.is_err();
        let result =
            json!({ "type": "tool_result", "tool_use_id": call.id, "content": said.text, "is_error": is_error });
        to_raw_value(&result)
    }
}

/// What the provider takes for the name of a property.
fn is_key(key: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=64).contains(&key.len()) && key.bytes().all(legal)
}

/// Arguments that come as they are.
pub(super) fn sent(arguments: Option<Box<RawValue>>) -> Result<StrictJson, Error> {
    let missing = || Error::new(Code::Malformed, "the call has no arguments; none at all are {}");
    StrictJson::from_raw(arguments.ok_or_else(missing)?)
}
