//! `skillvisor alias`.

use reqwest::Method;
use serde_json::{Value, json};

use super::client::Client;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::{value, versions};

/// Words that stand for versions: NAME@stable, which can be moved forward and back
#[derive(clap::Subcommand)]
pub(super) enum AliasCommand {
    Set(SetArgs),
    Rm(RmArgs),
    List(ListArgs),
}

/// Let an alias stand for a version, or move it there
///
/// Whoever calls NAME@ALIAS runs that version from then on. Moving it back is a rollback.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor alias set weather stable 1.3.0
  skillvisor alias set weather stable 1.2.0 --from 1.3.0")]
pub(super) struct SetArgs {
    /// The skill's name, or the id of one of its versions
    #[arg(value_name = "NAME")]
    name: String,
    /// The alias
    #[arg(value_name = "ALIAS")]
    alias: String,
    /// The version
    #[arg(value_name = "VERSION")]
    version: String,
    /// Only if it points to this version now
    #[arg(long, value_name = "VERSION")]
    from: Option<String>,
}

/// Delete an alias; the version stays
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor alias rm weather stable")]
pub(super) struct RmArgs {
    /// The skill's name, or the id of one of its versions
    #[arg(value_name = "NAME")]
    name: String,
    /// The alias
    #[arg(value_name = "ALIAS")]
    alias: String,
}

/// List the aliases of a skill
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor alias list weather")]
pub(super) struct ListArgs {
    /// The skill's name, or the id of one of its versions
    #[arg(value_name = "NAME")]
    name: String,
}

pub(super) async fn run(output: Output, client: &Client, command: AliasCommand) -> Result<Exit, Failure> {
    match command {
        AliasCommand::Set(args) => set(output, client, &args).await,
        AliasCommand::Rm(args) => remove(output, client, &args).await,
        AliasCommand::List(args) => list(output, client, &args).await,
    }
}

async fn set(output: Output, client: &Client, args: &SetArgs) -> Result<Exit, Failure> {
    let mut body = json!({ "version": args.version });
    if let Some(from) = &args.from {
        body["from"] = json!(from);
    }
    let path = ["api", "skills", &args.name, "aliases", &args.alias];
    let reply = client.send_json(Method::PUT, &path, body.to_string()).await?;
    if output.json {
        output.json_text(&reply.text)?;
    } else {
        let skill = reply.json()?;
        output.note(&format!("{}@{} is {}", value::text(&skill, "name"), args.alias, value::address(&skill)));
    }
    Ok(Exit::Success)
}

async fn remove(output: Output, client: &Client, args: &RmArgs) -> Result<Exit, Failure> {
    client.send_empty(Method::DELETE, &["api", "skills", &args.name, "aliases", &args.alias]).await?;
    if output.json {
        output.json(&json!({ "deleted": args.alias }))?;
    } else {
        output.note(&format!("deleted the alias {} of {}", args.alias, args.name));
    }
    Ok(Exit::Success)
}

async fn list(output: Output, client: &Client, args: &ListArgs) -> Result<Exit, Failure> {
    let (versions, _) = versions::all(client, &args.name).await?;
    let of = |skill: &Value| {
        let version = value::text(skill, "version");
        let aliases = value::texts(skill, "aliases");
        aliases.into_iter().map(|alias| vec![alias, version.clone()]).collect::<Vec<_>>()
    };
    let mut rows: Vec<_> = versions.iter().flat_map(of).collect();
    rows.sort();
    if output.json {
        let aliases: serde_json::Map<_, _> =
            rows.into_iter().filter_map(|row| <[String; 2]>::try_from(row).ok()).map(|[a, v]| (a, json!(v))).collect();
        output.json(&json!({ "aliases": aliases }))?;
    } else if rows.is_empty() {
        output.note(&format!("no aliases; `skillvisor alias set {} stable VERSION` makes one", args.name));
    } else {
        output.table(&["ALIAS", "VERSION"], &rows)?;
    }
    Ok(Exit::Success)
}
