//! `skillvisor exec`.

use std::io::Read;
use std::path::Path;

use reqwest::Response;
use reqwest::header::{HeaderMap, HeaderValue, LOCATION};
use serde_json::{Map, Value, json};

use crate::model::StrictJson;

use super::client::Client;
use super::events::{self, Events, Teller};
use super::exit::{Exit, Failure};
use super::limits::{self, Limit};
use super::output::Output;
use super::report::Ran;
use super::value;

/// Run a skill and print its output
///
/// Stdout gets the output, as JSON; stderr gets what the skill printed and how the run
/// ended. The exit code is 1 if the run did not succeed.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor exec hello --args '{\"name\": \"Ada\"}'
  echo '{\"city\": \"Lisbon\"}' | skillvisor exec 'weather@^1' --args - --timeout 5000
  skillvisor exec report --async --idempotency-key report-2026-11-30
  skillvisor exec report --stream")]
pub(super) struct ExecArgs {
    /// The skill: NAME, NAME@VERSION-OR-RANGE, NAME@VERSION#FUNCTION, or its id
    #[arg(value_name = "REF")]
    pub(super) reference: String,
    /// What was meant for `--args`
    #[arg(hide = true)]
    misplaced: Vec<String>,
    /// Arguments: JSON, @FILE, or - for stdin
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    args: Option<String>,
    /// Longest time from request to end, in milliseconds
    #[arg(long, value_name = "MS", value_parser = limits::milliseconds)]
    timeout: Option<u64>,
    /// A limit to tighten, or to loosen up to the ceilings, such as memoryMb=64; may be given several times
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = limits::parse)]
    limits: Vec<Limit>,
    /// A word of yours that ties runs together
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Do not wait for the end: print the execution's id as soon as the server has written it down
    #[arg(long = "async", conflicts_with = "stream")]
    pub(super) is_async: bool,
    /// Show what the skill prints, logs and reports while it runs, on stderr; with --json, print
    /// each event on one line of stdout
    #[arg(long)]
    stream: bool,
    /// A word of yours, good for 24 hours: the same request with it runs once
    #[arg(long, value_name = "WORD")]
    idempotency_key: Option<String>,
}

pub(super) async fn run(output: Output, client: &Client, args: &ExecArgs) -> Result<Exit, Failure> {
    if let Some(word) = args.misplaced.first() {
        let command = format!("skillvisor exec {} --args '{}'", args.reference, super::table::one_line(word));
        return Err(Failure::usage("the arguments of a skill go behind --args").hint(format!("`{command}`")));
    }
    let given = read_args(args.args.as_deref().unwrap_or("{}")).await?;
    let answer = client.begin(&["api", "skills", "executions"], headers(args)?, body(args, &given)).await?;
    if args.stream {
        return stream(output, client, answer).await;
    }
    let text = client.text(answer).await?;
    let ran = Ran::parse(&text)?;
    if output.json {
        output.json_text(&text)?;
        return Ok(if args.is_async { Exit::Success } else { ran.exit() });
    }
    if args.is_async {
        let id = value::text(&ran.execution, "id");
        output.line(&id)?;
        let status = value::text(&ran.execution, "status");
        output.note(&format!("{status}; `skillvisor logs {id}` shows it, and with --follow until it ends"));
        return Ok(Exit::Success);
    }
    if ran.succeeded() {
        output.json_text(ran.result.as_deref().unwrap_or("null"))?;
    }
    ran.note(output);
    Ok(ran.exit())
}

/// Tells a run that goes on to its end.
async fn stream(output: Output, client: &Client, answer: Response) -> Result<Exit, Failure> {
    let location = answer.headers().get(LOCATION).and_then(|location| location.to_str().ok()).unwrap_or_default();
    let id = location.rsplit('/').next().unwrap_or_default().to_owned();
    let mut teller = Teller::new(output);
    if let Some(ran) = teller.tell(Events::of(answer)).await? {
        return Ok(ran.exit());
    }
    // The run may have ended all the same, or go on where it has a word of its own.
    events::go_on(teller, client, &id).await.map(|ran| ran.exit())
}

/// The word by which the server knows the request again.
fn headers(args: &ExecArgs) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    if let Some(word) = &args.idempotency_key {
        let word = HeaderValue::from_str(word)
            .map_err(|_| Failure::usage("--idempotency-key: a word is 1 to 255 visible ASCII characters"))?;
        headers.insert("idempotency-key", word);
    }
    Ok(headers)
}

/// The request, with the arguments as they were written.
fn body(args: &ExecArgs, given: &StrictJson) -> String {
    let mut request = json!({ "skillId": args.reference });
    if let Some(session) = &args.session {
        request["sessionId"] = Value::from(session.as_str());
    }
    if args.is_async || args.stream {
        request["mode"] = Value::from(if args.stream { "stream" } else { "async" });
    }
    let timeout = args.timeout.map(|ms| ("timeoutMs".to_owned(), Value::from(ms)));
    let limits: Map<_, _> = timeout.into_iter().chain(args.limits.iter().cloned()).collect();
    if !limits.is_empty() {
        request["limits"] = Value::Object(limits);
    }
    let mut text = request.to_string();
    text.pop();
    format!("{text},\"args\":{}}}", given.text())
}

/// The arguments, from where the word says.
async fn read_args(word: &str) -> Result<StrictJson, Failure> {
    let text = match word.strip_prefix('@') {
        _ if word == "-" => stdin().await?,
        Some(path) => std::fs::read_to_string(path).map_err(|error| Failure::unreadable(Path::new(path), &error))?,
        None => word.to_owned(),
    };
    StrictJson::parse(&text).map_err(|error| {
        Failure::usage(format!("--args: {}", error.detail))
            .hint("--args takes JSON such as '{\"name\": \"Ada\"}', @FILE, or - for stdin")
    })
}

/// All of stdin, read beside the runtime so that an interrupt still ends the command.
async fn stdin() -> Result<String, Failure> {
    let read = || {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text).map(|_| text)
    };
    let read = tokio::task::spawn_blocking(read).await.map_err(|error| Failure::internal(error.to_string()))?;
    read.map_err(|error| Failure::unreadable(Path::new("stdin"), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn arguments_go_out_as_they_were_written() {
        let args = ExecArgs {
            reference: "a@^1".into(),
            misplaced: Vec::new(),
            args: None,
            timeout: Some(5),
            limits: vec![limits::parse("fuel=7").unwrap()],
            session: Some("s\"".into()),
            is_async: false,
            stream: false,
            idempotency_key: None,
        };
        let given = read_args(r#"{"n": 123456789012345678901234567890}"#).await.unwrap();
        assert_eq!(
            body(&args, &given),
            r#"{"skillId":"a@^1","sessionId":"s\"","limits":{"timeoutMs":5,"fuel":7},"args":{"n": 123456789012345678901234567890}}"#
        );
    }

    #[tokio::test]
    async fn arguments_come_from_a_file_too() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.json");
        std::fs::write(&file, "[1]\n").unwrap();
        assert_eq!(read_args(&format!("@{}", file.display())).await.unwrap().to_value(), json!([1]));
        for bad in ["{", "@/nonexistent/file", "", "{\"a\":1,\"a\":2}"] {
            assert_eq!(read_args(bad).await.unwrap_err().exit, Exit::Usage, "{bad}");
        }
    }
}
