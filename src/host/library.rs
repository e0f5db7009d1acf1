//! The library's front door: everything a host does, without HTTP.
//!
//! Each method is the call of one room, so that no caller can do here what its key forbids
//! at another door.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use semver::Version;

use crate::executor::{ExecutionFilter, ExecutionPage, Following};
use crate::model::{
    Alias, Caller, Door, Error, Execution, ExecutionId, ExecutionRequest, SkillId, SkillName, SkillRef, VersionSelector,
};
use crate::registry::{AliasMove, Difference, Manifest, Registered, RegisteredSkill, StagedComponent};

use crate::sandbox::SandboxRunner;

use super::Host;

/// Callers.
impl Host {
    /// The caller behind a key's secret. It is the key as it is now: ask again for each
    /// request, or a key that was revoked goes on working.
    ///
    /// # Errors
    ///
    /// `unauthenticated`.
    pub fn caller(&self, secret: &str) -> Result<Caller, Error> {
        self.access.authenticate(secret, Door::Library)
    }

    /// The administrator: who can open the data directory can read its key too. For the
    /// program's own work; act for others as their keys ([`Host::caller`]).
    ///
    /// # Errors
    ///
    /// `unauthenticated` if every admin key was revoked or has expired.
    pub fn admin(&self) -> Result<Caller, Error> {
        self.access.admin(Door::Library)
    }
}

/// Skills.
impl Host {
    /// Registers a component, once it is on the disk and either compiled or, if that takes
    /// more than 5 s, being compiled: runs wait for it. The same again is no change.
    ///
    /// # Errors
    ///
    /// `invalid_manifest`, `not_supported` or `invalid_component`, with the reason; `conflict`
    /// if the version exists and is different; `unavailable` if the compile worker does not
    /// start (see [`HostOptions::new`](super::HostOptions::new)).
    pub async fn register(
        &self,
        caller: &Caller,
        manifest: Manifest,
        component: impl Into<Bytes>,
    ) -> Result<Registered, Error> {
        let body = stream::iter([Ok::<_, Error>(component.into())]);
        let staged = StagedComponent::receive(&self.temporary, u64::MAX, body).await?;
        self.registry.register(caller, manifest, staged, false).await
    }

    /// Deletes a version, named by id or as `name@version`. Its digest is remembered: the
    /// same can come back, something else cannot take its place.
    ///
    /// # Errors
    ///
    /// `malformed` for a range; `not_found`, `forbidden`.
    pub async fn unregister(&self, caller: &Caller, reference: &SkillRef) -> Result<(), Error> {
        self.registry.delete(caller, reference).await
    }

    /// [`Host::unregister`] by id.
    ///
    /// # Errors
    ///
    /// `not_found`, `forbidden`.
    pub async fn unregister_by_id(&self, caller: &Caller, id: SkillId) -> Result<(), Error> {
        self.unregister(caller, &SkillRef::Id(id)).await
    }

    /// Sets whether a skill may run. Runs under way go on.
    ///
    /// # Errors
    ///
    /// `not_found`, `forbidden`.
    pub async fn set_enabled_by_id(
        &self,
        caller: &Caller,
        id: SkillId,
        enabled: bool,
    ) -> Result<Arc<RegisteredSkill>, Error> {
        self.registry.change(caller, &SkillRef::Id(id), move |skill| skill.enabled = enabled).await
    }

    /// The skill that a reference means for this caller, own ones before global ones.
    ///
    /// # Errors
    ///
    /// `not_found`, also for what the caller may not see.
    pub fn get(&self, caller: &Caller, reference: &SkillRef) -> Result<Arc<RegisteredSkill>, Error> {
        self.registry.get(caller, reference)
    }

    /// Every version of a skill that this caller may name, highest first.
    ///
    /// # Errors
    ///
    /// `insufficient_scope`.
    pub fn versions(&self, caller: &Caller, name: &SkillName) -> Result<Vec<Arc<RegisteredSkill>>, Error> {
        self.registry.versions(caller, name)
    }

    /// The version that a range, or `latest`, means for this caller now.
    ///
    /// # Errors
    ///
    /// `not_found` if there is none.
    pub fn resolve_version(
        &self,
        caller: &Caller,
        name: SkillName,
        version: VersionSelector,
    ) -> Result<Version, Error> {
        let found = self.get(caller, &SkillRef::Name { name, version, function: None })?;
        Ok(found.skill.version.clone())
    }

    /// Lets an alias stand for a version, so that `name@alias` means it; moving it back is a
    /// rollback. `skill` is a name without a version, or the id of one version.
    ///
    /// # Errors
    ///
    /// `not_found`, `forbidden`; `conflict` if the alias does not point where [`AliasMove::from`]
    /// says; `approval_required` if the version waits for approval.
    pub async fn move_alias(
        &self,
        caller: &Caller,
        skill: &SkillRef,
        wanted: AliasMove,
    ) -> Result<Arc<RegisteredSkill>, Error> {
        self.registry.move_alias(caller, skill, wanted).await
    }

