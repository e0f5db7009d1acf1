//! Skills as the tools of models: what all doors for agents have in common, and the formats of those who
//! make the models. A new format is a file, and a line in [`FORMATS`].

mod anthropic;
mod call;
mod calls;
mod gemini;
mod inlined;
mod offer;
mod openai;
mod plain;
mod responses;
mod said;
pub(super) mod schema;

use std::borrow::Cow;
use std::collections::HashMap;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::model::{Code, Error, StrictJson, quotable};
use crate::registry::ToolRef;

pub(super) use self::call::{of_caller, request};
pub(super) use self::calls::{Answer, Budget, run};
pub(super) use self::offer::offer;
pub(super) use self::said::{Said, refusal};

/// The members of a JSON object.
type JsonObject = Map<String, Value>;

/// All formats there are.
const FORMATS: [&dyn Format; 4] = [&openai::Chat, &responses::Responses, &anthropic::Messages, &gemini::Gemini];

/// How one provider's models are told of tools, how they call them and are told what came of it.
pub(super) trait Format: Sync {
    /// Its word in the API.
    fn name(&self) -> &'static str;

    /// The member of a response that no other format has.
    fn mark(&self) -> &'static str;

    /// What stands in a request's list of tools.
    fn definitions(&self, tools: &[Described]) -> Vec<Value>;

    /// The calls in a response of the model, in their order, and the response's id.
    ///
    /// # Errors
    ///
    /// Why it is no response.
    fn calls(&self, response: &str) -> serde_json::Result<Asked>;

    /// What goes back to the model.
    fn result(&self, call: &Call, said: Said) -> serde_json::Result<Box<RawValue>>;
}

/// A tool as all formats have it.
pub(super) struct Described {
    /// 1 to 64 of `[A-Za-z0-9_-]`.
    name: String,
    description: String,
    /// A schema whose `type` is `object`.
    input: JsonObject,
}

/// What a model asks for in one response.
#[derive(Default)]
pub(super) struct Asked {
    /// The provider's id of the response.
    id: Option<String>,
    calls: Vec<Call>,
}

/// One call of a model.
pub(super) struct Call {
    /// The provider's id of the call.
    id: Option<String>,
    name: String,
    /// What goes in, or why it cannot be read.
    arguments: Result<StrictJson, Error>,
}

/// The format of this word.
///
/// # Errors
///
/// `malformed`.
pub(super) fn named(name: &str) -> Result<&'static dyn Format, Error> {
    let known = FORMATS.into_iter().find(|format| format.name() == name);
    known.ok_or_else(|| {
        let detail = format!("there is no format {:?}; there are {}", quotable(name), names());
        Error::at(Code::Malformed, "/format", detail)
    })
}

/// The format that a response is in, where nobody says.
///
/// # Errors
///
/// `malformed` if it could be none of them, or several.
pub(super) fn format_of(response: &str) -> Result<&'static dyn Format, Error> {
    let members: HashMap<Cow<'_, str>, IgnoredAny> = serde_json::from_str(response).unwrap_or_default();
    let mut fitting = FORMATS.into_iter().filter(|format| members.contains_key(format.mark()));
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => Ok(only),
        _ => {
            let detail =
                format!("it does not show which format the response is in; say so with ?format=, one of {}", names());
            Err(Error::new(Code::Malformed, detail))
        }
    }
}

fn names() -> String {
    FORMATS.map(Format::name).join(", ")
}

/// Tells a model what a tool is for.
pub(super) fn description(tool: &ToolRef) -> String {
    let skill = &tool.skill.skill;
    let Some(function) = skill.functions.get(tool.function) else { return String::new() };
    match (skill.description.as_str(), function.description.as_str()) {
        // There are clients that take no tool without a word about it.
        ("", "") => format!("Runs `{}` of the skill {}.", function.name, tool.skill.address),
        (skill, function) if skill == function || function.is_empty() => skill.to_owned(),
        ("", function) => function.to_owned(),
        (skill, function) => format!("{function}\n\nOf {}: {skill}", tool.skill.address),
    }
}

