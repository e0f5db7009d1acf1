//! What a run needs that must be waited for, before anything is written down.

use std::sync::Arc;

use crate::egress::Credentials;
use crate::model::{Access, Error};
use crate::workspace::WorkspaceGrant;

use super::{Admitted, Executor, files};

/// What the run's skill was granted, ready to be used.
pub(super) struct Gathered {
    /// How far it may go in its owner's files.
    pub(super) workspace: WorkspaceGrant,
    /// What its requests carry.
    pub(super) credentials: Arc<Credentials>,
}

impl Gathered {
    /// Gathers it.
    pub(super) async fn of(executor: &Executor, admitted: &Admitted) -> Result<Self, Error> {
        let workspace = files::granted(admitted, &executor.workspaces);
        if workspace.access() > Access::None {
            // Here, so that no guest has to wait for it among others.
            executor.workspaces.ready(admitted.caller.owner()).await?;
        }
        Ok(Self { workspace, credentials: executor.credentials_for(admitted)? })
    }
}
