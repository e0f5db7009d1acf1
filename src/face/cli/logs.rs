//! `skillvisor logs`.

use serde_json::Value;

use crate::model::{Clock, Status};

use super::client::{Client, Reply};
use super::exit::{Exit, Failure};
use super::output::Output;
use super::report::{Ran, from_ms};
use super::time::{Direction, point};
use super::{events, followed, json_text, table, value};

/// List executions, newest first, or show one with what it printed
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor logs --skill hello --since 1h
  skillvisor logs --status error --limit 5
  skillvisor logs 01980000-0000-7000-8000-000000000000
  skillvisor logs 01980000-0000-7000-8000-000000000000 --follow
  skillvisor logs --follow --skill hello")]
pub(super) struct LogsArgs {
    /// Id of one execution
    #[arg(conflicts_with_all = ["skill", "status", "session", "owner", "since", "limit"])]
    id: Option<String>,
    /// Only those of this skill
    #[arg(long, value_name = "NAME")]
    skill: Option<String>,
    /// Only those that stand so
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(Status::ALL.iter().map(|status| status.as_str())))]
    pub(super) status: Option<String>,
    /// Only those of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only those of this owner
    #[arg(long)]
    owner: Option<String>,
    /// Only those since then: a duration such as 30m or 7d, or a time
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// At most this many
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(super) limit: u32,
    /// Of one execution, show what it says until it ends; else list the newest, and then each
    /// execution as it ends, or as it comes to stand so with --status
    #[arg(long)]
    follow: bool,
}

pub(super) async fn run(output: Output, client: &Client, args: &LogsArgs) -> Result<Exit, Failure> {
    match &args.id {
        Some(id) if args.follow => events::follow(output, client, id).await.map(|_| Exit::Success),
        Some(id) => one(output, client, id).await,
        None if args.follow => followed::run(output, client, args).await,
        None => list(output, client, args).await,
    }
}

async fn one(output: Output, client: &Client, id: &str) -> Result<Exit, Failure> {
    let reply = client.get(&["api", "skills", "executions", id], &[]).await?;
    if output.json {
        output.json_text(&reply.text)?;
    } else {
        output.line(&page(&Ran::parse(&reply.text)?))?;
    }
    Ok(Exit::Success)
}

/// An execution on a page.
fn page(ran: &Ran) -> String {
    let text = |name| value::text(&ran.execution, name);
    let facts = value::facts(&[
        ("function", text("function")),
        ("digest", text("digest")),
        ("owner", text("owner")),
        ("key", text("keyId")),
        ("session", text("sessionId")),
        ("parent", text("parentId")),
        ("door", text("door")),
        ("attempts", text("attempts")),
        ("exit code", text("exitCode")),
        ("created", text("createdAt")),
        ("finished", text("finishedAt")),
    ]);
    let mut parts = vec![ran.outcome(), facts];
    for name in ["stdout", "stderr"] {
        let printed = table::clean(&text(name));
        if !printed.is_empty() {
            parts.push(format!("{name}:\n{}", printed.trim_end_matches('\n')));
        }
    }
    let log = value::list(&ran.execution, "log");
    if !log.is_empty() {
        let cut = ran.execution.get("logTruncated") == Some(&Value::Bool(true));
        let rest = cut.then(|| "(it was longer; the rest was not kept)".to_owned());
        let lines: Vec<String> = log.iter().map(logged).chain(rest).collect();
        parts.push(format!("log:\n{}", lines.join("\n")));
    }
    if ran.execution.get("resultExpired") == Some(&Value::Bool(true)) {
        let copy = table::clean(&text("outputCopy"));
        let copy = if copy.is_empty() { copy } else { format!("; a short copy of the output:\n{copy}") };
        parts.push(format!("the result is no longer kept (setting retention.results){copy}"));
    }
    parts.extend(ran.result.as_deref().map(|result| format!("output:\n{}", json_text::pretty(result))));
    parts.join("\n\n")
}