impl Described {
    fn of(tool: &ToolRef) -> Self {
        let function = tool.skill.skill.functions.get(tool.function);
        let input = schema::input(function.and_then(|function| function.schema.input.as_ref()));
        Self { name: tool.name.clone(), description: description(tool), input }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// What a skill that takes this is as a tool.
    pub(super) fn input(schema: &Value) -> JsonObject {
        schema::input(Some(schema))
    }

    /// Schemas with everything that makes providers refuse one.
    pub(super) fn any_schema() -> impl Strategy<Value = Value> {
        let kinds = ["object", "array", "string", "integer", "number", "boolean", "null"];
        let leaf = prop_oneof![
            Just(json!(true)),
            Just(json!(false)),
            Just(json!({})),
            Just(json!({ "$ref": "#" })),
            Just(json!({ "$ref": "#/$defs/a" })),
            Just(json!({ "const": 5 })),
            Just(json!({ "enum": ["a", "", null, 1] })),
            proptest::sample::select(kinds.to_vec())
                .prop_map(|kind| json!({ "type": kind, "format": "x", "minimum": 1 })),
            proptest::sample::subsequence(kinds.to_vec(), 2..4).prop_map(|kinds| json!({ "type": kinds })),
        ];
        leaf.prop_recursive(4, 40, 4, move |inner| {
            let list = vec(inner.clone(), 1..3);
            let named = btree_map(proptest::sample::select(vec!["a", "b", "é", "long name"]), inner.clone(), 0..4);
            prop_oneof![
                (named.clone(), any::<bool>()).prop_map(|(properties, more)| json!({
                    "type": "object", "properties": properties, "required": ["a", "b"], "additionalProperties": more,
                })),
                named.prop_map(|named| json!({ "$defs": named, "properties": { "a": { "$ref": "#/$defs/b" } } })),
                inner.clone().prop_map(|items| json!({ "type": "array", "items": items })),
                list.clone()
                    .prop_map(|items| json!({ "type": ["array", "null"], "prefixItems": items, "items": false })),
                (proptest::sample::select(vec!["anyOf", "oneOf", "allOf"]), list)
                    .prop_map(|(word, list)| json!({ word: list, "properties": { "c": true } })),
                inner.prop_map(|inner| json!({ "if": inner, "then": { "properties": { "d": {} } }, "not": false })),
            ]
        })
    }

    #[test]
    fn a_response_shows_its_format_or_is_refused() {
        for (response, wanted) in [
            (json!({ "choices": [] }), Some("openai")),
            (json!({ "output": [] }), Some("openai-responses")),
            (json!({ "content": [] }), Some("anthropic")),
            (json!({ "candidates": [] }), Some("gemini")),
            (json!({ "content": [], "choices": [] }), None),
            (json!({}), None),
            (json!([]), None),
        ] {
            assert_eq!(format_of(&response.to_string()).map(Format::name).ok(), wanted, "{response}");
        }
        assert_eq!(named("Gemini").map(Format::name).unwrap_err().code, Code::Malformed);
    }

    /// The calls in a response: id, name and arguments.
    fn calls(format: &str, response: Value) -> Vec<(Option<String>, String, Option<String>)> {
        let asked = named(format).unwrap().calls(&response.to_string()).unwrap();
        let shown = |call: Call| (call.id, call.name, call.arguments.ok().map(|args| args.text().to_owned()));
        asked.calls.into_iter().map(shown).collect()
    }

    #[test]
    fn calls_are_found_where_each_provider_puts_them() {
        let wanted = |id: Option<&str>, arguments: Option<&str>| {
            [(id.map(str::to_owned), "hello".to_owned(), arguments.map(str::to_owned))]
        };
        let chat = |arguments: Value| {
            json!({ "id": "r", "choices": [
                { "message": { "role": "assistant", "content": null, "tool_calls": null } },
                { "message": { "tool_calls": [
                    { "id": "c", "type": "function", "function": { "name": "hello", "arguments": arguments } },
                    { "id": "d", "type": "custom", "custom": { "name": "other", "input": "x" } },
                ] } },
            ] })
        };
        let big = r#"{"n":12345678901234567890123}"#;
        assert_eq!(calls("openai", chat(json!(big))), wanted(Some("c"), Some(big)));
        assert_eq!(calls("openai", chat(json!({ "a": 1 }))), wanted(Some("c"), Some(r#"{"a":1}"#)));
        for broken in ["", "{", "{\"a\":1,\"a\":2}", "nonsense"] {
            assert_eq!(calls("openai", chat(json!(broken))), wanted(Some("c"), None), "{broken}");
        }
        let responses = json!({ "output": [
            { "type": "reasoning", "summary": [] },
            { "type": "function_call", "call_id": "c", "name": "hello", "arguments": "{}" },
        ] });
        assert_eq!(calls("openai-responses", responses), wanted(Some("c"), Some("{}")));
        let messages = json!({ "type": "message", "content": [
            { "type": "text", "text": "hello" },
            { "type": "tool_use", "id": "c", "name": "hello", "input": { "a": 1 } },
            { "type": "server_tool_use", "id": "d", "name": "web_search", "input": {} },
        ] });
        assert_eq!(calls("anthropic", messages), wanted(Some("c"), Some(r#"{"a":1}"#)));
        let gemini = json!({ "responseId": "r", "candidates": [
            { "finishReason": "STOP" },
            { "content": { "parts": [{ "text": "x" }, { "functionCall": { "name": "hello" } }] } },
        ] });
        assert_eq!(calls("gemini", gemini), wanted(None, Some("{}")));
    }
}
