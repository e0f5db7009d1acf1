//! Which interceptors stand around the runs of an owner, in their order: first its own, then those for
//! everybody, which so have the last word on both sides.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::model::{Digest, InterceptorId, InterceptorName, OwnerId, Phase, SkillName};

use super::contract::Interceptor;
use super::webhook::Webhook;

/// An interceptor in its place.
pub(super) struct Entry {
    pub(super) name: InterceptorName,
    /// Whose it is.
    pub(super) owner: OwnerId,
    pub(super) global: bool,
    pub(super) order: i32,
    pub(super) timeout: Duration,
    pub(super) optional: bool,
    pub(super) skills: Option<Vec<SkillName>>,
    pub(super) phases: Vec<Phase>,
    pub(super) way: Way,
}

/// How an interceptor is asked.
pub(super) enum Way {
    /// At once, on whatever thread the run is.
    Inline(Arc<dyn Interceptor>),
    /// On a thread that may wait.
    Waiting(Arc<dyn Interceptor>),
    /// In the sandbox.
    Wasm(Digest),
    /// Over the network.
    Webhook(Arc<Webhook>),
    /// Not at all: it is told of the end.
    Told(Arc<Webhook>),
}

impl Entry {
    /// Whether it is asked about a skill of this name.
    pub(super) fn is_for(&self, skill: &SkillName) -> bool {
        self.skills.as_ref().is_none_or(|skills| skills.contains(skill))
    }

    fn is_inline(&self) -> bool {
        matches!(self.way, Way::Inline(_))
    }

    /// Whether it may change what came out.
    fn may_change(&self) -> bool {
        match &self.way {
            Way::Inline(native) | Way::Waiting(native) => native.may_change(),
            Way::Wasm(_) | Way::Webhook(_) => true,
            Way::Told(_) => false,
        }
    }
}

/// All that stand around the runs of one owner.
#[derive(Default)]
pub(super) struct Chain {
    pub(super) before: Vec<Arc<Entry>>,
    pub(super) after: Vec<Arc<Entry>>,
    /// Those that are told of the end.
    told: Vec<(InterceptorId, Arc<Entry>)>,
}

impl Chain {
    fn of<'a>(entries: impl Iterator<Item = &'a Arc<Entry>>) -> Self {
        let mut chain = Self::default();
        for entry in entries {
            if let Way::Told(webhook) = &entry.way {
                chain.told.push((webhook.id, Arc::clone(entry)));
                continue;
            }
            for (phase, list) in [(Phase::Before, &mut chain.before), (Phase::After, &mut chain.after)] {
                if entry.phases.contains(&phase) {
                    list.push(Arc::clone(entry));
                }
            }
        }
        chain
    }

    /// Whether any of it is for a skill of this name.
    pub(super) fn is_for(&self, skill: &SkillName) -> bool {
        let told = self.told.iter().map(|(_, entry)| entry);
        self.before.iter().chain(&self.after).chain(told).any(|entry| entry.is_for(skill))
    }

    /// The webhooks that are told of the end of a run of this skill.
    pub(super) fn told(&self, skill: &SkillName) -> Vec<InterceptorId> {
        self.told.iter().filter(|(_, entry)| entry.is_for(skill)).map(|(id, _)| *id).collect()
    }

    /// Whether asking those of a phase takes waiting.
    pub(super) fn waits(&self, phase: Phase, skill: &SkillName) -> bool {
        self.list(phase).iter().any(|entry| !entry.is_inline() && entry.is_for(skill))
    }

    /// Whether what comes out of a run of this skill may be changed.
    pub(super) fn may_change(&self, skill: &SkillName) -> bool {
        self.after.iter().any(|entry| entry.may_change() && entry.is_for(skill))
    }

    pub(super) fn list(&self, phase: Phase) -> &[Arc<Entry>] {
        match phase {
            Phase::Before => &self.before,
            Phase::After => &self.after,
        }
    }
}

/// The chains of all owners.
#[derive(Default)]
pub(super) struct Table {
    own: HashMap<OwnerId, Arc<Chain>>,
    /// Of those who have none of their own.
    others: Arc<Chain>,
}

impl Table {
    /// Puts `entries` in their order; of two with the same place, the one that came first.
    pub(super) fn of(mut entries: Vec<Arc<Entry>>) -> Self {
        entries.sort_by_key(|entry| entry.order);
        let global = || entries.iter().filter(|entry| entry.global);
        let owners = entries.iter().filter(|entry| !entry.global).map(|entry| &entry.owner);
        let chain = |owner: &OwnerId| {
            let own = entries.iter().filter(|entry| !entry.global && entry.owner == *owner);
            (owner.clone(), Arc::new(Chain::of(own.chain(global()))))
        };
        Self { own: owners.map(chain).collect(), others: Arc::new(Chain::of(global())) }
    }

    /// The chain around the runs of `owner`; around what others' skills call for it, only those for everybody.
    pub(super) fn chain(&self, owner: &OwnerId, called_by: Option<&OwnerId>) -> &Arc<Chain> {
        let is_own = called_by.is_none_or(|skill_owner| skill_owner == owner);
        self.own.get(owner).filter(|_| is_own).unwrap_or(&self.others)
    }
}
