//! The run that a call of a tool asks for.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::model::{Code, Error, ExecutionRequest, StrictJson, quotable};
use crate::registry::ToolRef;

use super::schema;

/// The run that a call with these arguments asks for.
///
/// # Errors
///
/// `invalid_args` where the tool wraps what its skill takes, and the arguments do not.
pub(in crate::face) fn request(tool: &ToolRef, arguments: StrictJson) -> Result<ExecutionRequest, Error> {
    let arguments = if schema::is_wrapped(input_of(tool)) { unwrapped(&arguments)? } else { arguments };
    Ok(ExecutionRequest::new(tool.reference(), arguments))
}

/// An error with the places of wrong arguments in those that the caller sent.
pub(in crate::face) fn of_caller(error: Error, tool: &ToolRef) -> Error {
    if error.code == Code::InvalidArgs && schema::is_wrapped(input_of(tool)) {
        return error.below(&format!("/{}", schema::WRAPPED));
    }
    error
}

fn input_of(tool: &ToolRef) -> Option<&Value> {
    tool.skill.skill.functions.get(tool.function)?.schema.input.as_ref()
}

/// The one argument of a skill that takes something that is no object.
fn unwrapped(arguments: &StrictJson) -> Result<StrictJson, Error> {
    let invalid = |place: &str, why: &str| Error::at(Code::InvalidArgs, format!("/{place}"), why);
    let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(arguments.text())
        .map_err(|_| Error::at(Code::InvalidArgs, "", "the arguments must be an object"))?;
    let value = members.remove(schema::WRAPPED).ok_or_else(|| invalid(schema::WRAPPED, "is required"))?;
    match members.keys().next() {
        Some(other) => Err(invalid(&quotable(other), "is not known; the one argument is `value`")),
        None => StrictJson::from_raw(value),
    }
}
