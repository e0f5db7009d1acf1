//! How far a run may go in its owner's files.

use crate::model::Access;
use crate::workspace::{WorkspaceGrant, Workspaces};

use super::Admitted;

/// What the manifest asks for, under every ceiling.
pub(super) fn granted(admitted: &Admitted, workspaces: &Workspaces) -> WorkspaceGrant {
    let (skill, key) = (&admitted.skill.skill, &admitted.caller.key);
    WorkspaceGrant {
        manifest: skill.grants.workspace,
        registrar: skill.frozen_workspace,
        // Who calls another skill lends it no more than it might have itself.
        above: admitted.line.workspace.unwrap_or(Access::Write),
        caller: key.max_workspace(),
        request: if admitted.request.read_only { Access::Read } else { Access::Write },
        quota: workspaces.quota(key),
    }
}
