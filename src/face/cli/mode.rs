//! `skillvisor mode`.

use reqwest::Method;
use serde_json::json;

use super::client::Client;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::value;

/// Set how a skill is offered: on, auto (to a model only when relevant), or off (not runnable)
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor mode weather@1.2.0 auto")]
pub(super) struct ModeArgs {
    /// The skill: NAME, NAME@VERSION, or its id
    #[arg(value_name = "REF")]
    reference: String,
    /// The mode
    #[arg(value_parser = ["on", "auto", "off"])]
    mode: String,
}

pub(super) async fn run(output: Output, client: &Client, args: &ModeArgs) -> Result<Exit, Failure> {
    let body = json!({ "mode": args.mode }).to_string();
    let reply = client.send_json(Method::PATCH, &["api", "skills", &args.reference], body).await?;
    if output.json {
        output.json_text(&reply.text)?;
    } else {
        output.note(&format!("{} has mode {}", value::address(&reply.json()?), args.mode));
    }
    Ok(Exit::Success)
}
