//! Which skills there are: their manifests, their versions, and how a name becomes one of them.

mod aliases;
mod approval;
mod archive;
mod asks;
mod difference;
mod functions;
mod index;
mod installing;
mod listing;
mod manifest;
mod network;
mod owners;
mod pins;
mod programs;
mod quota;
mod readying;
mod relevance;
mod reserved;
mod reuse;
mod schema;
mod secrets;
mod skill_md;
mod staging;
mod supplied;
mod tools;
mod under_way;
mod upload;
mod values;
mod versions;
mod workspace;

#[cfg(test)]
mod properties;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::RwLock;
use tokio::sync::{Mutex, Notify, watch};

use crate::model::{
    ApprovalPolicy, Caller, Clock, Code, Digest, Error, Key, OwnerId, Scope, Skill, SkillId, SkillName, SkillRef,
    SkillState, VersionSelector,
};
use crate::sandbox::SandboxProvider;
use crate::store::{Act, Store, to_its_end};

use self::index::Index;

pub use self::aliases::AliasMove;
pub use self::archive::{unzip, unzip_part};
pub use self::difference::{Change, ChangeKind, Difference};
pub use self::installing::Origin;
pub use self::listing::Place;
pub use self::manifest::Manifest;
pub use self::schema::Checker;
pub use self::staging::StagedComponent;
pub(crate) use self::supplied::Supplied;
pub use self::tools::ToolRef;
pub use self::upload::Registered;

/// A skill together with what is worked out from it once.
#[derive(Debug)]
pub struct RegisteredSkill {
    /// The skill.
    pub skill: Skill,
    /// The skill as `name@version`.
    pub address: Arc<str>,
    checked: Vec<functions::Checked>,
}

impl RegisteredSkill {
    fn new(skill: Skill) -> Arc<Self> {
        let address = skill.address().into();
        let checked = functions::Checked::all(&skill);
        Arc::new(Self { skill, address, checked })
    }

    /// Whether it has a function of this name, be it one that can be called or not.
    fn has(&self, function: &str) -> bool {
        self.skill.functions.iter().any(|known| known.name == function)
    }
}

/// The skills of this host, all in memory; the store has the same.
pub struct Registry {
    store: Store,
    sandbox: Arc<dyn SandboxProvider>,
    clock: Clock,
    /// Where component bytes lie, by digest.
    blobs: PathBuf,
    /// Whether what grows waits for somebody who accepts it.
    approval: ApprovalPolicy,
    skills: RwLock<Index>,
    /// Told whenever a skill changes.
    changed: Notify,
    /// The same, for whoever may miss some and wants the rest ([`Registry::revisions`]).
    revision: watch::Sender<u64>,
    /// Held while a skill changes, in memory, in its row and in its component's file: what is
    /// read before a change is what it changes.
    changes: Mutex<()>,
    /// How many registrations of a component are under way.
    under_way: parking_lot::Mutex<HashMap<Digest, usize>>,
}

impl Registry {
    /// Loads all skills. `blobs` is the directory with their components; `approval` is for what is
    /// registered from now on.
    ///
    /// # Errors
    ///
    /// As the store gives them.
    pub async fn open(
        store: Store,
        sandbox: Arc<dyn SandboxProvider>,
        clock: Clock,
        (blobs, approval): (PathBuf, ApprovalPolicy),
    ) -> Result<Arc<Self>, Error> {
        let (records, broken) = store.skills().await?;
        for row in broken {
            tracing::error!(
                skill.row = row,
                "A row of `skills` cannot be read and is left out; `skillvisor doctor` lists such rows"
            );
        }
        let mut index = Index::default();
        for record in records.into_iter().filter(|record| !record.deleted) {
            index.put(RegisteredSkill::new(record.skill));
        }
        let (aliases, broken) = store.aliases().await?;
        for row in broken {
            tracing::error!(alias.row = row, "A row of `skill_aliases` cannot be read and is left out");
        }
        aliases.into_iter().for_each(|alias| index.put_alias(alias));
        let registry = Arc::new(Self {
            store,
            sandbox,
            clock,
            blobs,
            approval,
            skills: RwLock::new(index),
            changed: Notify::new(),
            revision: watch::Sender::new(0),
            changes: Mutex::default(),
            under_way: parking_lot::Mutex::default(),
        });
        registry.remove_orphans().await?;
        registry.prepare_all();
        Ok(registry)
    }

