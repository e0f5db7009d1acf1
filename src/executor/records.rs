//! Who may see which executions.

use crate::model::{Caller, Code, Error, Execution, ExecutionId, Key, Scope};
use crate::store::{ExecutionFilter, ExecutionPage};

use super::Executor;

impl Executor {
    /// One execution with its result.
    ///
    /// # Errors
    ///
    /// `not_found`, also for what this caller may not see: another owner's, or what another
    /// key of the owner started where the key lacks `executions:read`, or of a skill outside
    /// the key's allow-list.
    pub async fn get(&self, caller: &Caller, id: ExecutionId) -> Result<Execution, Error> {
        let key = &caller.key;
        let owner = (!key.is_admin()).then(|| key.owner.clone());
        let found = self.store.execution(id, owner).await?;
        let sees_all = key.has(Scope::ExecutionsRead);
        let visible =
            |execution: &Execution| (sees_all || execution.key_id == key.id) && may_see(key, &execution.skill_address);
        found.filter(visible).ok_or_else(|| Error::not_found("execution"))
    }

    /// Executions that this caller may see, newest first: its owner's, or for an admin key
    /// everybody's; without `executions:read` only what the key itself started; never
    /// of a skill outside the key's allow-list.
    ///
    /// # Errors
    ///
    /// `forbidden` or `insufficient_scope` if the filter asks for others; as the store gives them.
    pub async fn list(&self, caller: &Caller, mut filter: ExecutionFilter) -> Result<ExecutionPage, Error> {
        let key = &caller.key;
        if !key.is_admin() {
            if filter.owner.is_some_and(|owner| owner != key.owner) {
                let detail = "only an admin key may list another owner's executions";
                return Err(Error::new(Code::Forbidden, detail));
            }
            filter.owner = Some(key.owner.clone());
        }
        if !key.has(Scope::ExecutionsRead) {
            if filter.key.is_some_and(|id| id != key.id) {
                key.require(Scope::ExecutionsRead)?;
            }
            filter.key = Some(key.id.clone());
        }
        if let Some(allowed) = &key.skills {
            let asked = filter.names.unwrap_or_else(|| allowed.clone());
            filter.names = Some(asked.into_iter().filter(|name| key.may_see(name)).collect());
        }
        self.store.executions(filter).await
    }

    /// How many executions match that this caller may see; `before` and `limit` do not count.
    ///
    /// # Errors
    ///
    /// As [`Executor::list`].
    pub async fn count(&self, caller: &Caller, filter: ExecutionFilter) -> Result<u64, Error> {
        let page = self.list(caller, ExecutionFilter { limit: 0, ..filter }).await?;
        Ok(page.total)
    }
}

/// Whether the key may see a skill of this address (`name@version`).
fn may_see(key: &Key, address: &str) -> bool {
    let name = address.split_once('@').map_or(address, |(name, _)| name);
    key.skills.is_none() || name.parse().is_ok_and(|name| key.may_see(&name))
}