    /// Takes an alias away; the version stays.
    ///
    /// # Errors
    ///
    /// `not_found`, `forbidden`.
    pub async fn remove_alias(&self, caller: &Caller, skill: &SkillRef, alias: Alias) -> Result<(), Error> {
        self.registry.remove_alias(caller, skill, alias).await
    }

    /// The aliases that stand for the version that a reference means.
    ///
    /// # Errors
    ///
    /// As [`Host::get`].
    pub fn aliases(&self, caller: &Caller, reference: &SkillRef) -> Result<Vec<Alias>, Error> {
        let found = self.get(caller, reference)?;
        Ok(self.registry.aliases(&found.skill))
    }

    /// What a version may do or tells models that another, or the one before it, does not.
    ///
    /// # Errors
    ///
    /// `not_found` for either; and as any read.
    pub async fn difference(
        &self,
        caller: &Caller,
        reference: &SkillRef,
        from: Option<&VersionSelector>,
    ) -> Result<Difference, Error> {
        self.registry.difference(caller, reference, from).await
    }

    /// Lets a version run that waits for approval (see [`HostOptions::approval`](super::HostOptions)).
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `skills:approve`; `malformed` for a range; `not_found`,
    /// `forbidden`.
    pub async fn approve(&self, caller: &Caller, reference: &SkillRef) -> Result<Arc<RegisteredSkill>, Error> {
        self.registry.approve(caller, reference).await
    }

    /// Every skill this caller may see, own ones hiding global ones of the same `name@version`.
    ///
    /// # Errors
    ///
    /// `insufficient_scope`.
    pub fn scoped_skills(&self, caller: &Caller) -> Result<Vec<Arc<RegisteredSkill>>, Error> {
        self.registry.list(caller)
    }
}

/// Runs.
impl Host {
    /// Runs a skill to its end and gives the record, which is on the disk by then. Dropping
    /// the future cancels the run.
    ///
    /// # Errors
    ///
    /// Why it did not become a run: nothing was started and nothing is recorded. A run that
    /// failed or met a limit is an `Ok` whose `status` and `error` say so.
    pub async fn execute(&self, caller: Caller, request: ExecutionRequest) -> Result<Execution, Error> {
        self.executor.execute(caller, request).await
    }

    /// Accepts a run whose end nobody waits for, and gives it as it stands: on the disk, and
    /// `pending`. It begins when its turn comes, also after a restart, and its deadline with it.
    ///
    /// # Errors
    ///
    /// As [`Host::execute`]; `queue_full` or `overloaded` if too many wait.
    pub async fn submit(&self, caller: Caller, request: ExecutionRequest) -> Result<Execution, Error> {
        self.executor.submit(caller, request, None).await.map(|once| once.execution)
    }

    /// Follows an execution to its end: what it says while it goes on, and how it ends.
    ///
    /// # Errors
    ///
    /// `not_found` as [`Host::get_execution`].
    pub async fn follow(&self, caller: Caller, id: ExecutionId) -> Result<Following, Error> {
        self.executor.follow(caller, id, 0).await
    }

    /// Ends an execution, and gives it as it then stands.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `skills:execute`; `not_found` as [`Host::get_execution`];
    /// `already_finished` if it has come to an end of its own.
    pub async fn cancel_execution(&self, caller: &Caller, id: ExecutionId) -> Result<Execution, Error> {
        self.executor.cancel(caller, id).await
    }

    /// One execution with its result, as long as that is kept.
    ///
    /// # Errors
    ///
    /// `not_found`, also for what the caller may not see.
    pub async fn get_execution(&self, caller: &Caller, id: ExecutionId) -> Result<Execution, Error> {
        self.executor.get(caller, id).await
    }

    /// Executions, newest first, without their outputs. `limit` has no default: 0 gives none.
    ///
    /// # Errors
    ///
    /// `forbidden` or `insufficient_scope` if the filter asks for what the caller may not see.
    pub async fn list_executions(&self, caller: &Caller, filter: ExecutionFilter) -> Result<ExecutionPage, Error> {
        self.executor.list(caller, filter).await
    }

    /// How many executions match.
    ///
    /// # Errors
    ///
    /// As [`Host::list_executions`].
    pub async fn count_executions(&self, caller: &Caller, filter: ExecutionFilter) -> Result<u64, Error> {
        self.executor.count(caller, filter).await
    }
}

/// Containers without a skill around them.
impl Host {
    /// Runs commands in images, and ends them. For the program's own work: it asks for no key and
    /// writes no audit.
    pub fn sandbox_runner(&self) -> SandboxRunner {
        self.runner.clone()
    }
}
