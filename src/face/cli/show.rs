//! `skillvisor show`.

use serde_json::Value;

use super::client::Client;
use super::exit::{Exit, Failure};
use super::json_text;
use super::output::Output;
use super::{sample, table, value};

/// Show one skill: state, functions, schemas, grants and limits
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor show hello
  skillvisor show 'weather@^1' --json")]
pub(super) struct ShowArgs {
    /// The skill: NAME, NAME@VERSION-OR-RANGE, or its id
    #[arg(value_name = "REF")]
    pub(super) reference: String,
}

pub(super) async fn run(output: Output, client: &Client, args: &ShowArgs) -> Result<Exit, Failure> {
    let reply = client.get(&["api", "skills", &args.reference], &[]).await?;
    if output.json {
        output.json_text(&reply.text)?;
    } else {
        output.line(&page(&reply.json()?))?;
    }
    Ok(Exit::Success)
}

/// The skill on a page.
fn page(skill: &Value) -> String {
    let text = |name| value::text(skill, name);
    let joined = |name| value::texts(skill, name).join(", ");
    let mut parts = vec![value::facts(&[
        ("skill", value::address(skill)),
        ("about", text("description")),
        ("state", value::standing(skill)),
        ("problem", text("problem")),
        ("mode", text("mode")),
        ("owner", text("owner")),
        ("tags", joined("tags")),
        ("aliases", joined("aliases")),
        ("approval", Some(text("approval")).filter(|word| word != "none").unwrap_or_default()),
        ("id", text("id")),
        ("digest", text("digest")),
        ("from", skill.get("source").map(|source| value::text(source, "from")).unwrap_or_default()),
        ("limits", members(skill.get("limits"))),
        ("grants", members(skill.get("grants"))),
        ("imports", joined("imports")),
        ("created", text("createdAt")),
    ])];
    parts.extend(value::list(skill, "functions").iter().map(function));
    parts
        .extend(value::texts(skill, "warnings").iter().map(|warning| format!("warning: {}", table::one_line(warning))));
    parts.push(format!("run it: {}", sample::run_command(skill)));
    parts.join("\n\n")
}

/// A function with its input schema.
fn function(function: &Value) -> String {
    let mut lines = vec![format!("function {}", value::text(function, "name"))];
    let about = table::one_line(&value::text(function, "description"));
    lines.extend(Some(about).filter(|about| !about.is_empty()).map(|about| format!("  {about}")));
    if function.get("callable") == Some(&Value::Bool(false)) {
        lines.push(format!("  cannot be called: {}", table::one_line(&value::text(function, "reason"))));
    }
    for side in ["input", "output"] {
        let schema = function.get("schema").and_then(|schema| schema.get(side)).filter(|schema| !schema.is_null());
        if let Some(schema) = schema {
            let laid = json_text::pretty(&schema.to_string()).replace('\n', "\n  ");
            lines.push(format!("  {side}: {laid}"));
        }
    }
    lines.join("\n")
}

/// `name=value` of those members that say something.
fn members(value: Option<&Value>) -> String {
    let says = |value: &&Value| match value {
        Value::Null => false,
        Value::Bool(on) => *on,
        Value::Array(list) => !list.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::String(text) => text != "none",
        Value::Number(_) => true,
    };
    let members = value.and_then(Value::as_object).into_iter().flatten().filter(|(_, value)| says(value));
    members.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_skill_is_told_on_one_page() {
        let skill = json!({
            "name": "hello", "version": "1.0.0", "description": "Greets.", "state": "ready", "enabled": true,
            "mode": "on", "owner": "admin", "problem": null, "tags": [], "id": "i", "digest": "sha256:d",
            "grants": { "workspace": "none", "network": [], "kv": false, "config": {} }, "limits": { "timeoutMs": 5 },
            "functions": [{ "name": "run", "description": "", "callable": true, "schema": { "input": { "type": "object" } } }],
            "warnings": ["old\nworld"], "schema": {},
        });
        insta::assert_snapshot!(page(&skill), @r#"
        skill   hello@1.0.0
        about   Greets.
        state   ready
        mode    on
        owner   admin
        id      i
        digest  sha256:d
        limits  timeoutMs=5

        function run
          input: {
            "type": "object"
          }

        warning: old world

        run it: skillvisor exec hello@1.0.0
        "#);
    }
}
