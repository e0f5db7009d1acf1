//! `skillvisor enable` and `skillvisor disable`.

use reqwest::Method;
use serde_json::json;

use super::client::Client;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::value;

/// Make a skill runnable again
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor enable weather@1.2.0")]
pub(super) struct EnableArgs {
    /// The skill: NAME, NAME@VERSION, or its id
    #[arg(value_name = "REF")]
    pub(super) reference: String,
}

/// Keep a skill from being run, without deleting it
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor disable weather@1.2.0")]
pub(super) struct DisableArgs {
    /// The skill: NAME, NAME@VERSION, or its id
    #[arg(value_name = "REF")]
    pub(super) reference: String,
}

pub(super) async fn run(output: Output, client: &Client, reference: &str, enabled: bool) -> Result<Exit, Failure> {
    let body = json!({ "enabled": enabled }).to_string();
    let reply = client.send_json(Method::PATCH, &["api", "skills", reference], body).await?;
    if output.json {
        output.json_text(&reply.text)?;
    } else {
        let verb = if enabled { "enabled" } else { "disabled" };
        output.note(&format!("{verb} {}", value::address(&reply.json()?)));
    }
    Ok(Exit::Success)
}
