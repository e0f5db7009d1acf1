//! Code around executions (SPEC §8): which there is, and asking it.
//!
//! A run without interceptors pays for one look whether there are any. Where there are, `chain` has them in their
//! order, `path` asks them at the two steps of the run, `interception` takes their verdicts, and `outbox` tells
//! those that want to know of the end.

mod asking;
mod builtin;
mod chain;
mod contract;
mod draft;
mod interception;
mod manage;
mod native;
mod outbox;
mod path;
mod told;
mod verdict;
mod webhook;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use parking_lot::RwLock;
use tokio::sync::Mutex;

use crate::access::Access;
use crate::egress::Guard;
use crate::model::{Caller, Clock, Error, InterceptorId, InterceptorKind, InterceptorRecord, OwnerId, SkillName};
use crate::sandbox::SandboxProvider;
use crate::secrets::Secrets;
use crate::store::{Act, Store, WebhookSecret};

use self::chain::{Entry, Table};
use self::outbox::Outbox;
use self::webhook::Post;

pub use self::contract::{After, Asked, Before, Interceptor, Outcome};
pub use self::draft::{InterceptorPatch, NewInterceptor};
pub(super) use self::interception::Interception;
pub use self::native::NativeInterceptor;

/// What interceptors work with.
#[derive(Clone)]
pub struct InterceptorParts {
    /// Where they are kept.
    pub store: Store,
    /// Whose keys are still good.
    pub access: Arc<Access>,
    /// What webhooks are signed with.
    pub secrets: Arc<Secrets>,
    /// Where components run.
    pub sandbox: Arc<dyn SandboxProvider>,
    /// The way out.
    pub guard: Arc<Guard>,
    /// The time of day.
    pub clock: Clock,
    /// How often a webhook is told before it is given up.
    pub max_attempts: u32,
}

/// All interceptors of this host.
pub struct Interceptors {
    /// Whether there are any.
    any: AtomicBool,
    table: ArcSwap<Table>,
    book: RwLock<BTreeMap<InterceptorId, Held>>,
    /// Those of the embedding program, and those whose rows cannot be read.
    fixed: Vec<Arc<Entry>>,
    store: Store,
    sandbox: Arc<dyn SandboxProvider>,
    post: Post,
    outbox: Outbox,
    /// Held while one is set up or changed.
    changes: Mutex<()>,
}

/// One that was set up over the API.
struct Held {
    record: Arc<InterceptorRecord>,
    secrets: Vec<WebhookSecret>,
    entry: Arc<Entry>,
}

impl Interceptors {
    /// Loads all, and begins to tell webhooks what they do not know yet. Must be called on a tokio runtime.
    ///
    /// # Errors
    ///
    /// As the store gives them. One that cannot be read refuses every run of its owner.
    pub async fn open(parts: InterceptorParts, natives: Vec<NativeInterceptor>) -> Result<Arc<Self>, Error> {
        let InterceptorParts { store, access, secrets, sandbox, guard, clock, max_attempts } = parts;
        let (records, broken) = store.interceptors().await?;
        let mut sealed: BTreeMap<InterceptorId, Vec<WebhookSecret>> = BTreeMap::new();
        for secret in store.webhook_secrets().await? {
            sealed.entry(secret.interceptor).or_default().push(secret);
        }
        let mut fixed: Vec<_> = natives.into_iter().map(NativeInterceptor::into_entry).collect();
        for (owner, name) in broken {
            tracing::error!(
                interceptor.owner = %owner, interceptor.name = %name,
                "An interceptor cannot be read; every run that it stands around is refused",
            );
            fixed.push(native::broken(owner, name));
        }
        let mut book = BTreeMap::new();
        for record in records {
            let secrets = sealed.remove(&record.id).unwrap_or_default();
            match draft::entry(&record, &secrets) {
                Ok(entry) => {
                    book.insert(record.id, Held { record: Arc::new(record), secrets, entry: Arc::new(entry) });
                }
                Err(error) => {
                    tracing::error!(interceptor.id = %record.id, "An interceptor cannot be used: {error:?}");
                    fixed.push(native::broken(record.owner, record.name));
                }
            }
        }
        let post = Post { guard, access, secrets, clock };
        let all = Arc::new(Self {
            any: AtomicBool::new(false),
            table: ArcSwap::default(),
            book: RwLock::new(book),
            fixed,
            store,
            sandbox,
            post,
            outbox: Outbox::new(max_attempts),
            changes: Mutex::default(),
        });
        all.rebuild();
        Ok(all)
    }

