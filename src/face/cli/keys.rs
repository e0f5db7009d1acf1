//! `skillvisor keys`.

use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::config::parse_duration;
use crate::model::{Clock, Scope};

use super::client::Client;
use super::exit::{Exit, Failure};
use super::limits::{self, Limit};
use super::output::Output;
use super::time::{Direction, point};
use super::{table, value};

/// Create, list and revoke keys
#[derive(clap::Subcommand)]
pub(super) enum KeysCommand {
    Create(Box<CreateArgs>),
    List(ListArgs),
    Show(ShowArgs),
    Revoke(RevokeArgs),
    Rotate(RotateArgs),
}

/// Create a key and print its secret, this once
///
/// Stdout gets the secret alone, so that KEY=$(skillvisor keys create NAME) works. A new key
/// may upload, run and look, and use its own workspace; network, secrets, calls of other skills
/// and containers are closed to it until a flag opens them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor keys create ci --owner team-a --scope skills:read --scope skills:write
  skillvisor keys create agent --owner team-a --scope skills:execute --expires 90d --network public")]
pub(super) struct CreateArgs {
    /// What people call it
    name: String,
    /// The namespace it acts in; one of its own if not given
    #[arg(long)]
    owner: Option<String>,
    /// What it may be used for; may be given several times
    #[arg(long = "scope", value_name = "SCOPE", value_parser = clap::builder::PossibleValuesParser::new(Scope::ALL.iter().map(|scope| scope.as_str())))]
    scopes: Vec<String>,
    /// When it ends: a duration such as 90d, or a time such as 2027-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    /// A skill it may see and run; all if none is given
    #[arg(long = "skill", value_name = "NAME")]
    skills: Vec<String>,
    /// Where its skills may connect to: `public`, or a rule such as `GET https://api.example/v1/*`
    #[arg(long, value_name = "RULE")]
    network: Vec<String>,
    /// A secret that its skills may use
    #[arg(long = "secret", value_name = "NAME")]
    secrets: Vec<String>,
    /// A skill that its skills may call: NAME or NAME@RANGE; may be given several times
    #[arg(long = "call", value_name = "NAME")]
    calls: Vec<String>,
    /// The most that its owner may leave lying, such as fileBytes=1000000, files=100 or kvBytes=100000; may be given
    /// several times
    #[arg(long = "storage", value_name = "NAME=VALUE", value_parser = limits::storage)]
    storage: Vec<Limit>,
    /// How often it may do something, such as executionsPerMinute=60
    #[arg(long = "rate", value_name = "NAME=VALUE", value_parser = limits::rate)]
    rates: Vec<Limit>,
    /// What it may use up in a UTC day, such as executionsPerDay=5000, fuelPerDay=1000000000 or
    /// egressBytesPerDay=100000000; may be given several times
    #[arg(long = "budget", value_name = "NAME=VALUE", value_parser = limits::budget)]
    budgets: Vec<Limit>,
    /// How far its skills may go in the workspace
    #[arg(long, value_parser = ["none", "read", "write"])]
    workspace: Option<String>,
    /// The most of a limit that its skills may have, such as timeoutMs=5000; may be given several times
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = limits::parse)]
    limits: Vec<Limit>,
    /// Open container skills to it
    #[arg(long)]
    containers: bool,
    /// Open code mode (`run_script`) to it
    #[arg(long)]
    code_mode: bool,
    /// Let its skills keep their instances between calls
    #[arg(long)]
    reuse: bool,
}

/// List keys; their secrets are not kept
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor keys list")]
pub(super) struct ListArgs {}

/// Show one key with its ceilings
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor keys show key_0123456789abcdef0123456789abcdef")]
pub(super) struct ShowArgs {
    /// Id of the key
    id: String,
}

/// End a key; it stops working with the next request
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor keys revoke key_0123456789abcdef0123456789abcdef
  skillvisor keys revoke --quarantine key_0123456789abcdef0123456789abcdef")]
pub(super) struct RevokeArgs {
    /// Id of the key
    id: String,
    /// Disable every skill that it registered, too, and cancel its runs and theirs
    #[arg(long)]
    quarantine: bool,
}

/// Give a key a new secret and print it, this once; owner, scopes and workspace stay
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor keys rotate key_0123456789abcdef0123456789abcdef --grace 1h")]
pub(super) struct RotateArgs {
    /// Id of the key
    id: String,
    /// How long the old secret still works, such as 10m
    #[arg(long, value_name = "DURATION")]
    grace: Option<String>,
}

