//! From uploaded bytes to a registered skill.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::files;
use crate::model::{
    Approval, Caller, Code, Digest, Error, Grants, Handler, Mode, OwnerId, Scope, Skill, SkillId, SkillState,
    StorageCeilings,
};
use crate::sandbox::{Inspection, PrepareRequest, Preparing};
use crate::store::{Act, ComponentRecord, SkillParts, SkillRecord, to_its_end};

use super::installing::{owner_for, provider, require_global, require_visible};
use super::manifest::{Checked, CheckedAlone, Manifest};
use super::network::beyond;
use super::under_way::UnderWay;
use super::{RegisteredSkill, Registry, StagedComponent, asks, functions, pins, reuse, secrets, workspace};

/// How long an upload waits for its component to be compiled before it answers without.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an upload waits for the first look into its component. Before it, nothing can be
/// registered, not even as being compiled: name, version and description may come from the
/// component, and with them what the same upload is compared with the next time.
const LOOK: Duration = Duration::from_secs(60);

/// What registering came to.
#[derive(Debug)]
pub enum Registered {
    /// It is new, or back again.
    Created(Arc<RegisteredSkill>),
    /// It was there already, the same.
    Unchanged(Arc<RegisteredSkill>),
}

/// Where a component, or what is in its place, comes from.
pub(super) enum Source {
    /// It was uploaded just now.
    Uploaded(StagedComponent),
    /// A handler says all of it.
    Written(StagedComponent, Handler),
    /// This owner uploaded it before.
    Kept(ComponentRecord),
}

impl Source {
    fn record(&self) -> ComponentRecord {
        match self {
            Self::Uploaded(staged) | Self::Written(staged, _) => {
                ComponentRecord { digest: staged.digest, bytes: staged.bytes }
            }
            Self::Kept(record) => *record,
        }
    }

    /// The file that has yet to be put in its place.
    fn file(&self) -> Option<&Path> {
        match self {
            Self::Uploaded(staged) | Self::Written(staged, _) => Some(&staged.file),
            Self::Kept(_) => None,
        }
    }

    fn handler(&self) -> Handler {
        match self {
            Self::Uploaded(_) | Self::Kept(_) => Handler::Wasm { digest: self.record().digest },
            Self::Written(_, handler) => handler.clone(),
        }
    }
}

impl Registered {
    /// The skill.
    pub fn skill(&self) -> &Arc<RegisteredSkill> {
        match self {
            Self::Created(skill) | Self::Unchanged(skill) => skill,
        }
    }
}

impl Registry {
    /// Registers a component that was uploaded just now.
    ///
    /// # Errors
    ///
    /// What is wrong with manifest or component; `conflict` if the version exists and is
    /// different; `forbidden` for another owner; `overloaded` if too much is being compiled.
    pub async fn register(
        self: &Arc<Self>,
        caller: &Caller,
        manifest: Manifest,
        component: StagedComponent,
        respond_async: bool,
    ) -> Result<Registered, Error> {
        caller.key.require(Scope::SkillsWrite)?;
        if let Some(digest) = manifest.component()?
            && digest != component.digest
        {
            let detail = format!("the uploaded component has the digest {}", component.digest);
            return Err(Error::at(Code::DigestMismatch, "/handler", detail));
        }
        self.take(caller, manifest, Source::Uploaded(component), respond_async).await
    }

    /// Registers a skill by manifest alone: its handler names a component this owner uploaded before, or
    /// says all that there is to run.
    ///
    /// # Errors
    ///
    /// As [`Registry::register`]; `unknown_component` if this owner did not upload it, or if
    /// the key has an allow-list and may see no skill of it.
    pub async fn register_manifest(
        self: &Arc<Self>,
        caller: &Caller,
        manifest: Manifest,
        respond_async: bool,
    ) -> Result<Registered, Error> {
        caller.key.require(Scope::SkillsWrite)?;
        if let Some(program) = manifest.container()? {
            return self.register_program(caller, manifest, program, respond_async).await;
        }
        let owner = owner_for(caller, &manifest)?;
        let digest = manifest.component()?.ok_or_else(unknown_component)?;
        if !self.may_reuse(&caller.key, digest) {
            return Err(unknown_component());
        }
        let record = self.store.owned_component(owner, digest).await?.ok_or_else(unknown_component)?;
        self.take(caller, manifest, Source::Kept(record), respond_async).await
    }