    /// Tells those who wait that a skill has changed.
    fn announce(&self) {
        self.changed.notify_waiters();
        self.revision.send_modify(|revision| *revision = revision.wrapping_add(1));
    }

    /// Changes whenever a skill does: any owner's, so that it says nothing to a caller by itself.
    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// The skill that `reference` means for this caller, own before global.
    ///
    /// # Errors
    ///
    /// `not_found`, also for what this key may not see.
    pub fn resolve(&self, caller: &Caller, reference: &SkillRef) -> Result<Arc<RegisteredSkill>, Error> {
        let key = &caller.key;
        let found = match reference {
            SkillRef::Id(id) | SkillRef::FunctionOf(id, _) => {
                let skill = self.skills.read().by_id.get(id).cloned();
                skill.filter(|skill| may_read(key, &skill.skill.owner))
            }
            SkillRef::Name { name, version, .. } => {
                let system = OwnerId::system();
                [&key.owner, &system].iter().find_map(|owner| self.pick(owner, name, version))
            }
        };
        let found = found.filter(|skill| key.may_see(&skill.skill.name)).ok_or_else(|| Error::not_found("skill"))?;
        match reference.function() {
            Some(function) if !found.has(function) => Err(Error::not_found("function")),
            _ => Ok(found),
        }
    }

    fn pick(&self, owner: &OwnerId, name: &SkillName, version: &VersionSelector) -> Option<Arc<RegisteredSkill>> {
        self.skills.read().pick(owner, name, version)
    }

    /// Waits until a skill that is being compiled can run, or `deadline` comes.
    ///
    /// # Errors
    ///
    /// `compiling` at the deadline; `not_found` if it is deleted; and why it may not run at all.
    pub async fn runnable(
        &self,
        mut skill: Arc<RegisteredSkill>,
        deadline: Instant,
    ) -> Result<Arc<RegisteredSkill>, Error> {
        loop {
            let changed = self.changed.notified();
            let current = self.skills.read().by_id.get(&skill.skill.id).cloned();
            skill = self.looked(&current.ok_or_else(|| Error::not_found("skill"))?).await?;
            skill.skill.require_runnable()?;
            if skill.skill.state == SkillState::Ready {
                return Ok(skill);
            }
            if tokio::time::timeout_at(deadline.into(), changed).await.is_err() {
                let detail = format!("{} is still being compiled", skill.skill.address());
                return Err(Error::new(Code::Compiling, detail).retry_after(5));
            }
        }
    }

    /// Changes what may change in a skill.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `skills:write`; `invalid_manifest` for too many labels;
    /// `not_found` or `forbidden` if it is not this caller's; and as the store gives them.
    pub async fn change(
        self: &Arc<Self>,
        caller: &Caller,
        reference: &SkillRef,
        change: impl FnOnce(&mut Skill) + Send + 'static,
    ) -> Result<Arc<RegisteredSkill>, Error> {
        caller.key.require(Scope::SkillsWrite)?;
        let found = self.resolve(caller, reference)?;
        require_own(&caller.key, &found.skill.owner)?;
        let (registry, act) = (Arc::clone(self), self.act(caller, "skill.update", &found.skill));
        to_its_end(async move { registry.replace_by(found.skill.id, Some(act), change).await }).await
    }

    /// What a caller does to a skill, for the audit.
    fn act(&self, caller: &Caller, act: &str, skill: &Skill) -> Act {
        Act::of(caller, act, self.clock.now_ms()).to(&skill.owner, skill.address())
    }

    /// Changes the skill by the host itself.
    async fn replace(&self, id: SkillId, change: impl FnOnce(&mut Skill)) -> Result<Arc<RegisteredSkill>, Error> {
        self.replace_by(id, None, change).await
    }