pub(super) async fn run(output: Output, client: &Client, command: KeysCommand) -> Result<Exit, Failure> {
    match command {
        KeysCommand::Create(args) => create(output, client, &args).await,
        KeysCommand::List(_) => list(output, client).await,
        KeysCommand::Show(args) => show(output, client, &args.id).await,
        KeysCommand::Revoke(args) => revoke(output, client, &args).await,
        KeysCommand::Rotate(args) => rotate(output, client, &args).await,
    }
}

async fn create(output: Output, client: &Client, args: &CreateArgs) -> Result<Exit, Failure> {
    let body = create_body(args, Clock::System.now_ms())?;
    let reply = client.send_json(Method::POST, &["api", "keys"], body.to_string()).await?;
    tell_secret(output, &reply.text, &reply.json()?)
}

/// The request, with only what was said.
fn create_body(args: &CreateArgs, now_ms: i64) -> Result<Value, Failure> {
    let mut body = json!({ "name": args.name });
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body[name] = value;
        }
    };
    put("owner", args.owner.as_deref().map(Value::from));
    put("scopes", some_list(&args.scopes));
    let expires = args.expires.as_deref().map(|text| point(text, Direction::Ahead, now_ms)).transpose()?;
    put("expiresAt", expires.map(Value::from));
    put("skills", some_list(&args.skills));
    let mut ceilings = Map::new();
    let given = [
        ("network", some_list(&args.network)),
        ("secrets", some_list(&args.secrets)),
        ("skills", some_list(&args.calls)),
        ("rates", some_members(&args.rates)),
        ("budgets", some_members(&args.budgets)),
        ("storage", some_members(&args.storage)),
        ("workspace", args.workspace.as_deref().map(Value::from)),
        ("limits", some_members(&args.limits)),
        ("containers", args.containers.then_some(Value::Bool(true))),
        ("codeMode", args.code_mode.then_some(Value::Bool(true))),
        ("reuse", args.reuse.then_some(Value::Bool(true))),
    ];
    ceilings.extend(given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    put("ceilings", Some(Value::Object(ceilings)).filter(|value| *value != json!({})));
    Ok(body)
}

fn some_list(list: &[String]) -> Option<Value> {
    (!list.is_empty()).then(|| Value::from(list))
}

fn some_members(members: &[Limit]) -> Option<Value> {
    (!members.is_empty()).then(|| members.iter().cloned().collect::<Map<_, _>>().into())
}

/// Prints a secret: alone on stdout, with what goes with it on stderr.
fn tell_secret(output: Output, text: &str, key: &Value) -> Result<Exit, Failure> {
    if output.json {
        output.json_text(text)?;
        return Ok(Exit::Success);
    }
    output.note(&facts(key, Clock::System.now_ms()));
    output.note("secret, shown this once:");
    output.line(&value::text(key, "secret"))?;
    Ok(Exit::Success)
}

async fn list(output: Output, client: &Client) -> Result<Exit, Failure> {
    let reply = client.get(&["api", "keys"], &[]).await?;
    if output.json {
        output.json_text(&reply.text)?;
        return Ok(Exit::Success);
    }
    let now_ms = Clock::System.now_ms();
    let row = |key: &Value| {
        let text = |name| value::text(key, name);
        let scopes = value::texts(key, "scopes").join(",");
        vec![text("id"), text("name"), text("owner"), standing(key, now_ms), text("expiresAt"), scopes]
    };
    let rows: Vec<_> = value::list(&reply.json()?, "keys").iter().map(row).collect();
    output.table(&["ID", "NAME", "OWNER", "STATE", "EXPIRES", "SCOPES"], &rows)?;
    Ok(Exit::Success)
}

async fn show(output: Output, client: &Client, id: &str) -> Result<Exit, Failure> {
    let reply = client.get(&["api", "keys", id], &[]).await?;
    if output.json {
        output.json_text(&reply.text)?;
    } else {
        output.line(&facts(&reply.json()?, Clock::System.now_ms()))?;
    }
    Ok(Exit::Success)
}

async fn revoke(output: Output, client: &Client, args: &RevokeArgs) -> Result<Exit, Failure> {
    let (id, quarantine) = (&args.id, args.quarantine.then_some("true"));
    client.remove(&["api", "keys", id], &[("quarantine", quarantine)]).await?;
    if output.json {
        output.json(&json!({ "revoked": id }))?;
    } else {
        output.note(&format!("revoked {id}"));
    }
    Ok(Exit::Success)
}