    /// Has the component compiled, and registers the skill once that has ended or takes long.
    pub(super) async fn take(
        self: &Arc<Self>,
        caller: &Caller,
        manifest: Manifest,
        source: Source,
        respond_async: bool,
    ) -> Result<Registered, Error> {
        let alone = manifest.check_alone()?;
        alone.name.as_ref().map_or(Ok(()), |name| require_visible(caller, name))?;
        let owner = owner_for(caller, &manifest)?;
        let record = source.record();
        let mut under_way = UnderWay::begin(self, record.digest);
        let file = source.file().map_or_else(|| self.blob(record.digest), Path::to_owned);
        let preparing = self.sandbox.prepare(prepare_request(&owner, &source, &file))?;
        let preparing = under_way.preparing.insert(preparing);
        let inspection = look(preparing, LOOK).await?;
        let parts = SkillParts { component: record, skill_md: manifest.skill_md.clone() };
        reuse::require_possible(manifest.reuse, &inspection)?;
        let mut skill = self.draft(caller, (manifest, alone), inspection, source.handler())?;
        skill.warnings.extend(self.absent_secrets(&skill).await?);
        let patience = if respond_async { Duration::ZERO } else { PATIENCE };
        let (state, problem) = match tokio::time::timeout(patience, &mut preparing.ready).await {
            Ok(answer) => {
                answer.map_err(Error::internal)??;
                self.sandbox.check(record.digest)?;
                self.standing(&skill.handler).await
            }
            Err(_) => (SkillState::Compiling, None),
        };
        let (registry, skill) = (Arc::clone(self), Skill { state, problem, ..skill });
        let made = serde_json::json!({ "digest": record.digest, "grants": skill.grants });
        let act = self.act(caller, "skill.register", &skill).with(&made);
        let room = (caller.key.max_storage(), act);
        to_its_end(async move {
            let registered = registry.keep(skill, (parts, source.file()), room).await?;
            let skill = registered.skill().skill.clone();
            registry.prepare_unmetered(&skill);
            if state == SkillState::Compiling {
                tokio::spawn(Arc::clone(&registry).finish_preparing(skill, under_way));
            }
            Ok(registered)
        })
        .await
    }

    /// The skill that manifest and component make together.
    pub(super) fn draft(
        &self,
        caller: &Caller,
        (mut manifest, alone): (Manifest, CheckedAlone),
        mut inspection: Inspection,
        handler: Handler,
    ) -> Result<Skill, Error> {
        let owner = owner_for(caller, &manifest)?;
        let source = manifest.complete(&mut inspection);
        let ceiling = caller.key.max_limits();
        let Checked { name, version, description, schema, limits, retry, cut, digest: manifest_digest } =
            manifest.check(alone, ceiling)?;
        require_visible(caller, &name)?;
        require_global(&owner, manifest.public)?;
        let (functions, schema) = functions::described(inspection.functions, schema, &description)?;
        let (now, network, ceilings) = (self.clock.now_ms(), manifest.network(), caller.key.max_network());
        let pinned = self.pins(caller, &owner, &manifest.grants.skills)?;
        let (asked, frozen_skills) = (manifest.workspace(), caller.key.max_skills());
        let mut warnings = inspection.warnings;
        let grants = Grants { network, workspace: asked, ..manifest.grants };
        warnings.extend(asks::without_grant(&inspection.imports, &grants));
        warnings.extend(cut);
        let reuse = reuse::beyond(manifest.reuse, &caller.key);
        warnings
            .extend(workspace::beyond(caller.key.max_workspace(), asked).into_iter().chain(reuse).map(str::to_owned));
        warnings.extend(grants.network.iter().filter_map(|rule| beyond(&ceilings, rule)));
        let frozen_secrets = caller.key.max_secrets();
        warnings.extend(secrets::beyond(frozen_secrets.as_deref(), &grants.secrets));
        warnings.extend(pinned.iter().filter_map(|pin| pins::beyond(frozen_skills.as_deref(), pin)));
        warnings.extend(too_little(limits.memory_mb, inspection.minimum_memory_bytes));
        Ok(Skill {
            id: SkillId::generate(),
            owner,
            name,
            version,
            description,
            handler,
            schema,
            enabled: manifest.enabled.unwrap_or(true),
            mode: manifest.mode.unwrap_or(Mode::On),
            tags: manifest.tags,
            source_provider: manifest.source_provider.unwrap_or_else(|| provider(source.as_ref())),
            source,
            public: manifest.public,
            idempotent: manifest.idempotent,
            reuse: manifest.reuse,
            frozen_reuse: caller.key.may_reuse(),
            approval: Approval::None,
            grants,
            limits,
            retry,
            frozen_limits: ceiling,
            frozen_network: ceilings,
            frozen_workspace: caller.key.max_workspace(),
            frozen_secrets,
            frozen_skills,
            pinned,
            functions,
            imports: inspection.imports,
            warnings,
            state: SkillState::Ready,
            problem: None,
            registered_by: caller.key.id.clone(),
            manifest_digest,
            created_at: now,
            updated_at: now,
        })
    }

