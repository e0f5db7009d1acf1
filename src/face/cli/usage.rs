//! `skillvisor usage`.

use std::time::Duration;

use serde_json::Value;

use super::client::Client;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::{table, value};

/// Show what an owner's runs used by day, and what it has lying on the host
///
/// Executions by their outcome, fuel, bytes over the network and time; then storage against the
/// quotas, and today's budgets of keys that have some.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor usage
  skillvisor usage --owner team-a --since 2026-11-01 --until 2026-11-30 --json")]
pub(super) struct UsageArgs {
    /// Another owner's, for an admin key
    #[arg(long)]
    owner: Option<String>,
    /// The first UTC day; thirty days to the last one if not given
    #[arg(long, value_name = "DAY")]
    since: Option<String>,
    /// The last UTC day; today if not given
    #[arg(long, value_name = "DAY")]
    until: Option<String>,
}

pub(super) async fn run(output: Output, client: &Client, args: &UsageArgs) -> Result<Exit, Failure> {
    let query = [("owner", args.owner.as_deref()), ("since", args.since.as_deref()), ("until", args.until.as_deref())];
    let reply = client.get(&["api", "usage"], &query).await?;
    if output.json {
        output.json_text(&reply.text)?;
        return Ok(Exit::Success);
    }
    for part in parts(&reply.json()?) {
        output.line(&part)?;
    }
    Ok(Exit::Success)
}

/// What is told, part by part.
fn parts(usage: &Value) -> Vec<String> {
    let text = |name| value::text(usage, name);
    let mut parts =
        vec![table::clean(&format!("{}, {} to {}", text("owner"), text("since"), text("until"))), String::new()];
    let header = ["DAY", "RUNS", "OUTCOMES", "FUEL", "EGRESS", "TIME", "LONGEST"];
    let mut rows: Vec<_> = value::list(usage, "days").iter().map(|day| sums(value::text(day, "day"), day)).collect();
    rows.push(sums("total".to_owned(), usage.get("total").unwrap_or(&Value::Null)));
    parts.push(table::render(&header, &rows, usize::MAX));
    let storage = usage.get("storage").and_then(Value::as_object).into_iter().flatten();
    let rows: Vec<_> = storage.map(|(name, used)| against(name, name, used)).collect();
    parts.extend([String::new(), table::render(&["STORAGE", "USED", "LIMIT"], &rows, usize::MAX)]);
    let rows: Vec<_> = value::list(usage, "budgets").iter().flat_map(budget).collect();
    if !rows.is_empty() {
        parts.extend([String::new(), table::render(&["TODAY'S BUDGET", "USED", "LIMIT"], &rows, usize::MAX)]);
    }
    parts
}

fn sums(day: String, of: &Value) -> Vec<String> {
    let outcomes = of.get("outcomes").and_then(Value::as_object).into_iter().flatten();
    let outcomes: Vec<_> = outcomes.map(|(outcome, count)| format!("{count} {outcome}")).collect();
    let time = |name| {
        let ms = of.get(name).and_then(Value::as_f64).unwrap_or_default();
        table::time(Duration::from_secs_f64(ms.max(0.0) / 1000.0))
    };
    let egress = table::bytes(of.get("egressBytes").and_then(Value::as_u64).unwrap_or_default());
    let (runs, fuel) = (value::text(of, "executions"), value::text(of, "fuel"));
    vec![day, runs, outcomes.join(", "), fuel, egress, time("durationMs"), time("longestMs")]
}

/// One row of what is used of what may be.
fn against(title: &str, kind: &str, used: &Value) -> Vec<String> {
    let shown = |name| match used.get(name).and_then(Value::as_u64) {
        Some(count) if kind.to_ascii_lowercase().contains("bytes") => table::bytes(count),
        Some(count) => count.to_string(),
        None => "none".to_owned(),
    };
    vec![title.to_owned(), shown("used"), shown("limit")]
}

fn budget(budget: &Value) -> Vec<Vec<String>> {
    let key = value::text(budget, "keyId");
    let has_limit = |name: &&str| budget.get(name).is_some_and(|used| !value::text(used, "limit").is_empty());
    let names = ["executionsPerDay", "fuelPerDay", "egressBytesPerDay"];
    let row = |name: &str| against(&format!("{key} {name}"), name, budget.get(name).unwrap_or(&Value::Null));
    names.into_iter().filter(has_limit).map(row).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn usage_is_told_by_day_with_sums_quotas_and_budgets() {
        let day = json!({ "day": "2026-12-01", "executions": 3, "outcomes": { "success": 2, "trap": 1 }, "fuel": 70,
            "egressBytes": 2048, "durationMs": 12.5, "longestMs": 9.0 });
        let usage = json!({ "owner": "team", "since": "2026-11-02", "until": "2026-12-01", "days": [day.clone()],
            "total": day, "storage": { "skills": { "used": 2, "limit": 10 }, "resultBytes": { "used": 1536, "limit": null } },
            "budgets": [{ "keyId": "key_1", "fuelPerDay": { "used": 70, "limit": 100 },
                "executionsPerDay": { "used": 3, "limit": null } }] });
        insta::assert_snapshot!(parts(&usage).join("\n"), @r"
        team, 2026-11-02 to 2026-12-01

        DAY         RUNS  OUTCOMES           FUEL  EGRESS   TIME     LONGEST
        2026-12-01  3     2 success, 1 trap  70    2.0 KiB  12.5 ms  9.0 ms
        total       3     2 success, 1 trap  70    2.0 KiB  12.5 ms  9.0 ms

        STORAGE      USED     LIMIT
        skills       2        10
        resultBytes  1.5 KiB  none

        TODAY'S BUDGET    USED  LIMIT
        key_1 fuelPerDay  70    100
        ");
    }
}
