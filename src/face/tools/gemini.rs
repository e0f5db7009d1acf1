//! Google's Gemini.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::inlined::Inliner;
use super::{Asked, Call, Described, Format, Said, anthropic};

/// `gemini`.
pub(super) struct Gemini;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Generated {
    response_id: Option<String>,
    candidates: Vec<Candidate>,
}

#[derive(Deserialize)]
struct Candidate {
    content: Option<Content>,
}

#[derive(Deserialize)]
struct Content {
    parts: Option<Vec<Part>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    function_call: Option<FunctionCall>,
}

#[derive(Deserialize)]
struct FunctionCall {
    id: Option<String>,
    name: String,
    args: Option<Box<RawValue>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultPart<'a> {
    function_response: FunctionResponse<'a>,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: String,
    response: Response,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Response {
    Output(Box<RawValue>),
    Error(String),
}

impl Format for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn mark(&self) -> &'static str {
        "candidates"
    }

    fn definitions(&self, tools: &[Described]) -> Vec<Value> {
        let declaration = |tool: &Described| {
            let mut declaration = json!({ "name": name(&tool.name), "description": tool.description });
            // There is no object without properties: such a function takes nothing.
            if let Some(parameters) = Inliner::parameters(&tool.input) {
                declaration["parameters"] = parameters;
            }
            declaration
        };
        let declarations: Vec<_> = tools.iter().map(declaration).collect();
        vec![json!({ "functionDeclarations": declarations })]
    }

    fn calls(&self, response: &str) -> serde_json::Result<Asked> {
        let Generated { response_id, candidates } = serde_json::from_str(response)?;
        let parts = candidates.into_iter().filter_map(|candidate| candidate.content?.parts).flatten();
        let calls = parts.filter_map(|part| part.function_call).map(|call| {
            // Functions without parameters are called without.
            let arguments = call.args.map_or_else(|| Ok(Default::default()), |args| anthropic::sent(Some(args)));
            Call { id: call.id, name: meant(call.name), arguments }
        });
        Ok(Asked { id: response_id, calls: calls.collect() })
    }

    fn result(&self, call: &Call, said: Said) -> serde_json::Result<Box<RawValue>> {
        let response = match said.outcome {
            Ok(Some(output)) => Response::Output(output),
            Ok(None) => Response::Output(to_raw_value(&said.text)?),
            Err(_) => Response::Error(said.text),
        };
        let function_response = FunctionResponse { id: call.id.as_deref(), name: name(&call.name), response };
        to_raw_value(&ResultPart { function_response })
    }
}

/// A tool's name here, where none begins with a digit. No tool's own name begins with `_`.
fn name(tool: &str) -> String {
    if tool.starts_with(|first: char| first.is_ascii_digit()) { format!("_{tool}") } else { tool.to_owned() }
}

/// The tool that is meant by a name.
fn meant(name: String) -> String {
    match name.strip_prefix('_') {
        Some(tool) if tool.starts_with(|first: char| first.is_ascii_digit()) => tool.to_owned(),
        _ => name,
    }
}
