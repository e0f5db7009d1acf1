//! `skillvisor cancel`.

use reqwest::Method;

use super::client::Client;
use super::exit::{Exit, Failure};
use super::output::Output;

/// Cancel an execution that waits or runs
///
/// Returns when its guest has ended. What it has done stays done; its record says `cancelled`.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor logs --status running
  skillvisor cancel 0198c0de-0000-7000-8000-000000000000")]
pub(super) struct CancelArgs {
    /// The execution, by its id
    #[arg(value_name = "ID")]
    id: String,
}

pub(super) async fn run(output: Output, client: &Client, args: &CancelArgs) -> Result<Exit, Failure> {
    let path = ["api", "skills", "executions", &args.id, "cancel"];
    let reply = client.send_empty(Method::POST, &path).await?;
    if output.json {
        output.json_text(&reply.text)?;
    } else {
        output.note(&format!("cancelled {}", args.id));
    }
    Ok(Exit::Success)
}
