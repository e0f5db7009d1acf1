//! What a run was granted beyond itself.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::registry::RegisteredSkill;
use crate::sandbox::Powers;

use super::Admitted;

/// What a run may use of its skill's grants.
struct Held {
    skill: Arc<RegisteredSkill>,
}

/// What `admitted` may use, or nothing where its skill asks for nothing.
pub(super) fn of(admitted: &Admitted) -> Option<Arc<dyn Powers>> {
    let grants = &admitted.skill.skill.grants;
    if grants.config.is_empty() && grants.env.is_empty() {
        return None;
    }
    Some(Arc::new(Held { skill: Arc::clone(&admitted.skill) }))
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
}
