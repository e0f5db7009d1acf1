//! OpenAI's chat completions, which many other providers speak too.

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::{Asked, Call, Described, Format, Said, plain};
use crate::model::{Code, Error, StrictJson};

/// Longest description of a tool that the provider takes, in characters.
const MAX_DESCRIPTION: usize = 1024;

/// `openai`.
pub(super) struct Chat;

#[derive(Deserialize)]
struct Response {
    id: Option<String>,
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    tool_calls: Option<Vec<ToolCall>>,
}

#[derive(Deserialize)]
struct ToolCall {
    id: Option<String>,
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    arguments: Option<Box<RawValue>>,
}

impl Format for Chat {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn mark(&self) -> &'static str {
        "choices"
    }

    fn definitions(&self, tools: &[Described]) -> Vec<Value> {
        let definition = |tool: &Described| json!({ "type": "function", "function": function(tool) });
        tools.iter().map(definition).collect()
    }

    fn calls(&self, response: &str) -> serde_json::Result<Asked> {
        let Response { id, choices } = serde_json::from_str(response)?;
        let messages = choices.into_iter().filter_map(|choice| choice.message);
        // What is no function is a tool of another kind, and not ours.
        let calls = messages.flat_map(|message| message.tool_calls.unwrap_or_default()).filter_map(|call| {
            let Function { name, arguments } = call.function?;
            Some(Call { id: call.id, name, arguments: written(arguments.as_deref()) })
        });
        Ok(Asked { id, calls: calls.collect() })
    }

    fn result(&self, call: &Call, said: Said) -> serde_json::Result<Box<RawValue>> {
        to_raw_value(&json!({ "role": "tool", "tool_call_id": call.id, "content": said.text }))
    }
}

/// A function as this provider describes one.
pub(super) fn function(tool: &Described) -> Value {
    let description: String = tool.description.chars().take(MAX_DESCRIPTION).collect();
    json!({ "name": tool.name, "description": description, "parameters": plain::object(tool.input.clone()) })
}

/// Arguments that come as the text of a JSON object; some who speak this format send the object itself.
pub(super) fn written(arguments: Option<&RawValue>) -> Result<StrictJson, Error> {
    let missing = || Error::new(Code::Malformed, "the call has no arguments; none at all are {}");
    let sent = arguments.ok_or_else(missing)?.get();
    let text: String = serde_json::from_str(sent).unwrap_or_else(|_| sent.to_owned());
    let unreadable = |error: Error| Error::new(Code::Malformed, format!("the arguments are {}", error.detail));
    StrictJson::parse(&text).map_err(unreadable)
}
