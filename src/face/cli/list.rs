//! `skillvisor list`.

use serde_json::{Value, json};

use super::client::Client;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::value;

/// List skills: your own and the global ones
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor list
  skillvisor list --q weather --json")]
pub(super) struct ListArgs {
    /// Only those with this text in their name or description
    #[arg(long, value_name = "TEXT")]
    q: Option<String>,
    /// Only those with this mode
    #[arg(long, value_parser = ["on", "auto", "off"])]
    mode: Option<String>,
    /// Only those from this source (`sourceProvider`)
    #[arg(long)]
    source: Option<String>,
    /// Only those with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only those of this owner
    #[arg(long)]
    owner: Option<String>,
}

pub(super) async fn run(output: Output, client: &Client, args: &ListArgs) -> Result<Exit, Failure> {
    let (skills, total) = all(client, args).await?;
    if output.json {
        output.json(&json!({ "skills": skills, "nextCursor": null, "total": total }))?;
        return Ok(Exit::Success);
    }
    if skills.is_empty() {
        let filtered =
            [&args.q, &args.mode, &args.source, &args.tag, &args.owner].iter().any(|filter| filter.is_some());
        let note = if filtered { "no skill matches" } else { "no skills; `skillvisor push FILE.wasm` uploads one" };
        output.note(note);
        return Ok(Exit::Success);
    }
    let row = |skill: &Value| {
        let text = |name| value::text(skill, name);
        vec![value::address(skill), value::standing(skill), text("mode"), text("owner"), text("description")]
    };
    let rows: Vec<_> = skills.iter().map(row).collect();
    output.table(&["SKILL", "STATE", "MODE", "OWNER", "DESCRIPTION"], &rows)?;
    Ok(Exit::Success)
}

/// Every page.
async fn all(client: &Client, args: &ListArgs) -> Result<(Vec<Value>, Value), Failure> {
    let mut skills = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let query = [
            ("q", args.q.as_deref()),
            ("mode", args.mode.as_deref()),
            ("source", args.source.as_deref()),
            ("tag", args.tag.as_deref()),
            ("owner", args.owner.as_deref()),
            ("cursor", cursor.as_deref()),
            ("limit", Some("500")),
        ];
        let page = client.get(&["api", "skills"], &query).await?.json()?;
        skills.extend_from_slice(value::list(&page, "skills"));
        match page.get("nextCursor").and_then(Value::as_str) {
            Some(next) if cursor.as_deref() != Some(next) => cursor = Some(next.to_owned()),
            _ => return Ok((skills, page.get("total").cloned().unwrap_or_default())),
        }
    }
}
