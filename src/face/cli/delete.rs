//! `skillvisor delete`.

use reqwest::Method;
use serde_json::json;

use super::client::Client;
use super::exit::{Exit, Failure};
use super::output::Output;

/// Delete one version of a skill
///
/// Its executions stay on record. The same bytes may be pushed again under this version;
/// different ones never.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor delete weather@1.2.0")]
pub(super) struct DeleteArgs {
    /// The skill, as NAME@VERSION or by id
    #[arg(value_name = "REF")]
    pub(super) reference: String,
}

pub(super) async fn run(output: Output, client: &Client, args: &DeleteArgs) -> Result<Exit, Failure> {
    client.send_empty(Method::DELETE, &["api", "skills", &args.reference]).await?;
    if output.json {
        // The API's own answer is empty.
        output.json(&json!({ "deleted": args.reference }))?;
    } else {
        output.note(&format!("deleted {}", args.reference));
    }
    Ok(Exit::Success)
}