async fn rotate(output: Output, client: &Client, args: &RotateArgs) -> Result<Exit, Failure> {
    let grace = match args.grace.as_deref() {
        None => 0,
        Some(text) => parse_duration(text)
            .map(|grace| grace.as_secs())
            .ok_or_else(|| Failure::usage(format!("--grace: {text:?} is no duration such as 10m or 1h")))?,
    };
    let body = json!({ "graceSeconds": grace }).to_string();
    let reply = client.send_json(Method::POST, &["api", "keys", &args.id, "rotate"], body).await?;
    tell_secret(output, &reply.text, &reply.json()?)
}

/// Whether a key works, in a word.
fn standing(key: &Value, now_ms: i64) -> String {
    let ended = |time: jiff::Timestamp| time.as_millisecond() <= now_ms;
    let word = if !value::text(key, "revokedAt").is_empty() {
        "revoked"
    } else if value::text(key, "expiresAt").parse().is_ok_and(ended) {
        "expired"
    } else {
        "live"
    };
    word.to_owned()
}

/// Until when the secret before the last rotation works, if it does.
fn grace(key: &Value, now_ms: i64) -> String {
    let until = value::text(key, "graceUntil");
    let works = until.parse().is_ok_and(|time: jiff::Timestamp| time.as_millisecond() > now_ms);
    if works { format!("works until {until}") } else { String::new() }
}

fn facts(key: &Value, now_ms: i64) -> String {
    let text = |name| value::text(key, name);
    let ceilings = key.get("ceilings").and_then(Value::as_object).into_iter().flatten();
    let ceilings: Vec<_> = ceilings.map(|(name, value)| format!("{name}={value}")).collect();
    let facts = value::facts(&[
        ("id", text("id")),
        ("name", text("name")),
        ("owner", text("owner")),
        ("scopes", value::texts(key, "scopes").join(" ")),
        ("skills", value::texts(key, "skills").join(" ")),
        ("created", text("createdAt")),
        ("expires", text("expiresAt")),
        ("revoked", text("revokedAt")),
        ("old secret", grace(key, now_ms)),
        ("ceilings", ceilings.join(" ")),
    ]);
    table::clean(&facts)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Test {
        #[command(flatten)]
        args: CreateArgs,
    }

    fn body(arguments: &[&str]) -> Value {
        let args = Test::try_parse_from([&["keys"], arguments].concat()).unwrap().args;
        create_body(&args, 0).unwrap()
    }

    #[test]
    fn a_request_has_only_what_was_said() {
        assert_eq!(body(&["ci"]), json!({ "name": "ci" }));
        let all = body(&[
            "ci",
            "--owner",
            "o",
            "--scope",
            "skills:read",
            "--scope",
            "admin",
            "--expires",
            "1d",
            "--skill",
            "hello",
            "--network",
            "public",
            "--secret",
            "T",
            "--call",
            "hello@^1",
            "--storage",
            "files=5",
            "--storage",
            "kvBytes=7",
            "--rate",
            "executionsPerMinute=60",
            "--budget",
            "fuelPerDay=9",
            "--limit",
            "memoryMb=64",
            "--workspace",
            "read",
            "--containers",
            "--code-mode",
            "--reuse",
        ]);
        let wanted = json!({
            "name": "ci", "owner": "o", "scopes": ["skills:read", "admin"], "expiresAt": "1970-01-02T00:00:00.000Z",
            "skills": ["hello"],
            "ceilings": { "network": ["public"], "secrets": ["T"], "skills": ["hello@^1"], "storage": { "files": 5, "kvBytes": 7 },
                "rates": { "executionsPerMinute": 60 }, "budgets": { "fuelPerDay": 9 }, "limits": { "memoryMb": 64 },
                "workspace": "read", "containers": true, "codeMode": true, "reuse": true },
        });
        assert_eq!(all, wanted);
    }

    #[test]
    fn unknown_scopes_are_refused() {
        assert!(Test::try_parse_from(["keys", "ci", "--scope", "all"]).is_err());
    }

    #[test]
    fn the_grace_of_a_rotation_is_told_while_it_lasts() {
        let key = json!({ "graceUntil": "1970-01-01T00:00:01.000Z" });
        assert_eq!(facts(&key, 999), "old secret  works until 1970-01-01T00:00:01.000Z");
        assert_eq!(facts(&key, 1000), "");
        assert_eq!(facts(&json!({ "graceUntil": null }), 0), "");
    }

    #[test]
    fn a_key_is_live_until_it_is_not() {
        assert_eq!(standing(&json!({ "expiresAt": null, "revokedAt": null }), 0), "live");
        assert_eq!(standing(&json!({ "expiresAt": "1970-01-01T00:00:01Z" }), 1000), "expired");
        assert_eq!(standing(&json!({ "revokedAt": "1970-01-01T00:00:01Z" }), 0), "revoked");
    }
}
