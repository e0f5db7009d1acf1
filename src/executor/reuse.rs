//! Which runs may have an instance one after the other.

use crate::model::Digest;

use super::Admitted;

/// What must be the same for a run to get the instance of one before, or nothing where it gets a
/// fresh one: the skill asks for it, both keys allow it, and no other skill called it.
///
/// What a guest keeps in its memory is what it saw with its powers. So everything that decides on
/// these counts, the calling key before all. Which secrets it had counts too, and is looked at
/// where the instance is kept: there they are the very ones that were opened for the run.
pub(super) fn whose(admitted: &Admitted) -> Option<Digest> {
    let (skill, key) = (&admitted.skill.skill, &admitted.caller.key);
    if !skill.is_reused() || !key.may_reuse() || admitted.line.depth() > 0 {
        return None;
    }
    let caller = (&key.owner, &key.id, key.is_admin(), &key.ceilings);
    let registrar =
        (&skill.frozen_network, skill.frozen_workspace, &skill.frozen_secrets, &skill.frozen_skills, &skill.pinned);
    let request = (admitted.request.offline, admitted.request.read_only);
    let all = format!("{:?}", (skill.id, &skill.grants, caller, registrar, request));
    Some(Digest::of(all.as_bytes()))
}
