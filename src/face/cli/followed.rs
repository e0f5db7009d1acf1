//! `skillvisor logs --follow`: executions as they end.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;

use super::client::Client;
use super::exit::{Exit, Failure};
use super::logs::{LogsArgs, row};
use super::output::Output;
use super::value;

/// How often the server is asked.
const OFTEN: Duration = Duration::from_secs(1);
/// How many executions are asked for at a time.
const PAGE: u32 = 500;

/// What was shown, and what is waited for.
#[derive(Default)]
struct Shown {
    /// Executions that need not be shown any more, since the time from which on is asked.
    ids: HashSet<String>,
    /// When the oldest came in that has not ended, or else the newest; and the same one question
    /// before, which is what is asked for: what came in at the same time may show a little later.
    newest: Option<String>,
    since: Option<String>,
}

/// Lists the newest, and then each as it ends, until the command is interrupted.
pub(super) async fn run(output: Output, client: &Client, args: &LogsArgs) -> Result<Exit, Failure> {
    let mut shown = Shown { since: args.since()?, ..Shown::default() };
    let mut page = executions(&args.page(client, (shown.since.as_deref(), None), args.limit).await?.json()?);
    loop {
        page.reverse();
        for execution in shown.news(&page, args.status.is_some()) {
            if output.json {
                output.line(&execution.to_string())?;
            } else {
                let cells: Vec<_> = row(execution).into_iter().filter(|cell| !cell.is_empty()).collect();
                output.line(&cells.join("  "))?;
            }
        }
        tokio::time::sleep(OFTEN).await;
        page = all_since(client, args, shown.since.as_deref()).await?;
    }
}

impl Shown {
    /// Those of `page`, oldest first, that were not shown; if `any`, also those that have not ended.
    fn news<'a>(&mut self, page: &'a [Value], any: bool) -> Vec<&'a Value> {
        let text = |execution: &Value, name: &str| value::text(execution, name);
        let is_over = |execution: &Value| !matches!(text(execution, "status").as_str(), "pending" | "running");
        let wanted = page.iter().filter(|execution| any || is_over(execution));
        let news: Vec<_> = wanted.filter(|execution| self.ids.insert(text(execution, "id"))).collect();
        let oldest = page.iter().find(|execution| !any && !is_over(execution)).or(page.last());
        if let Some(newest) = oldest.map(|execution| text(execution, "createdAt")) {
            let since = self.newest.replace(newest.clone()).unwrap_or(newest);
            // What came in before will not be told again.
            let old = page.iter().filter(|execution| text(execution, "createdAt") < since);
            for id in old.map(|execution| text(execution, "id")) {
                self.ids.remove(&id);
            }
            self.since = Some(since);
        }
        news
    }
}

/// All that came in since then, newest first.
async fn all_since(client: &Client, args: &LogsArgs, since: Option<&str>) -> Result<Vec<Value>, Failure> {
    let mut all = Vec::new();
    let mut cursor = None;
    loop {
        let answer = args.page(client, (since, cursor.as_deref()), PAGE).await?.json()?;
        all.extend(executions(&answer));
        cursor = Some(value::text(&answer, "nextCursor")).filter(|cursor| !cursor.is_empty());
        if cursor.is_none() || since.is_none() {
            return Ok(all);
        }
    }
}

fn executions(answer: &Value) -> Vec<Value> {
    value::list(answer, "executions").to_vec()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_is_shown_once_when_it_has_ended() {
        let one =
            |id: u32, status: &str| json!({ "id": id.to_string(), "status": status, "createdAt": id.to_string() });
        let mut shown = Shown::default();
        let mut news = |page: &[Value]| {
            shown.news(page, false).iter().map(|execution| value::text(execution, "id")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(news(&[one(1, "success"), one(2, "running"), one(3, "error")]), "1 3");
        assert_eq!(news(&[one(2, "running"), one(3, "error"), one(4, "success")]), "4");
        assert_eq!(news(&[one(2, "success"), one(3, "error"), one(4, "success")]), "2");
        assert_eq!(news(&[one(4, "success")]), "");
        assert_eq!(news(&[one(4, "success"), one(5, "pending")]), "");
        assert_eq!(news(&[one(5, "cancelled")]), "5");
    }
}
