//! JSON Schemas, compiled once and used for every call.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use crate::model::{Code, Error, FieldError, plain};

/// Longest schema as JSON text, in bytes.
const MAX_SCHEMA_BYTES: usize = 256 << 10;
/// Deepest nesting of a schema.
const MAX_SCHEMA_DEPTH: usize = 64;
/// Most failures that are reported at once.
const MAX_FAILURES: usize = 50;
/// Longest text of one failure, in bytes.
const MAX_FAILURE_BYTES: usize = 200;
/// Steps back that one pattern may take on one text.
const MAX_BACKTRACKS: usize = 100_000;

/// A compiled JSON Schema: draft 2020-12 unless it names another. Nothing is fetched.
#[derive(Debug)]
pub struct Checker(Validator);

impl Checker {
    /// Compiles `schema`.
    ///
    /// # Errors
    ///
    /// `invalid_manifest` if it is not a schema, too large, or refers to something elsewhere.
    pub fn compile(schema: &Value) -> Result<Self, Error> {
        if schema.to_string().len() > MAX_SCHEMA_BYTES || depth(schema) > MAX_SCHEMA_DEPTH {
            let detail = format!("the schema is larger than {MAX_SCHEMA_BYTES} bytes or {MAX_SCHEMA_DEPTH} levels");
            return Err(Error::at(Code::InvalidManifest, "", detail));
        }
        let patterns = PatternOptions::fancy_regex().backtrack_limit(MAX_BACKTRACKS);
        jsonschema::options().with_pattern_options(patterns).build(schema).map(Self).map_err(|error| {
            let place = error.instance_path().to_string();
            let detail = plain(&error.masked().to_string(), MAX_FAILURE_BYTES);
            Error::at(Code::InvalidManifest, place, format!("not a usable JSON Schema: {detail}"))
        })
    }

    /// Checks `value`, and gives every failure with its place.
    ///
    /// # Errors
    ///
    /// The failures, at most 50; texts name the rule and not the value, which may be secret.
    pub fn check(&self, value: &Value) -> Result<(), Vec<FieldError>> {
        if self.0.is_valid(value) {
            return Ok(());
        }
        let failures = self.0.iter_errors(value).take(MAX_FAILURES);
        let failure = |error: jsonschema::ValidationError<'_>| {
            FieldError::new(error.instance_path().to_string(), plain(&error.masked().to_string(), MAX_FAILURE_BYTES))
        };
        Err(failures.map(failure).collect())
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_failure_is_told_with_its_place_and_without_the_value() {
        let schema = json!({
            "type": "object", "required": ["city"],
            "properties": { "days": { "type": "integer" }, "pin": { "type": "string", "maxLength": 3 } },
        });
        let checker = Checker::compile(&schema).unwrap();
        assert!(checker.check(&json!({ "city": "Lisbon", "days": 2 })).is_ok());
        let failures = checker.check(&json!({ "days": "x", "pin": "secret" })).unwrap_err();
        let mut places: Vec<_> = failures.iter().map(|failure| failure.pointer.as_str()).collect();
        places.sort_unstable();
        assert_eq!(places, ["", "/days", "/pin"]);
        assert!(failures.iter().all(|failure| !failure.detail.contains("secret")), "{failures:?}");
    }

    #[test]
    fn remote_references_and_nonsense_are_refused() {
        for bad in [
            json!({ "$ref": "https://schema.example/x.json" }),
            json!({ "$ref": "file:///etc/passwd" }),
            json!({ "type": "strin" }),
            json!({ "pattern": "(" }),
            json!(7),
        ] {
            assert_eq!(Checker::compile(&bad).unwrap_err().code, Code::InvalidManifest, "{bad}");
        }
    }
}
