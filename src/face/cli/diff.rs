//! `skillvisor diff`.

use serde_json::Value;

use super::client::Client;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::{table, value};

/// Show what a version may do or tells models that the one before it does not
///
/// Grants, limits, functions, descriptions and schemas. A `+` marks what is more than before.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor diff weather@1.3.0
  skillvisor diff weather@1.3.0 --from stable")]
pub(super) struct DiffArgs {
    /// The skill: NAME, NAME@VERSION-OR-RANGE, or its id
    #[arg(value_name = "REF")]
    reference: String,
    /// Compare with this version, range or alias
    #[arg(long, value_name = "VERSION")]
    from: Option<String>,
}

pub(super) async fn run(output: Output, client: &Client, args: &DiffArgs) -> Result<Exit, Failure> {
    let query = [("from", args.from.as_deref())];
    let reply = client.get(&["api", "skills", &args.reference, "diff"], &query).await?;
    if output.json {
        output.json_text(&reply.text)?;
    } else {
        output.line(&page(&reply.json()?))?;
    }
    Ok(Exit::Success)
}

/// The difference on a page.
fn page(difference: &Value) -> String {
    let (skill, from) = (value::text(difference, "skill"), value::text(difference, "from"));
    let from = if from.is_empty() { "nothing: it is the first version".to_owned() } else { from };
    let mut lines = vec![format!("{skill} against {from}")];
    let changes = value::list(difference, "changes");
    if changes.is_empty() {
        lines.push("  nothing differs in what it may do and what it tells models".to_owned());
    }
    for change in changes {
        let mark = if change.get("grows") == Some(&Value::Bool(true)) { '+' } else { ' ' };
        lines.push(format!(
            "{mark} {}: {}",
            value::text(change, "path"),
            table::one_line(&value::text(change, "says"))
        ));
    }
    if value::text(difference, "approval") == "pending" {
        lines.push(format!("it waits for approval: skillvisor approve {skill}"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_grows_is_marked_and_what_waits_says_what_to_do() {
        let changes = json!([
            { "path": "/grants/kv", "grows": true, "says": "it may keep values" },
            { "path": "/limits/fuel", "grows": false, "says": "limits.fuel is 1" },
        ]);
        let value = json!({ "skill": "a@1.1.0", "from": "a@1.0.0", "approval": "pending", "changes": changes });
        insta::assert_snapshot!(page(&value), @r"
        a@1.1.0 against a@1.0.0
        + /grants/kv: it may keep values
          /limits/fuel: limits.fuel is 1
        it waits for approval: skillvisor approve a@1.1.0
        ");
    }
}
