//! Example arguments for a skill, from its input schema.

use serde_json::{Map, Value, json};

use super::table::shell_word;
use super::value;

/// Deepest level that is filled in.
const MAX_DEPTH: u32 = 4;

/// The command that runs a skill, or the first of its functions where it has several.
pub(super) fn run_command(skill: &Value) -> String {
    let address = value::address(skill);
    let callable = |function: &&Value| function.get("callable") != Some(&Value::Bool(false));
    let functions: Vec<&Value> = value::list(skill, "functions").iter().filter(callable).collect();
    let input = |of: &Value| of.get("schema")?.get("input").filter(|input| !input.is_null()).cloned();
    let first = functions.first().and_then(|function| input(function));
    match functions[..] {
        [function, _, ..] => exec_command(&format!("{address}#{}", value::text(function, "name")), first.as_ref()),
        _ => exec_command(&address, input(skill).or(first).as_ref()),
    }
}

/// The command that runs what `reference` names, with example arguments where it takes some.
fn exec_command(reference: &str, input: Option<&Value>) -> String {
    let args = input.map(|schema| sample(schema, 0)).filter(|args| *args != json!({}) && !args.is_null());
    let args = args.map(|args| format!(" --args {}", shell_word(&args.to_string()))).unwrap_or_default();
    format!("skillvisor exec {}{args}", shell_word(reference))
}

/// A value that a schema most likely allows.
fn sample(schema: &Value, depth: u32) -> Value {
    let first = |name| schema.get(name).and_then(Value::as_array).and_then(|list| list.first());
    let given =
        schema.get("const").or_else(|| first("examples")).or_else(|| schema.get("default")).or_else(|| first("enum"));
    if let Some(given) = given {
        return given.clone();
    }
    if let Some(choice) = first("oneOf").or_else(|| first("anyOf")).filter(|_| depth < MAX_DEPTH) {
        return sample(choice, depth + 1);
    }
    let kind = schema.get("type").and_then(|kind| kind.as_str().or_else(|| kind.get(0)?.as_str()));
    match kind {
        Some("string") => Value::from("text"),
        Some("integer" | "number") => {
            let least = schema.get("minimum").filter(|least| least.as_f64().is_some_and(|least| least > 1.0));
            least.cloned().unwrap_or_else(|| Value::from(1))
        }
        Some("boolean") => Value::from(true),
        Some("array") if schema.get("prefixItems").is_some() && depth < MAX_DEPTH => {
            let items = schema.get("prefixItems").and_then(Value::as_array);
            items.into_iter().flatten().map(|item| sample(item, depth + 1)).collect()
        }
        Some("array") => {
            let wanted = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0).min(3);
            let item = schema.get("items").map_or(Value::Null, |items| sample(items, depth + 1));
            (0..wanted).map(|_| item.clone()).collect()
        }
        Some("null") => Value::Null,
        _ => object(schema, depth),
    }
}

/// An object with what must be there; with its first member if nothing must.
fn object(schema: &Value, depth: u32) -> Value {
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    if depth >= MAX_DEPTH {
        return json!({});
    }
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let first = properties.keys().next().map(String::as_str).filter(|_| depth == 0);
    let wanted = if required.is_empty() { first.into_iter().collect() } else { required };
    let member = |name: &str| {
        let schema = properties.get(name).unwrap_or(&Value::Null);
        (name.to_owned(), sample(schema, depth + 1))
    };
    Value::Object(wanted.into_iter().map(member).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_members_are_filled_in() {
        let schema = json!({
            "type": "object", "required": ["city", "days"],
            "properties": { "city": { "type": "string", "examples": ["Lisbon"] }, "days": { "type": "integer" }, "x": {} },
        });
        let command = exec_command("weather@1.0.0", Some(&schema));
        assert_eq!(command, r#"skillvisor exec weather@1.0.0 --args '{"city":"Lisbon","days":1}'"#);
    }

    #[test]
    fn a_skill_without_arguments_is_called_without() {
        assert_eq!(exec_command("a", None), "skillvisor exec a");
        assert_eq!(exec_command("a", Some(&json!({ "type": "object" }))), "skillvisor exec a");
        assert_eq!(exec_command("a", Some(&json!(true))), "skillvisor exec a");
    }

    #[test]
    fn of_several_functions_the_first_that_can_be_called_is_named() {
        let pair = json!({ "type": "array", "prefixItems": [{ "type": "string" }, { "type": "boolean" }] });
        let number = json!({ "type": "integer", "minimum": -128, "maximum": 127 });
        let input = json!({ "type": "object", "properties": { "a": pair, "b": number }, "required": ["a", "b"] });
        let function = json!({ "name": "go", "callable": true, "schema": { "input": input } });
        let hidden = json!({ "name": "new", "callable": false, "schema": {} });
        let mut skill = json!({ "name": "a", "version": "1.0.0", "schema": {}, "functions": [hidden, function] });
        assert_eq!(run_command(&skill), r#"skillvisor exec a@1.0.0 --args '{"a":["text",true],"b":1}'"#);
        skill["functions"][0]["callable"] = json!(true);
        assert_eq!(run_command(&skill), "skillvisor exec 'a@1.0.0#new'");
    }

    #[test]
    fn a_schema_that_refers_to_itself_has_an_end() {
        let mut schema = json!({ "type": "object", "required": ["a"] });
        for _ in 0..20 {
            schema = json!({ "type": "object", "required": ["a"], "properties": { "a": schema } });
        }
        assert!(exec_command("a", Some(&schema)).len() < 100);
    }
}
