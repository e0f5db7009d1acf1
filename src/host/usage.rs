//! What an owner uses up and has lying here, beside what it may.

use std::sync::Arc;

pub use crate::executor::Spent;
use crate::model::{Budgets, Caller, Code, Error, Key, KeyId, OwnerId, Scope};
use crate::registry::Registry;
use crate::store::{DAY_MS, UsageDay};

use super::Host;

/// Most days in one answer.
pub const MAX_USAGE_DAYS: i64 = 400;
/// How many where nothing is said.
const USUAL_DAYS: i64 = 30;

/// Whose usage, and of which days.
#[derive(Clone, Debug, Default)]
pub struct UsageFilter {
    /// Another owner's than the caller's; admin keys only.
    pub owner: Option<OwnerId>,
    /// The first day, since the Unix epoch; thirty days to the last one if nothing is said.
    pub since: Option<i64>,
    /// The last day, since the Unix epoch; today if nothing is said.
    pub until: Option<i64>,
}

/// What an owner used and has lying here.
#[derive(Clone, Debug)]
pub struct Usage {
    /// Whose.
    pub owner: OwnerId,
    /// The first and the last day, since the Unix epoch.
    pub days: (i64, i64),
    /// By day and outcome, the oldest first.
    pub used: Vec<UsageDay>,
    /// What lies here now, each with what may, where that has an end.
    pub storage: StorageUsage,
    /// What the keys of this owner that have budgets used of today's.
    pub budgets: Vec<BudgetUsage>,
}

/// How much there is of something, and how much may be.
pub type Used = (u64, Option<u64>);

/// What lies here for an owner now; how much may, by the ceilings of the key that asks.
#[derive(Clone, Copy, Debug)]
pub struct StorageUsage {
    /// Versions of skills.
    pub skills: Used,
    /// Bytes of components, equal ones once.
    pub component_bytes: Used,
    /// Bytes of results that are kept.
    pub result_bytes: Used,
    /// Bytes of files.
    pub file_bytes: Used,
    /// Files and directories.
    pub files: Used,
    /// Bytes of what skills keep.
    pub kv_bytes: Used,
}

/// What a key with budgets used today.
#[derive(Clone, Debug)]
pub struct BudgetUsage {
    /// Which key.
    pub key: KeyId,
    /// What it may use in a day.
    pub budgets: Budgets,
    /// What it used today.
    pub spent: Spent,
}

impl Host {
    /// What an owner used, by day, and what lies here for it. Costs no more where there are many
    /// executions: they are counted as they end.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `executions:read`; `forbidden` for another owner's, and for a key
    /// that may see some skills only; `malformed` for days that are none or too many.
    pub async fn usage(&self, caller: &Caller, filter: UsageFilter) -> Result<Usage, Error> {
        let key = &caller.key;
        key.require(Scope::ExecutionsRead)?;
        let owner = filter.owner.unwrap_or_else(|| key.owner.clone());
        if owner != key.owner && !key.is_admin() {
            return Err(Error::new(Code::Forbidden, "only an admin key may see another owner's usage"));
        }
        if key.skills.is_some() && !key.is_admin() {
            let detail = "the sums are of all skills, and this key may see some of them only; ask with another key";
            return Err(Error::new(Code::Forbidden, detail));
        }
        let days = days(filter.since, filter.until, self.executor.now_ms().div_euclid(DAY_MS))?;
        let used = self.store.usage_days(owner.clone(), days).await?;
        let storage = self.storage_usage(key, &owner).await?;
        let budgets = self.access.of_owner(&owner).iter().filter_map(|key| self.budget_usage(key)).collect();
        Ok(Usage { owner, days, used, storage, budgets })
    }

    async fn storage_usage(&self, key: &Arc<Key>, owner: &OwnerId) -> Result<StorageUsage, Error> {
        let bytes = self.store.owner_bytes(owner.clone()).await?;
        let (file_bytes, files) = self.workspaces.usage(owner).await?;
        let (most, quota) = (key.max_storage(), self.workspaces.quota(key));
        Ok(StorageUsage {
            skills: (self.registry.count(owner), Some(Registry::most_versions(most))),
            component_bytes: (bytes.components, most.component_bytes),
            result_bytes: (bytes.results, most.result_bytes),
            file_bytes: (file_bytes, Some(quota.bytes)),
            files: (files, Some(quota.files)),
            kv_bytes: (bytes.kv, Some(key.max_kv_bytes())),
        })
    }

    fn budget_usage(&self, key: &Key) -> Option<BudgetUsage> {
        let budgets = key.budgets();
        let has_some = budgets != Budgets::default();
        has_some.then(|| BudgetUsage { key: key.id.clone(), budgets, spent: self.executor.spent(key) })
    }
}

/// The first and the last day.
fn days(since: Option<i64>, until: Option<i64>, today: i64) -> Result<(i64, i64), Error> {
    let to = until.unwrap_or(today.max(since.unwrap_or(today)));
    let from = since.unwrap_or(to - USUAL_DAYS + 1);
    if from > to {
        return Err(Error::new(Code::Malformed, "`since` lies behind `until`"));
    }
    if to - from >= MAX_USAGE_DAYS {
        return Err(Error::new(Code::Malformed, format!("more than {MAX_USAGE_DAYS} days; ask for a part of them")));
    }
    Ok((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_days_to_today_are_meant_where_nothing_is_said() {
        let said = |since, until| days(since, until, 100).unwrap();
        assert_eq!(said(None, None), (71, 100));
        assert_eq!(said(Some(90), None), (90, 100));
        assert_eq!(said(None, Some(50)), (21, 50));
        assert_eq!(said(Some(105), None), (105, 105));
        for wrong in [(Some(2), Some(1)), (Some(0), Some(MAX_USAGE_DAYS))] {
            assert_eq!(days(wrong.0, wrong.1, 100).unwrap_err().code, Code::Malformed);
        }
    }
}
