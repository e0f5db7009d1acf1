//! `skillvisor owners`.

use reqwest::Method;
use serde_json::Value;

use super::client::Client;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::value;

/// List owners, and erase one with all it has
#[derive(clap::Subcommand)]
pub(super) enum OwnersCommand {
    List(ListArgs),
    Delete(DeleteArgs),
}

/// List everybody who has something here; needs an admin key
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor owners list")]
pub(super) struct ListArgs {}

/// Erase an owner: its keys, skills, files, secrets, results and what skills keep for it
///
/// Its runs are cancelled. Records of the audit stay and can still be verified, without what tells whose they were.
/// There is no way back. Needs an admin key of another owner.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor owners delete team-a --yes")]
pub(super) struct DeleteArgs {
    /// The owner
    owner: String,
    /// Erase without a way back: without this flag nothing is done
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(output: Output, client: &Client, command: OwnersCommand) -> Result<Exit, Failure> {
    match command {
        OwnersCommand::List(_) => list(output, client).await,
        OwnersCommand::Delete(args) => delete(output, client, &args).await,
    }
}

async fn list(output: Output, client: &Client) -> Result<Exit, Failure> {
    let reply = client.get(&["api", "owners"], &[]).await?;
    if output.json {
        output.json_text(&reply.text)?;
        return Ok(Exit::Success);
    }
    let row = |owner: &Value| ["id", "keys", "skills", "executions"].map(|name| value::text(owner, name)).to_vec();
    let rows: Vec<_> = value::list(&reply.json()?, "owners").iter().map(row).collect();
    output.table(&["OWNER", "KEYS", "SKILLS", "EXECUTIONS"], &rows)?;
    Ok(Exit::Success)
}

async fn delete(output: Output, client: &Client, args: &DeleteArgs) -> Result<Exit, Failure> {
    if !args.yes {
        return Err(Failure::usage(format!("this erases all that {} has, and there is no way back", args.owner))
            .hint("say --yes if that is meant"));
    }
    let reply = client.send_empty(Method::DELETE, &["api", "owners", &args.owner]).await?;
    if output.json {
        output.json_text(&reply.text)?;
    } else {
        let erased = value::text(&reply.json()?, "erased");
        output.note(&format!("erased {}; {erased} records of the audit are nobody's now", args.owner));
    }
    Ok(Exit::Success)
}
