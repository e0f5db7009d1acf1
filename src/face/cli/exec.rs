//! `skillvisor exec`.

use std::io::Read;
use std::path::Path;

use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::model::StrictJson;

use super::client::Client;
use super::exit::{Exit, Failure};
use super::limits::{self, Limit};
use super::output::Output;
use super::report::Ran;

/// Run a skill and print its output
///
/// Stdout gets the output, as JSON; stderr gets what the skill printed and how the run
/// ended. The exit code is 1 if the run did not succeed.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor exec hello --args '{\"name\": \"Ada\"}'
  echo '{\"city\": \"Lisbon\"}' | skillvisor exec 'weather@^1' --args - --timeout 5000")]
pub(super) struct ExecArgs {
    /// The skill: NAME, NAME@VERSION-OR-RANGE, NAME@VERSION#FUNCTION, or its id
    #[arg(value_name = "REF")]
    reference: String,
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
}

pub(super) async fn run(output: Output, client: &Client, args: &ExecArgs) -> Result<Exit, Failure> {
    if let Some(word) = args.misplaced.first() {
        let command = format!("skillvisor exec {} --args '{}'", args.reference, super::table::one_line(word));
        return Err(Failure::usage("the arguments of a skill go behind --args").hint(format!("`{command}`")));
    }
    let given = read_args(args.args.as_deref().unwrap_or("{}")).await?;
    let reply = client.send_json(Method::POST, &["api", "skills", "executions"], body(args, &given)).await?;
    let ran = Ran::parse(&reply.text)?;
    if output.json {
        output.json_text(&reply.text)?;
        return Ok(ran.exit());
    }
    if ran.succeeded() {
        output.json_text(ran.result.as_deref().unwrap_or("null"))?;
    }
    ran.note(output);
    Ok(ran.exit())
}

/// The request, with the arguments as they were written.
fn body(args: &ExecArgs, given: &StrictJson) -> String {
    let mut request = json!({ "skillId": args.reference });
    if let Some(session) = &args.session {
        request["sessionId"] = Value::from(session.as_str());
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