/// One line of the log of a guest.
fn logged(line: &Value) -> String {
    let [at, level, context, message] = ["at", "level", "context", "message"].map(|name| value::text(line, name));
    let context = if context.is_empty() { context } else { format!("{}: ", table::one_line(&context)) };
    format!("{at} {level} {context}{}", table::clean(&message).trim_end_matches('\n'))
}

impl LogsArgs {
    /// The time from which on executions are wanted.
    pub(super) fn since(&self) -> Result<Option<String>, Failure> {
        self.since.as_deref().map(|since| point(since, Direction::Ago, Clock::System.now_ms())).transpose()
    }

    /// A page of those that are wanted.
    pub(super) async fn page(&self, client: &Client, (since, cursor): Since<'_>, limit: u32) -> Result<Reply, Failure> {
        let limit = limit.to_string();
        let query = [
            ("skill", self.skill.as_deref()),
            ("status", self.status.as_deref()),
            ("session", self.session.as_deref()),
            ("owner", self.owner.as_deref()),
            ("since", since),
            ("cursor", cursor),
            ("limit", Some(limit.as_str())),
        ];
        client.get(&["api", "skills", "executions"], &query).await
    }
}

/// From when on, and behind which page.
pub(super) type Since<'a> = (Option<&'a str>, Option<&'a str>);

async fn list(output: Output, client: &Client, args: &LogsArgs) -> Result<Exit, Failure> {
    let reply = args.page(client, (args.since()?.as_deref(), None), args.limit).await?;
    if output.json {
        output.json_text(&reply.text)?;
        return Ok(Exit::Success);
    }
    let answer = reply.json()?;
    let rows: Vec<_> = value::list(&answer, "executions").iter().map(row).collect();
    if rows.is_empty() {
        output.note("no executions");
        return Ok(Exit::Success);
    }
    output.table(&["ID", "SKILL", "STATUS", "CODE", "TOOK", "CREATED", "OWNER", "KEY", "SESSION"], &rows)?;
    let total = answer.get("total").and_then(Value::as_u64).unwrap_or_default();
    if usize::try_from(total).is_ok_and(|total| total > rows.len()) {
        let more = if rows.len() < args.limit as usize {
            "the server gives no more at a time; --since, --status and --skill narrow it"
        } else {
            "--limit shows more"
        };
        output.note(&format!("{} of {total}; {more}", rows.len()));
    }
    Ok(Exit::Success)
}

pub(super) fn row(execution: &Value) -> Vec<String> {
    let text = |name| value::text(execution, name);
    let code = execution.get("error").map(|error| value::text(error, "code")).unwrap_or_default();
    let took = execution.get("durationMs").and_then(Value::as_f64).map(|ms| table::time(from_ms(ms)));
    let took = took.unwrap_or_default();
    let [id, skill, status, created, owner, key, session] =
        ["id", "skillId", "status", "createdAt", "owner", "keyId", "sessionId"].map(text);
    vec![id, skill, status, code, took, created, owner, key, session]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_expired_result_the_copy_is_told() {
        let ran = Ran::parse(
            r#"{"id":"0198","skillId":"a@1.0.0","status":"success","output":null,"resultExpired":true,"outputCopy":"{\"n\":1"}"#,
        );
        let page = page(&ran.unwrap());
        assert!(page.ends_with("(setting retention.results); a short copy of the output:\n{\"n\":1"), "{page}");
    }

    #[test]
    fn one_execution_is_told_with_what_it_printed() {
        let ran = Ran::parse(
            r#"{"id":"0198","skillId":"a@1.0.0","status":"success","durationMs":3.1,"function":"run","stdout":"one\ntwo\n",
               "stderr":"","exitCode":0,"error":null,"output":{"n":1}}"#,
        );
        insta::assert_snapshot!(page(&ran.unwrap()), @r#"
        success: a@1.0.0 in 3.1 ms (0198)

        function   run
        exit code  0

        stdout:
        one
        two

        output:
        {
          "n": 1
        }
        "#);
    }
}