    /// Moves the bytes to their place and writes the rows, in this order: a crash in between
    /// leaves a file without a row, which the next start removes.
    pub(super) async fn keep(
        &self,
        skill: Skill,
        (parts, file): (SkillParts, Option<&Path>),
        (room, act): (StorageCeilings, Act),
    ) -> Result<Registered, Error> {
        let digest = parts.component.digest;
        let _alone = self.changes.lock().await;
        if file.is_none() && !self.blob(digest).exists() {
            // Its last skill was deleted since we looked.
            return Err(unknown_component());
        }
        self.require_room(&skill, parts.component, room).await?;
        let skill = self.judged(skill, parts.skill_md.as_deref()).await?;
        if let Some(file) = file {
            let (from, to, blobs) = (file.to_owned(), self.blob(digest), self.blobs.clone());
            let moved = tokio::task::spawn_blocking(move || {
                std::fs::rename(from, to)?;
                files::sync_directory(&blobs)
            });
            moved.await.map_err(Error::internal)?.map_err(Error::internal)?;
        }
        let kept = match self.store.by(act.clone()).insert_skill(skill.clone(), parts.clone()).await {
            Ok(None) => Ok(Registered::Created(self.add(skill))),
            Ok(Some(existing)) => self.meet((skill, parts), existing, act).await,
            Err(error) => Err(error),
        };
        if kept.is_err() && file.is_some() {
            self.remove_if_orphan(digest).await;
        }
        kept
    }

    /// Removes a component's file that no row came to know. Called with `changes` held. The code
    /// stays: another upload of the same bytes may have been told just now that it is there.
    async fn remove_if_orphan(&self, digest: Digest) {
        // Where the store cannot say, the next start finds out.
        if self.store.components().await.is_ok_and(|known| !known.contains(&digest)) {
            let _ = tokio::fs::remove_file(self.blob(digest)).await;
        }
    }

    fn add(&self, skill: Skill) -> Arc<RegisteredSkill> {
        let skill = RegisteredSkill::new(skill);
        self.skills.write().put(Arc::clone(&skill));
        self.announce();
        skill
    }

    /// The version exists, or existed: the same again is fine, something else is not.
    async fn meet(
        &self,
        (skill, parts): (Skill, SkillParts),
        existing: SkillRecord,
        act: Act,
    ) -> Result<Registered, Error> {
        let old = existing.skill;
        if !old.handler.is_written_as(&skill.handler) || old.manifest_digest != skill.manifest_digest {
            let detail = format!("{} exists with other content; publish another version", old.address());
            return Err(Error::new(Code::Conflict, detail));
        }
        if !existing.deleted {
            let current = self.skills.read().by_id.get(&old.id).cloned();
            let current = current.unwrap_or_else(|| RegisteredSkill::new(old));
            return Ok(Registered::Unchanged(self.heal(current, skill.state).await?));
        }
        let restored = Skill { id: old.id, created_at: old.created_at, ..skill };
        self.store.by(act).restore_skill(restored.clone(), parts).await?;
        Ok(Registered::Created(self.add(restored)))
    }

