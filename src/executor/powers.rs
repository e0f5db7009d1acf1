//! What a run was granted beyond itself.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::model::{Caller, Execution, ExecutionId};
use crate::registry::RegisteredSkill;
use crate::sandbox::{Children, KeyValue, Powers};

use super::children::Line;
use super::keyvalue::Kept;
use super::{Admitted, Executor};

/// What a run may use of its skill's grants.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) executor: Arc<Executor>,
    pub(super) caller: Caller,
    pub(super) skill: Arc<RegisteredSkill>,
    pub(super) execution: ExecutionId,
    pub(super) session: Option<String>,
    pub(super) offline: bool,
    pub(super) read_only: bool,
    pub(super) line: Line,
    pub(super) cancel: CancellationToken,
}

/// What `admitted` may use, or nothing where its skill asks for nothing.
pub(super) fn of(executor: &Arc<Executor>, admitted: &Admitted, execution: &Execution) -> Option<Arc<dyn Powers>> {
    let skill = &admitted.skill.skill;
    let grants = &skill.grants;
    if grants.config.is_empty() && grants.env.is_empty() && !grants.kv && skill.pinned.is_empty() {
        return None;
    }
    Some(Arc::new(Held {
        executor: Arc::clone(executor),
        caller: admitted.caller.clone(),
        skill: Arc::clone(&admitted.skill),
        execution: execution.id,
        session: execution.session_id.clone(),
        offline: admitted.request.offline,
        read_only: admitted.request.read_only,
        line: admitted.line.clone(),
        cancel: admitted.cancel.clone(),
    }))
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&self.skill.address).finish()
    }
}

impl Powers for Held {
    fn config(&self) -> &BTreeMap<String, String> {
        &self.skill.skill.grants.config
    }

    fn env(&self) -> &BTreeMap<String, String> {
        &self.skill.skill.grants.env
    }

    fn keyvalue(&self) -> Option<Arc<dyn KeyValue>> {
        let skill = &self.skill.skill;
        skill.grants.kv.then(|| -> Arc<dyn KeyValue> {
            Arc::new(Kept {
                store: self.executor.store.clone(),
                gates: Arc::clone(&self.executor.kept),
                owner: self.caller.owner().clone(),
                skill_owner: skill.owner.clone(),
                skill: skill.name.clone(),
                bytes: self.caller.key.max_kv_bytes(),
            })
        })
    }

    fn children(&self) -> Option<Arc<dyn Children>> {
        (!self.skill.skill.pinned.is_empty()).then(|| -> Arc<dyn Children> { Arc::new(self.clone()) })
    }
}