    /// Changes the skill as it is by then, which may be another than the caller saw.
    async fn replace_by(
        &self,
        id: SkillId,
        act: Option<Act>,
        change: impl FnOnce(&mut Skill),
    ) -> Result<Arc<RegisteredSkill>, Error> {
        let _alone = self.changes.lock().await;
        let current = self.skills.read().by_id.get(&id).cloned().ok_or_else(|| Error::not_found("skill"))?;
        let mut skill = current.skill.clone();
        change(&mut skill);
        if skill.tags.len() > manifest::MAX_TAGS {
            return Err(manifest::too_long("/tags", manifest::MAX_TAGS, "labels"));
        }
        skill.updated_at = self.clock.now_ms();
        let became = serde_json::json!({ "enabled": skill.enabled, "mode": skill.mode, "tags": skill.tags });
        let store = act.map_or_else(|| self.store.clone(), |act| self.store.by(act.with(&became)));
        store.update_skill(skill.clone()).await?;
        let skill = RegisteredSkill::new(skill);
        self.skills.write().put(Arc::clone(&skill));
        self.announce();
        Ok(skill)
    }

    /// Deletes a version; only an id or an exact version will do.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `skills:write`; `malformed` for a range; `not_found` or
    /// `forbidden` if it is not this caller's; `conflict` if an alias stands for it, or an interceptor is it.
    pub async fn delete(self: &Arc<Self>, caller: &Caller, reference: &SkillRef) -> Result<(), Error> {
        caller.key.require(Scope::SkillsWrite)?;
        approval::require_one(reference, "delete")?;
        let found = self.resolve(caller, reference)?;
        require_own(&caller.key, &found.skill.owner)?;
        let (registry, act) = (Arc::clone(self), self.act(caller, "skill.delete", &found.skill));
        to_its_end(async move { registry.remove(&found.skill, act).await }).await
    }

    async fn remove(&self, skill: &Skill, act: Act) -> Result<(), Error> {
        let digest = skill.handler.digest();
        let _alone = self.changes.lock().await;
        if !self.skills.read().by_id.contains_key(&skill.id) {
            return Err(Error::not_found("skill"));
        }
        self.require_no_alias(skill)?;
        self.require_no_interceptor(skill).await?;
        let gone = self.store.by(act).delete_skill(skill.id, digest, self.clock.now_ms()).await?;
        self.skills.write().remove(skill);
        self.announce();
        if gone {
            self.forget(digest);
        }
        Ok(())
    }

    /// Refuses while an interceptor is the component: every run that it stands around would be refused.
    async fn require_no_interceptor(&self, skill: &Skill) -> Result<(), Error> {
        let digest = skill.handler.digest();
        let others = |other: &Arc<RegisteredSkill>| other.skill.id != skill.id && other.skill.owner == skill.owner;
        let same = |other: &Arc<RegisteredSkill>| others(other) && other.skill.handler.digest() == digest;
        let is_last = !self.skills.read().by_id.values().any(same);
        if is_last && self.store.is_interceptor(&skill.owner, digest).await? {
            let detail =
                "an interceptor is this component; remove the interceptor first (`skillvisor interceptors list`)";
            return Err(Error::new(Code::Conflict, detail));
        }
        Ok(())
    }

    /// The file with a component's bytes.
    fn blob(&self, digest: Digest) -> PathBuf {
        self.blobs.join(digest.hex())
    }

    /// Removes component files and code that no row knows: a crash came between file and row.
    async fn remove_orphans(&self) -> Result<(), Error> {
        let digests: HashSet<Digest> = self.store.components().await?.into_iter().collect();
        self.sandbox.forget_all_but(&digests)?;
        let known: HashSet<String> = digests.iter().map(Digest::hex).collect();
        let mut files = tokio::fs::read_dir(&self.blobs).await.map_err(Error::internal)?;
        while let Some(file) = files.next_entry().await.map_err(Error::internal)? {
            if file.file_name().to_str().is_none_or(|name| !known.contains(name)) {
                tokio::fs::remove_file(file.path()).await.map_err(Error::internal)?;
            }
        }
        Ok(())
    }
}

/// Whether a key may see what `owner` has.
fn may_read(key: &Key, owner: &OwnerId) -> bool {
    key.is_admin() || *owner == key.owner || owner.is_system()
}

/// Refuses unless a key may change what `owner` has.
fn require_own(key: &Key, owner: &OwnerId) -> Result<(), Error> {
    if key.is_admin() || *owner == key.owner && !owner.is_system() {
        return Ok(());
    }
    Err(Error::new(Code::Forbidden, "only an admin key may change a global skill"))
}
