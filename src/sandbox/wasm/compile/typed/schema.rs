//! JSON Schemas (draft 2020-12) of types. `docs/skills.md` has the same as a table.

use serde_json::{Map, Value, json};

use crate::sandbox::shape::{Case, Field, WitType};

/// The largest 32-bit float, as the shortest text that means it.
const F32_MAX: f64 = 3.402_823_5e38;

/// The schema of an object with the parameters of a function.
pub(super) fn input(params: &[Field]) -> Value {
    object(params)
}

/// The schema of what a function gives, where that is no error.
pub(super) fn output(result: Option<&WitType>) -> Value {
    match result {
        Some(WitType::Result { ok, .. }) => payload(ok.as_deref()),
        result => payload(result),
    }
}

/// The schema of the values of a type.
pub(in crate::sandbox::wasm) fn of(ty: &WitType) -> Value {
    match ty {
        WitType::Bool => json!({ "type": "boolean" }),
        WitType::S8 => integer(i8::MIN, i8::MAX),
        WitType::U8 => integer(u8::MIN, u8::MAX),
        WitType::S16 => integer(i16::MIN, i16::MAX),
        WitType::U16 => integer(u16::MIN, u16::MAX),
        WitType::S32 => integer(i32::MIN, i32::MAX),
        WitType::U32 => integer(u32::MIN, u32::MAX),
        WitType::S64 => integer(i64::MIN, i64::MAX),
        WitType::U64 => integer(u64::MIN, u64::MAX),
        WitType::F32 => float(json!({ "type": "number", "minimum": -F32_MAX, "maximum": F32_MAX })),
        WitType::F64 => float(json!({ "type": "number" })),
        WitType::Char => json!({ "type": "string", "minLength": 1, "maxLength": 1 }),
        WitType::String => json!({ "type": "string" }),
        WitType::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
        WitType::List(element) => json!({ "type": "array", "items": of(element) }),
        WitType::Array(element, length) => {
            json!({ "type": "array", "items": of(element), "minItems": length, "maxItems": length })
        }
        WitType::Tuple(types) => {
            let items: Vec<Value> = types.iter().map(of).collect();
            json!({ "type": "array", "prefixItems": items, "items": false, "minItems": types.len() })
        }
        WitType::Record(fields) => object(fields),
        WitType::Variant(cases) => any(cases.iter().map(case)),
        WitType::Enum(names) => json!({ "type": "string", "enum": names }),
        WitType::Flags(names) => json!({
            "type": "array", "items": { "type": "string", "enum": names }, "uniqueItems": true,
            "maxItems": names.len(),
        }),
        WitType::Option(inner) if inner.admits_null() => {
            any([only("some", of(inner)), json!({ "type": "null" })].into_iter())
        }
        WitType::Option(inner) => any([of(inner), json!({ "type": "null" })].into_iter()),
        WitType::Result { ok, err } => {
            any([only("ok", payload(ok.as_deref())), only("err", payload(err.as_deref()))].into_iter())
        }
    }
}

fn payload(ty: Option<&WitType>) -> Value {
    ty.map_or_else(|| json!({ "type": "null" }), of)
}

fn integer<T: serde::Serialize>(minimum: T, maximum: T) -> Value {
    json!({ "type": "integer", "minimum": minimum, "maximum": maximum })
}

fn float(number: Value) -> Value {
    any([number, json!({ "enum": ["NaN", "Infinity", "-Infinity"] })].into_iter())
}

fn any(of: impl Iterator<Item = Value>) -> Value {
    json!({ "anyOf": of.collect::<Vec<_>>() })
}

/// An object with one member.
fn only(name: &str, schema: Value) -> Value {
    json!({ "type": "object", "properties": { name: schema }, "required": [name], "additionalProperties": false })
}

fn object(fields: &[Field]) -> Value {
    let properties: Map<String, Value> = fields.iter().map(|field| (field.name.clone(), of(&field.ty))).collect();
    let required = fields.iter().filter(|field| !matches!(field.ty, WitType::Option(_)));
    let required: Vec<&str> = required.map(|field| field.name.as_str()).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn case(case: &Case) -> Value {
    let tag = json!({ "const": case.name });
    match &case.ty {
        None => only("tag", tag),
        Some(ty) => json!({
            "type": "object", "properties": { "tag": tag, "val": of(ty) }, "required": ["tag", "val"],
            "additionalProperties": false,
        }),
    }
}