    /// Takes over how far the same component came just now, where it had not come before: what
    /// went wrong then was not its fault.
    async fn heal(&self, current: Arc<RegisteredSkill>, state: SkillState) -> Result<Arc<RegisteredSkill>, Error> {
        if current.skill.state == SkillState::Ready || current.skill.state == state {
            return Ok(current);
        }
        let healed = Skill { state, problem: None, updated_at: self.clock.now_ms(), ..current.skill.clone() };
        self.store.update_skill(healed.clone()).await?;
        Ok(self.add(healed))
    }

    /// Writes down how the compiling of a registered skill went.
    pub(super) async fn finish_preparing(self: Arc<Self>, skill: Skill, mut under_way: UnderWay) {
        let Some(preparing) = &mut under_way.preparing else { return };
        let result = match (&mut preparing.ready).await {
            Ok(result) => result.and_then(|()| self.sandbox.check(skill.handler.digest())),
            // The host is going down; the next one tries again.
            Err(_) => return,
        };
        let (state, problem) = match result {
            Ok(()) => self.standing(&skill.handler).await,
            // What was ready once is sound; the compiler of today may have had too little of something.
            Err(error) if error.code == Code::InvalidComponent && skill.state != SkillState::Ready => {
                (SkillState::Failed, Some(error.detail))
            }
            // Nothing is wrong with the skill: the next start tries again.
            Err(error) => (SkillState::Unavailable, Some(error.detail)),
        };
        let id = skill.id;
        match self.replace(id, |skill| (skill.state, skill.problem) = (state, problem)).await {
            Ok(_) => {}
            // It was deleted meanwhile.
            Err(error) if error.code == Code::NotFound => {}
            Err(error) => tracing::error!(skill.id = %id, "The state of a skill could not be written: {error:?}"),
        }
    }
}

/// What is said of a component that cannot even start under its limit of memory.
fn too_little(memory_mb: u64, needed: u64) -> Option<String> {
    let mib = needed.div_ceil(1 << 20);
    (mib > memory_mb).then(|| format!("it needs at least {mib} MiB to start; limits.memoryMb is {memory_mb}"))
}

fn prepare_request(owner: &OwnerId, source: &Source, file: &Path) -> PrepareRequest {
    let (owner, file, ComponentRecord { digest, bytes }) = (owner.clone(), file.to_owned(), source.record());
    PrepareRequest { owner, handler: source.handler(), digest, file, bytes, unmetered: false }
}

fn unknown_component() -> Error {
    let detail = "this owner has uploaded no component with that digest; upload it with POST /api/skills";
    Error::at(Code::UnknownComponent, "/handler", detail)
}

async fn look(preparing: &mut Preparing, patience: Duration) -> Result<Inspection, Error> {
    let answer = tokio::time::timeout(patience, &mut preparing.inspected).await.map_err(|_| {
        let detail = "too much is being compiled, and nobody has looked into this component yet; send it again later";
        Error::new(Code::Overloaded, detail).retry_after(30)
    })?;
    answer.map_err(|_| Error::new(Code::Unavailable, "the host is shutting down"))?
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn who_waits_too_long_for_the_first_look_is_told_when_to_come_again() {
        let ((inspected, first), (_ready, last)) = (oneshot::channel(), oneshot::channel());
        let mut preparing = Preparing { inspected: first, ready: last };
        let late = look(&mut preparing, Duration::ZERO).await.unwrap_err();
        assert_eq!((late.code, late.retry_after_s), (Code::Overloaded, Some(30)));
        inspected.send(Ok(Inspection::default())).unwrap();
        look(&mut preparing, Duration::ZERO).await.unwrap();
    }
}
