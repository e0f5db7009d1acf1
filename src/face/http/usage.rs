//! `/api/usage`: what an owner uses up, and what it has lying here.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use jiff::Unit;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::host::{BudgetUsage, Usage, UsageFilter, Used};
use crate::model::{Clock, OwnerId};
use crate::store::{DAY_MS, UsageDay};

use super::App;
use super::auth::Authed;
use super::problem::Problem;

/// Whose usage, and of which days.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageQuery {
    /// Another owner's; admin keys only. `apiKeyId` is another name for it.
    #[serde(alias = "apiKeyId")]
    #[param(value_type = Option<String>)]
    owner: Option<OwnerId>,
    /// The first UTC day, such as `2026-12-01`; thirty days to the last one if nothing is said.
    #[param(value_type = Option<String>, format = Date)]
    since: Option<Date>,
    /// The last UTC day; today if nothing is said. At most 400 days.
    #[param(value_type = Option<String>, format = Date)]
    until: Option<Date>,
}

/// What an owner uses up and has lying here.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OwnerUsage)]
pub(crate) struct UsageBody {
    /// Whose.
    owner: String,
    /// The first day.
    #[schema(format = Date)]
    since: String,
    /// The last day.
    #[schema(format = Date)]
    until: String,
    /// Of all these days.
    total: SumBody,
    /// Those days on which executions began that have ended, the oldest first.
    days: Vec<DayBody>,
    /// What lies here now, and what may by the ceilings of the key that asks.
    storage: StorageBody,
    /// Today's budgets of the owner's keys that have some.
    budgets: Vec<BudgetBody>,
}

/// Executions that ended, and what they used.
#[derive(Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = UsageSum)]
pub(crate) struct SumBody {
    /// How many.
    executions: u64,
    /// How many of each outcome: `success`, or the code of their error.
    outcomes: BTreeMap<String, u64>,
    /// Fuel; what a skill that was called used is its caller's.
    fuel: u64,
    /// Bytes sent and received.
    egress_bytes: u64,
    /// The times from their requests to their ends, together.
    duration_ms: f64,
    /// The longest of them.
    longest_ms: f64,
}

/// One UTC day.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = UsageDay)]
pub(crate) struct DayBody {
    /// Which.
    #[schema(format = Date)]
    day: String,
    #[serde(flatten)]
    sum: SumBody,
}

/// How much there is, and how much may be.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = UsedOfLimit)]
pub(crate) struct UsedBody {
    /// How much there is.
    used: u64,
    /// How much may be; null where nothing bounds it.
    #[schema(required = true)]
    limit: Option<u64>,
}

impl From<Used> for UsedBody {
    fn from((used, limit): Used) -> Self {
        Self { used, limit }
    }
}

/// What lies here.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StorageUsage)]
pub(crate) struct StorageBody {
    /// Versions of skills.
    skills: UsedBody,
    /// Bytes of components, equal ones once.
    component_bytes: UsedBody,
    /// Bytes of results that are kept.
    result_bytes: UsedBody,
    /// Bytes of files.
    file_bytes: UsedBody,
    /// Files and directories.
    files: UsedBody,
    /// Bytes of what skills keep.
    kv_bytes: UsedBody,
}

/// One key's budgets of today.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BudgetUsage)]
pub(crate) struct BudgetBody {
    /// Which key.
    key_id: String,
    /// Executions that began.
    executions_per_day: UsedBody,
    /// Fuel that was used.
    fuel_per_day: UsedBody,
    /// Fuel that runs under way have set aside beside that.
    fuel_held: u64,
    /// Bytes sent and received.
    egress_bytes_per_day: UsedBody,
}

impl SumBody {
    #[expect(clippy::cast_precision_loss, reason = "microseconds of some years")]
    fn add(&mut self, day: &UsageDay) {
        self.executions += day.executions;
        *self.outcomes.entry(day.outcome.clone()).or_default() += day.executions;
        self.fuel = self.fuel.saturating_add(day.fuel);
        self.egress_bytes = self.egress_bytes.saturating_add(day.egress_bytes);
        self.duration_ms += day.duration_us as f64 / 1000.0;
        self.longest_ms = self.longest_ms.max(day.longest_us as f64 / 1000.0);
    }
}

impl UsageBody {
    fn new(usage: &Usage) -> Self {
        let (mut total, mut days) = (SumBody::default(), Vec::<DayBody>::new());
        for one in &usage.used {
            total.add(one);
            let day = name(one.day);
            if days.last().is_none_or(|last| last.day != day) {
                days.push(DayBody { day, sum: SumBody::default() });
            }
            if let Some(last) = days.last_mut() {
                last.sum.add(one);
            }
        }
        let storage = &usage.storage;
        Self {
            owner: usage.owner.to_string(),
            since: name(usage.days.0),
            until: name(usage.days.1),
            total,
            days,
            storage: StorageBody {
                skills: storage.skills.into(),
                component_bytes: storage.component_bytes.into(),
                result_bytes: storage.result_bytes.into(),
                file_bytes: storage.file_bytes.into(),
                files: storage.files.into(),
                kv_bytes: storage.kv_bytes.into(),
            },
            budgets: usage.budgets.iter().map(budget).collect(),
        }
    }
}

fn budget(budget: &BudgetUsage) -> BudgetBody {
    let (most, spent) = (budget.budgets, budget.spent);
    BudgetBody {
        key_id: budget.key.to_string(),
        executions_per_day: (spent.executions, most.executions_per_day).into(),
        fuel_per_day: (spent.fuel, most.fuel_per_day).into(),
        fuel_held: spent.held,
        egress_bytes_per_day: (spent.egress_bytes, most.egress_bytes_per_day).into(),
    }
}

/// A day as it is written.
fn name(day: i64) -> String {
    let time = Clock::rfc3339(day.saturating_mul(DAY_MS));
    time.split('T').next().unwrap_or_default().to_owned()
}

/// A day as it is counted.
fn number(day: Date) -> i64 {
    let since = day.since((Unit::Day, Date::constant(1970, 1, 1)));
    since.map_or(0, |span| i64::from(span.get_days()))
}

/// Shows what an owner uses and keeps
///
/// Executions that ended, by UTC day and outcome, what they used, what lies here now against the
/// quotas, and today's budgets. Needs the scope `executions:read`.
#[utoipa::path(
    get, path = "/api/usage", tag = "executions", operation_id = "usage", params(UsageQuery),
    responses((status = 200, description = "What the owner uses", body = UsageBody)),
)]
pub(crate) async fn show(
    State(app): State<App>,
    Authed(caller): Authed,
    query: Result<Query<UsageQuery>, QueryRejection>,
) -> Result<Json<UsageBody>, Problem> {
    let Query(query) = query?;
    let filter = UsageFilter { owner: query.owner, since: query.since.map(number), until: query.until.map(number) };
    Ok(Json(UsageBody::new(&app.host.usage(&caller, filter).await?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_from_the_epoch_and_named_back() {
        for (text, day) in [("1970-01-01", 0), ("1969-12-31", -1), ("2026-12-01", 20_788)] {
            assert_eq!((number(text.parse().unwrap()), name(day)), (day, text.to_owned()));
        }
    }
}
