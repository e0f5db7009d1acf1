//! `skillvisor approve`.

use reqwest::Method;

use super::client::Client;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::value;

/// Let a version run that waits for approval; `skillvisor diff` shows what it may do more
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor approve weather@1.3.0")]
pub(super) struct ApproveArgs {
    /// The skill, as NAME@VERSION or by id
    #[arg(value_name = "REF")]
    reference: String,
}

pub(super) async fn run(output: Output, client: &Client, args: &ApproveArgs) -> Result<Exit, Failure> {
    let reply = client.send_empty(Method::POST, &["api", "skills", &args.reference, "approve"]).await?;
    if output.json {
        output.json_text(&reply.text)?;
    } else {
        let skill = reply.json()?;
        let address = value::address(&skill);
        let waited = value::text(&skill, "approval") == "approved";
        output.note(&if waited { format!("{address} is approved") } else { format!("{address} needs no approval") });
    }
    Ok(Exit::Success)
}