    /// What those around the runs of `owner` will do to one of a skill; nothing where there are none. `called_by` is
    /// whose skill called it: what a global skill does within, nobody but its own side may change.
    pub(super) fn around(
        &self,
        owner: &OwnerId,
        skill: &SkillName,
        called_by: Option<&OwnerId>,
    ) -> Option<Box<Interception>> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let table = self.table.load();
        let chain = table.chain(owner, called_by);
        chain.is_for(skill).then(|| Box::new(Interception::new(Arc::clone(chain))))
    }

    /// The webhooks that are told of the end of a run that never began.
    pub(super) fn told(&self, owner: &OwnerId, skill: &str) -> Vec<InterceptorId> {
        let name = skill.split('@').next().and_then(|name| name.parse().ok());
        let (Some(name), true) = (name, self.any.load(Ordering::Relaxed)) else { return Vec::new() };
        self.table.load().chain(owner, None).told(&name)
    }

    /// Tells webhooks now what was written down for them.
    pub(super) fn wake(&self, told: &[InterceptorId]) {
        if !told.is_empty() {
            self.outbox.wake(told);
        }
    }

    /// Tells nobody anything any more; the next start goes on.
    pub fn stop(&self) {
        self.outbox.stop();
    }

    /// What is written down of a change. Where a webhook goes is its owner's matter, and may be secret.
    fn act(&self, caller: &Caller, act: &str, record: &InterceptorRecord) -> Act {
        let InterceptorRecord { phases, blocking, global, enabled, skills, .. } = record;
        let details = serde_json::json!({
            "phases": phases, "blocking": blocking, "global": global, "enabled": enabled, "skills": skills,
        });
        Act::of(caller, act, self.post.clock.now_ms()).to(&record.owner, &record.name).with(&details)
    }

    /// Forgets those of an owner, as the store did.
    pub(crate) fn forget(self: &Arc<Self>, owner: &OwnerId) {
        self.book.write().retain(|_, held| held.record.owner != *owner);
        self.rebuild();
    }

    /// Puts everything into its order anew.
    fn rebuild(self: &Arc<Self>) {
        let book = self.book.read();
        let on = book.values().filter(|held| held.record.enabled);
        let entries: Vec<_> = self.fixed.iter().chain(on.clone().map(|held| &held.entry)).map(Arc::clone).collect();
        let told = on.filter(|held| !held.record.blocking).map(|held| held.record.id).collect();
        let any = !entries.is_empty();
        self.table.store(Arc::new(Table::of(entries)));
        self.any.store(any, Ordering::Relaxed);
        drop(book);
        self.outbox.serve(self, told);
    }

    /// The webhook of this id, if it is to be told anything.
    fn hook(&self, id: InterceptorId) -> Option<Arc<webhook::Webhook>> {
        let book = self.book.read();
        let held = book.get(&id).filter(|held| held.record.enabled)?;
        match &held.entry.way {
            chain::Way::Told(hook) => Some(Arc::clone(hook)),
            _ => None,
        }
    }
}

/// The webhooks among `records` that are told of ends, each with the owner whose runs it is told of, if not
/// everybody's: for what a dead host left open.
pub(crate) fn told_of_ends(records: &[InterceptorRecord]) -> Vec<(InterceptorId, Option<String>)> {
    let told = records.iter().filter(|record| record.enabled && !record.blocking);
    let told = told.filter(|record| matches!(record.what, InterceptorKind::Webhook { .. }));
    told.map(|record| (record.id, (!record.global).then(|| record.owner.as_str().to_owned()))).collect()
}
