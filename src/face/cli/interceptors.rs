//! `skillvisor interceptors`: code around executions.

use std::path::PathBuf;

use reqwest::Method;
use serde_json::{Map, Value, json};

use super::client::Client;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::value;

/// Set up, list, change and remove interceptors: code around every execution
#[derive(clap::Subcommand)]
pub(super) enum InterceptorsCommand {
    Create(CreateArgs),
    List(ListArgs),
    Show(ShowArgs),
    Change(ChangeArgs),
    Delete(DeleteArgs),
    Rotate(RotateArgs),
    DeadLetters(DeadLettersArgs),
    Retry(RetryArgs),
}

/// Set up an interceptor
///
/// A webhook gets a secret, which is shown this once: its messages are signed with it as Standard Webhooks says.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor interceptors create guard --kind webhook --url https://policy.example/check --timeout 500
  skillvisor interceptors create audit --kind webhook --url https://audit.example/runs --no-wait
  skillvisor interceptors create card-guard --kind wasm --component sha256:…
  skillvisor interceptors create redaction --kind builtin --builtin redaction --global
  skillvisor interceptors create small --kind builtin --builtin argument-policy --settings '{\"maxBytes\":65536}'")]
pub(super) struct CreateArgs {
    /// Its name: a-z 0-9 -
    name: String,
    /// What it is: wasm, webhook or builtin
    #[arg(long)]
    kind: String,
    /// Where a webhook is
    #[arg(long)]
    url: Option<String>,
    /// Digest of an uploaded component
    #[arg(long, value_name = "DIGEST")]
    component: Option<String>,
    /// Which builtin: structured-log, argument-policy or redaction
    #[arg(long, value_name = "NAME")]
    builtin: Option<String>,
    /// Do not let runs wait for a webhook: it is told of their ends
    #[arg(long)]
    no_wait: bool,
    /// Around the runs of every owner; admin keys only
    #[arg(long, conflicts_with = "owner")]
    global: bool,
    /// Whose it is, if not the key's own owner; admin keys only
    #[arg(long)]
    owner: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Where one stands, and how.
#[derive(clap::Args)]
struct Place {
    /// Where it stands: before or after; twice for both
    #[arg(long = "phase", value_name = "PHASE")]
    phases: Vec<String>,
    /// Its place: lower ones come first
    #[arg(long, allow_hyphen_values = true)]
    order: Option<i32>,
    /// How long it may take for one answer, in milliseconds
    #[arg(long, value_name = "MS")]
    timeout: Option<u64>,
    /// Whether runs go on without it if it fails
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    optional: Option<bool>,
    /// Ask it about this skill only; again for more
    #[arg(long = "skill", value_name = "NAME")]
    skills: Vec<String>,
    /// What a builtin is set to, as JSON or @file
    #[arg(long, value_name = "JSON")]
    settings: Option<String>,
}

/// List interceptors
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor interceptors list")]
pub(super) struct ListArgs {
    /// Only of this owner; admin keys only
    #[arg(long)]
    owner: Option<String>,
}

/// Show an interceptor
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor interceptors show guard")]
pub(super) struct ShowArgs {
    /// Its name or id
    reference: String,
}

/// Change an interceptor; what is not said stays
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor interceptors change guard --timeout 2000 --optional
  skillvisor interceptors change guard --enabled false")]
pub(super) struct ChangeArgs {
    /// Its name or id
    reference: String,
    /// Whether it is asked at all
    #[arg(long, value_name = "BOOL")]
    enabled: Option<bool>,
    /// Where a webhook is
    #[arg(long)]
    url: Option<String>,
    /// Digest of an uploaded component
    #[arg(long, value_name = "DIGEST")]
    component: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Remove an interceptor
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor interceptors delete guard")]
pub(super) struct DeleteArgs {
    /// Its name or id
    reference: String,
}

/// Give a webhook another secret; the one before signs too for a while
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor interceptors rotate guard --grace 3600")]
pub(super) struct RotateArgs {
    /// Its name or id
    reference: String,
    /// How long the secret before signs too, in seconds [default: a day]
    #[arg(long, value_name = "SECONDS")]
    grace: Option<u32>,
}

/// List what a webhook could not be told
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor interceptors dead-letters audit")]
pub(super) struct DeadLettersArgs {
    /// Its name or id
    reference: String,
    /// How many at most
    #[arg(long, default_value_t = 50)]
    limit: u32,
}

/// Have a webhook told once more
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  skillvisor interceptors retry audit 17")]
pub(super) struct RetryArgs {
    /// Its name or id
    reference: String,
    /// Number of a dead letter
    number: u32,
}

const ALL: &[&str] = &["api", "interceptors"];

pub(super) async fn run(output: Output, client: &Client, command: InterceptorsCommand) -> Result<Exit, Failure> {
    match command {
        InterceptorsCommand::Create(args) => create(output, client, args).await,
        InterceptorsCommand::List(args) => list(output, client, &args).await,
        InterceptorsCommand::Show(args) => {
            let id = find(client, &args.reference).await?;
            let reply = client.get(&["api", "interceptors", &id], &[]).await?;
            tell(output, &reply.text, &reply.json()?)
        }
        InterceptorsCommand::Change(args) => change(output, client, args).await,
        InterceptorsCommand::Delete(args) => {
            let id = find(client, &args.reference).await?;
            client.send_empty(Method::DELETE, &["api", "interceptors", &id]).await?;
            done(output, "removed", &args.reference)
        }
        InterceptorsCommand::Rotate(args) => {
            let id = find(client, &args.reference).await?;
            let body = args.grace.map_or_else(|| json!({}), |grace| json!({ "graceSeconds": grace }));
            let path = ["api", "interceptors", &id, "rotate"];
            let reply = client.send_json(Method::POST, &path, body.to_string()).await?;
            tell(output, &reply.text, &reply.json()?)
        }
        InterceptorsCommand::DeadLetters(args) => dead_letters(output, client, &args).await,
        InterceptorsCommand::Retry(args) => {
            let (id, number) = (find(client, &args.reference).await?, args.number.to_string());
            let path = ["api", "interceptors", &id, "dead-letters", &number, "retry"];
            client.send_empty(Method::POST, &path).await?;
            done(output, "retried", &number)
        }
    }
}

impl Place {
    /// Puts what was said into the body of a request.
    async fn put(self, body: &mut Map<String, Value>) -> Result<(), Failure> {
        let Self { phases, order, timeout, optional, skills, settings } = self;
        if !phases.is_empty() {
            body.insert("phases".into(), phases.into());
        }
        if !skills.is_empty() {
            body.insert("skills".into(), skills.into());
        }
        let numbers = [("order", order.map(Value::from)), ("timeoutMs", timeout.map(Value::from))];
        let given = numbers.into_iter().chain([("optional", optional.map(Value::from))]);
        body.extend(given.filter_map(|(name, value)| Some((name.to_owned(), value?))));
        if let Some(settings) = settings {
            let text = match settings.strip_prefix('@') {
                Some(file) => {
                    let file = PathBuf::from(file);
                    tokio::fs::read_to_string(&file).await.map_err(|error| Failure::unreadable(&file, &error))?
                }
                None => settings,
            };
            let value: Value = serde_json::from_str(&text)
                .map_err(|error| Failure::usage(format!("--settings is not JSON: {error}")))?;
            body.insert("config".into(), value);
        }
        Ok(())
    }
}

async fn create(output: Output, client: &Client, args: CreateArgs) -> Result<Exit, Failure> {
    let mut body = Map::new();
    body.insert("name".into(), args.name.as_str().into());
    body.insert("kind".into(), args.kind.as_str().into());
    let texts = [("url", &args.url), ("component", &args.component), ("builtin", &args.builtin)];
    body.extend(texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text.as_deref()?.into()))));
    if args.no_wait {
        body.insert("blocking".into(), false.into());
    }
    if args.global {
        body.insert("global".into(), true.into());
    }
    args.place.put(&mut body).await?;
    let query = [("owner", args.owner.as_deref())];
    let reply = client.send_json_to(Method::POST, (ALL, &query), Value::Object(body).to_string()).await?;
    tell(output, &reply.text, &reply.json()?)
}

