//! `skillvisor secrets`. A value comes from a file, from stdin or from somebody who types it, and
//! never from an argument, where every user of the machine could read it.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use reqwest::Method;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::model::{MAX_SECRET_BYTES, SecretValue};

use super::client::Client;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::value;

/// Store, list, rotate and remove secrets
#[derive(clap::Subcommand)]
pub(super) enum SecretsCommand {
    Set(SetArgs),
    List(ListArgs),
    Rotate(RotateArgs),
    Rm(RmArgs),
}

/// Store a secret that the host puts into requests of skills
///
/// It goes to one origin in one header, and is never shown again. The value is read from
/// --value-file, else from stdin, else it is asked for at the terminal.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor secrets set WEATHER_TOKEN --for https://api.weather.example --header Authorization --prefix 'Bearer '
  skillvisor secrets set WEATHER_TOKEN --for https://api.weather.example --header X-Api-Key --value-file token.txt")]
pub(super) struct SetArgs {
    /// Its name, as manifests ask for it
    name: String,
    /// The only origin that gets it; https only
    #[arg(long = "for", value_name = "ORIGIN")]
    origin: String,
    /// The header that it goes into
    #[arg(long)]
    header: String,
    /// What stands before it there, such as 'Bearer ' with its space
    #[arg(long, default_value = "")]
    prefix: String,
    /// Let global skills use it for every owner; only with --owner system
    #[arg(long)]
    shared: bool,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    owner: Owner,
}

/// List secrets and where they go; what they are is never shown
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor secrets list")]
pub(super) struct ListArgs {
    #[command(flatten)]
    owner: Owner,
}

/// Give a secret another value; where it goes stays
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor secrets rotate WEATHER_TOKEN < token.txt")]
pub(super) struct RotateArgs {
    /// Its name
    name: String,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    owner: Owner,
}

/// Remove a secret
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor secrets rm WEATHER_TOKEN")]
pub(super) struct RmArgs {
    /// Its name
    name: String,
    #[command(flatten)]
    owner: Owner,
}

#[derive(clap::Args)]
struct Source {
    /// File that holds the value; `-` is stdin
    #[arg(long, value_name = "FILE")]
    value_file: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Owner {
    /// Whose it is, if not the key's own owner; admin keys only
    #[arg(long)]
    owner: Option<String>,
}

impl Owner {
    /// What stands behind the path.
    fn query(&self) -> Vec<(&'static str, Option<&str>)> {
        vec![("owner", self.owner.as_deref())]
    }
}

pub(super) async fn run(output: Output, client: &Client, command: SecretsCommand) -> Result<Exit, Failure> {
    match command {
        SecretsCommand::Set(args) => set(output, client, &args).await,
        SecretsCommand::List(args) => list(output, client, &args).await,
        SecretsCommand::Rotate(args) => rotate(output, client, &args).await,
        SecretsCommand::Rm(args) => remove(output, client, &args).await,
    }
}

async fn set(output: Output, client: &Client, args: &SetArgs) -> Result<Exit, Failure> {
    let value = args.source.read().await?;
    let SetArgs { origin, header, prefix, shared, .. } = args;
    let mut body = json!({ "value": value.reveal(), "for": origin, "header": header, "prefix": prefix });
    if *shared {
        body["shared"] = Value::Bool(true);
    }
    let path = ["api", "secrets", &args.name];
    let reply = client.send_json_to(Method::PUT, (&path, &args.owner.query()), body.to_string()).await?;
    tell(output, &reply.text, &reply.json()?, "stored")
}

async fn rotate(output: Output, client: &Client, args: &RotateArgs) -> Result<Exit, Failure> {
    let value = args.source.read().await?;
    let body = json!({ "value": value.reveal() }).to_string();
    let path = ["api", "secrets", &args.name];
    let reply = client.send_json_to(Method::PATCH, (&path, &args.owner.query()), body).await?;
    tell(output, &reply.text, &reply.json()?, "rotated")
}

fn tell(output: Output, text: &str, secret: &Value, verb: &str) -> Result<Exit, Failure> {
    if output.json {
        output.json_text(text)?;
    } else {
        let part = |name| value::text(secret, name);
        output.note(&format!("{verb} {}: goes to {} in {}", part("name"), part("for"), part("header")));
    }
    Ok(Exit::Success)
}

async fn list(output: Output, client: &Client, args: &ListArgs) -> Result<Exit, Failure> {
    let reply = client.get(&["api", "secrets"], &args.owner.query()).await?;
    if output.json {
        output.json_text(&reply.text)?;
        return Ok(Exit::Success);
    }
    let row = |secret: &Value| {
        let text = |name| value::text(secret, name);
        vec![text("name"), text("for"), text("header"), text("prefix"), text("shared"), text("updatedAt")]
    };
    let rows: Vec<_> = value::list(&reply.json()?, "secrets").iter().map(row).collect();
    output.table(&["NAME", "FOR", "HEADER", "PREFIX", "SHARED", "UPDATED"], &rows)?;
    Ok(Exit::Success)
}

async fn remove(output: Output, client: &Client, args: &RmArgs) -> Result<Exit, Failure> {
    let path = ["api", "secrets", &args.name];
    client.send_empty_to(Method::DELETE, (&path, &args.owner.query())).await?;
    if output.json {
        output.json(&json!({ "removed": args.name }))?;
    } else {
        output.note(&format!("removed {}", args.name));
    }
    Ok(Exit::Success)
}

impl Source {
    /// The value. Waiting for somebody to type it must not hold up signals.
    async fn read(&self) -> Result<SecretValue, Failure> {
        let file = self.value_file.clone();
        let read = tokio::task::spawn_blocking(move || read(file.as_deref()));
        let text = read.await.map_err(|error| Failure::internal(error.to_string()))??;
        SecretValue::new(text).map_err(|why| Failure::usage(format!("the value {why}")))
    }
}

fn read(file: Option<&Path>) -> Result<Zeroizing<String>, Failure> {
    match file {
        Some(path) if path != Path::new("-") => {
            let opened = std::fs::File::open(path).and_then(bounded);
            opened.map_err(|error| Failure::unreadable(path, &error))
        }
        None if std::io::stdin().is_terminal() => rpassword::prompt_password("Value (not shown): ")
            .map(Zeroizing::new)
            .map_err(|error| Failure::usage(format!("cannot read from the terminal: {error}"))),
        _ => bounded(std::io::stdin().lock())
            .map_err(|error| Failure::usage(format!("cannot read the value from stdin: {error}"))),
    }
}

/// The whole, or so much that it is too long for a value.
fn bounded(source: impl Read) -> std::io::Result<Zeroizing<String>> {
    let most = MAX_SECRET_BYTES + 3;
    // As large as it gets, so that growing leaves no copies behind.
    let mut text = Zeroizing::new(String::with_capacity(most));
    source.take(most as u64).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_from_a_file_without_its_line_end_and_no_further_than_it_may_go() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("value");
        std::fs::write(&file, "canary-123\r\n").unwrap();
        let value = SecretValue::new(read(Some(&file)).unwrap()).unwrap();
        assert_eq!(value.reveal(), "canary-123");
        std::fs::write(&file, "x".repeat(1 << 20)).unwrap();
        let text = read(Some(&file)).unwrap();
        assert!(text.len() < MAX_SECRET_BYTES + 10 && SecretValue::new(text).is_err());
        assert_eq!(read(Some(&dir.path().join("none"))).unwrap_err().exit, Exit::Usage);
    }
}
