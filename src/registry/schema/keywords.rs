//! The words of JSON Schema, and what stands behind each.

use serde_json::Value;

/// Whether `word` is the name of a type.
pub(super) fn is_type(word: &str) -> bool {
    matches!(word, "string" | "number" | "integer" | "boolean" | "object" | "array" | "null")
}

/// What the value of a keyword looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A type word, or a list of them.
    Words,
    /// A text.
    Text,
    /// A boolean.
    Flag,
    /// A number; in draft 4 some are flags.
    Number,
    /// A list of anything.
    List,
    /// An object of anything.
    Object,
    /// A schema; `items` may be a list of them.
    Schema,
    /// Schemas in a list.
    SchemaList,
    /// Schemas by name.
    Schemas,
    /// Anything.
    Any,
}

impl Shape {
    /// Whether `value` looks like it.
    pub(super) fn fits(self, value: &Value) -> bool {
        let is_word = |value: &Value| value.as_str().is_some_and(is_type);
        let is_schema = |value: &Value| value.is_object() || value.is_boolean() || value.is_array() || is_word(value);
        match self {
            Self::Words => is_word(value) || value.as_array().is_some_and(|words| words.iter().all(is_word)),
            Self::Text => value.is_string(),
            Self::Flag => value.is_boolean(),
            Self::Number => value.is_number() || value.is_boolean(),
            Self::List | Self::SchemaList => value.is_array(),
            Self::Object => value.is_object(),
            Self::Schema => is_schema(value),
            Self::Schemas => value.as_object().is_some_and(|schemas| schemas.values().all(is_schema)),
            Self::Any => true,
        }
    }
}

/// The keywords of all drafts, and what OpenAPI adds.
pub(super) fn shape(keyword: &str) -> Option<Shape> {
    Some(match keyword {
        "type" => Shape::Words,
        "$id" | "$schema" | "$ref" | "$anchor" | "$dynamicRef" | "$dynamicAnchor" | "$recursiveRef" | "$comment"
        | "title" | "description" | "format" | "pattern" | "contentEncoding" | "contentMediaType" => Shape::Text,
        "$recursiveAnchor" | "uniqueItems" | "readOnly" | "writeOnly" | "deprecated" | "nullable" => Shape::Flag,
        "multipleOf" | "maximum" | "minimum" | "exclusiveMaximum" | "exclusiveMinimum" | "maxLength" | "minLength"
        | "maxItems" | "minItems" | "maxContains" | "minContains" | "maxProperties" | "minProperties" => Shape::Number,
        "enum" | "required" | "examples" => Shape::List,
        "$vocabulary" | "dependentRequired" | "discriminator" | "xml" | "externalDocs" => Shape::Object,
        "additionalItems"
        | "additionalProperties"
        | "contains"
        | "contentSchema"
        | "else"
        | "if"
        | "items"
        | "not"
        | "propertyNames"
        | "then"
        | "unevaluatedItems"
        | "unevaluatedProperties" => Shape::Schema,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Shape::SchemaList,
        "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties" | "properties" => {
            Shape::Schemas
        }
        "const" | "default" | "example" => Shape::Any,
        _ => return None,
    })
}