async fn change(output: Output, client: &Client, args: ChangeArgs) -> Result<Exit, Failure> {
    let id = find(client, &args.reference).await?;
    let mut body = Map::new();
    let given = [
        ("enabled", args.enabled.map(Value::from)),
        ("url", args.url.map(Value::from)),
        ("component", args.component.map(Value::from)),
    ];
    body.extend(given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    args.place.put(&mut body).await?;
    if body.is_empty() {
        return Err(Failure::usage("nothing was said that is to be changed"));
    }
    let path = ["api", "interceptors", &id];
    let reply = client.send_json(Method::PATCH, &path, Value::Object(body).to_string()).await?;
    tell(output, &reply.text, &reply.json()?)
}

async fn list(output: Output, client: &Client, args: &ListArgs) -> Result<Exit, Failure> {
    let reply = client.get(ALL, &[("owner", args.owner.as_deref())]).await?;
    if output.json {
        output.json_text(&reply.text)?;
        return Ok(Exit::Success);
    }
    let row = |one: &Value| {
        let text = |name| value::text(one, name);
        let phases = value::texts(one, "phases").join(", ");
        vec![text("name"), text("owner"), text("kind"), phases, text("order"), text("enabled"), text("id")]
    };
    let rows: Vec<_> = value::list(&reply.json()?, "interceptors").iter().map(row).collect();
    output.table(&["NAME", "OWNER", "KIND", "PHASES", "ORDER", "ENABLED", "ID"], &rows)?;
    Ok(Exit::Success)
}

async fn dead_letters(output: Output, client: &Client, args: &DeadLettersArgs) -> Result<Exit, Failure> {
    let id = find(client, &args.reference).await?;
    let limit = args.limit.to_string();
    let reply = client.get(&["api", "interceptors", &id, "dead-letters"], &[("limit", Some(&limit))]).await?;
    if output.json {
        output.json_text(&reply.text)?;
        return Ok(Exit::Success);
    }
    let row = |one: &Value| {
        let text = |name| value::text(one, name);
        vec![text("n"), text("executionId"), text("attempts"), text("diedAt"), text("problem")]
    };
    let rows: Vec<_> = value::list(&reply.json()?, "deadLetters").iter().map(row).collect();
    output.table(&["N", "EXECUTION", "ATTEMPTS", "DIED", "PROBLEM"], &rows)?;
    Ok(Exit::Success)
}

/// The id of the interceptor that goes by this name or id.
async fn find(client: &Client, reference: &str) -> Result<String, Failure> {
    let reply = client.get(ALL, &[]).await?.json()?;
    let all = value::list(&reply, "interceptors");
    let is_it = |one: &&Value| value::text(one, "id") == reference || value::text(one, "name") == reference;
    let mut found = all.iter().filter(is_it);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(value::text(one, "id")),
        (Some(_), Some(_)) => {
            Err(Failure::usage(format!("several owners have an interceptor `{reference}`; name it by its id")))
        }
        // The server says what it says of what is not there.
        (None, _) => Ok(reference.to_owned()),
    }
}

fn tell(output: Output, text: &str, one: &Value) -> Result<Exit, Failure> {
    if output.json {
        output.json_text(text)?;
        return Ok(Exit::Success);
    }
    let part = |name| value::text(one, name);
    let facts = [
        ("name", part("name")),
        ("id", part("id")),
        ("owner", part("owner")),
        ("kind", part("kind")),
        ("url", part("url")),
        ("component", part("component")),
        ("builtin", part("builtin")),
        ("config", part("config")),
        ("phases", value::texts(one, "phases").join(", ")),
        ("skills", value::texts(one, "skills").join(", ")),
        ("blocking", part("blocking")),
        ("order", part("order")),
        ("timeout", format!("{} ms", part("timeoutMs"))),
        ("optional", part("optional")),
        ("enabled", part("enabled")),
        ("secret", part("secret")),
    ];
    output.line(&value::facts(&facts))?;
    Ok(Exit::Success)
}

fn done(output: Output, verb: &str, what: &str) -> Result<Exit, Failure> {
    if output.json {
        output.json(&json!({ verb: what }))?;
    } else {
        output.note(&format!("{verb} {what}"));
    }
    Ok(Exit::Success)
}
