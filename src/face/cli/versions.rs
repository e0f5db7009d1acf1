//! `skillvisor versions`.

use serde_json::{Value, json};

use super::client::Client;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::value;

/// List the versions of a skill, highest first, with their aliases
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor versions weather")]
pub(super) struct VersionsArgs {
    /// The skill's name, or the id of one of its versions
    #[arg(value_name = "NAME")]
    pub(super) name: String,
}

pub(super) async fn run(output: Output, client: &Client, args: &VersionsArgs) -> Result<Exit, Failure> {
    let (versions, total) = all(client, &args.name).await?;
    if output.json {
        output.json(&json!({ "versions": versions, "nextCursor": null, "total": total }))?;
        return Ok(Exit::Success);
    }
    let row = |skill: &Value| {
        let text = |name| value::text(skill, name);
        let aliases = value::texts(skill, "aliases").join(", ");
        vec![text("version"), aliases, value::standing(skill), text("mode"), text("owner"), text("createdAt")]
    };
    let rows: Vec<_> = versions.iter().map(row).collect();
    output.table(&["VERSION", "ALIASES", "STATE", "MODE", "OWNER", "CREATED"], &rows)?;
    Ok(Exit::Success)
}

/// Every page.
pub(super) async fn all(client: &Client, name: &str) -> Result<(Vec<Value>, Value), Failure> {
    let mut versions = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let query = [("cursor", cursor.as_deref()), ("limit", Some("500"))];
        let page = client.get(&["api", "skills", name, "versions"], &query).await?.json()?;
        versions.extend_from_slice(value::list(&page, "versions"));
        match page.get("nextCursor").and_then(Value::as_str) {
            Some(next) if cursor.as_deref() != Some(next) => cursor = Some(next.to_owned()),
            _ => return Ok((versions, page.get("total").cloned().unwrap_or_default())),
        }
    }
}
