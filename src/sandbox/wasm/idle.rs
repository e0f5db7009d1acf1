//! Instances that are kept between the calls of one skill (`"reuse": true`).
//!
//! What is kept is the guest's own memory and nothing else: everything that the host held for the
//! call before is gone with it, and an instance that still holds something of the host's, such as an
//! open file, is not kept. Whoever is to get it next is decided by the executor (`SandboxCall::reuse`).
//!
//! They are kept only where nobody else wants the room: a fresh instance that finds none takes theirs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use crate::model::Digest;
use crate::sandbox::SandboxCall;
use crate::workspace::WorkspaceGrant;

use super::components::Loaded;
use super::room::{Room, Taken};
use super::state::State;

/// How long an instance is kept for a call that does not come.
const LONGEST: Duration = Duration::from_secs(60);
/// Between two looks for such.
const LOOK: Duration = Duration::from_secs(5);

/// How far instances are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReuseSettings {
    /// Most calls of one instance.
    pub max_calls: usize,
    /// Most instances that are kept at one time.
    pub max_idle: usize,
}

impl Default for ReuseSettings {
    fn default() -> Self {
        Self { max_calls: 1000, max_idle: 32 }
    }
}

/// An instance between two calls.
pub(super) struct Held {
    pub(super) store: Store<State>,
    pub(super) instance: Instance,
    /// How many there were.
    pub(super) calls: usize,
}

/// A held one, with its place in the pool.
pub(super) struct Kept {
    pub(super) held: Held,
    pub(super) taken: Taken,
}

/// Who may have it: the component, and what else must be the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Whose {
    component: Digest,
    rest: Digest,
    /// The very secrets that its requests carry, not their names: it may have been told one.
    secrets: Option<Digest>,
}

struct Waiting {
    whose: Whose,
    since: Instant,
    kept: Kept,
}

/// All that are kept on one engine, the longest kept first.
pub(super) struct Idle {
    settings: ReuseSettings,
    waiting: Mutex<VecDeque<Waiting>>,
    /// How many there are, to be seen without the lock.
    count: AtomicUsize,
    /// Whether a task looks after them; changed under the lock.
    watched: AtomicBool,
}

impl Whose {
    /// Whose the instance of a call is, if it may be kept.
    pub(super) fn of(call: &SandboxCall) -> Option<Self> {
        call.reuse.map(|rest| Self { component: call.digest, rest, secrets: call.credentials.sealing() })
    }
}

impl Idle {
    pub(super) fn new(settings: ReuseSettings) -> Arc<Self> {
        Arc::new(Self {
            settings,
            waiting: Mutex::default(),
            count: AtomicUsize::new(0),
            watched: AtomicBool::new(false),
        })
    }

    /// The one that was kept last for such a call, if it has not more memory than that may have.
    pub(super) fn take(&self, call: &SandboxCall) -> Option<Kept> {
        let whose = Whose::of(call)?;
        let most = call.limits.memory_mb << 20;
        let fits = |one: &Waiting| one.whose == whose && one.kept.held.store.data().limiter.peak() <= most;
        let mut waiting = self.waiting.lock();
        let at = waiting.iter().rposition(fits)?;
        let found = waiting.remove(at);
        self.count.store(waiting.len(), Ordering::Relaxed);
        found.map(|one| one.kept)
    }

    /// Keeps one of `loaded`, if it has calls left and nobody wants its room.
    pub(super) fn put(self: &Arc<Self>, (whose, loaded): (Whose, &Loaded), kept: Kept, room: &Room) {
        if kept.held.calls >= self.settings.max_calls || room.is_tight() || kept.held.store.data().limiter.is_tight() {
            return;
        }
        let mut waiting = self.waiting.lock();
        // Under the lock: who forgets a component says so before the kept ones are looked through.
        if loaded.is_forgotten() {
            return;
        }
        waiting.push_back(Waiting { whose, since: Instant::now(), kept });
        let surplus = (waiting.len() > self.settings.max_idle).then(|| waiting.pop_front());
        self.count.store(waiting.len(), Ordering::Relaxed);
        let is_watched = self.watched.swap(true, Ordering::Relaxed);
        drop(waiting);
        drop(surplus);
        if !is_watched {
            tokio::spawn(look_after(Arc::downgrade(self)));
        }
        // Somebody may have begun to wait for room since it was looked at.
        if room.is_tight() {
            self.drop_oldest();
        }
    }

    /// Gives up what a fresh instance with so many memories needs, if there is not enough.
    pub(super) fn make_room(&self, room: &Room, memories: u32) {
        while self.count.load(Ordering::Relaxed) > 0 && !room.has(memories) && self.drop_oldest() {}
    }

    /// Gives up those of a component that was forgotten; none that still runs is kept any more.
    pub(super) fn forget(&self, component: Digest) {
        self.drop_all(|one| one.whose.component == component);
    }

    fn drop_oldest(&self) -> bool {
        let mut waiting = self.waiting.lock();
        let oldest = waiting.pop_front();
        self.count.store(waiting.len(), Ordering::Relaxed);
        drop(waiting);
        oldest.is_some()
    }

    fn drop_all(&self, which: impl Fn(&Waiting) -> bool) {
        let mut waiting = self.waiting.lock();
        let (gone, left): (VecDeque<_>, _) = waiting.drain(..).partition(which);
        *waiting = left;
        self.count.store(waiting.len(), Ordering::Relaxed);
        drop(waiting);
        drop(gone);
    }
}

/// What the call leaves, apart from the instance if that is to be kept.
pub(super) fn ended(
    (mut store, call): (Store<State>, &SandboxCall),
    instance: Option<Instance>,
    calls: usize,
) -> (State, Option<Held>) {
    match instance {
        Some(instance) => (store.data_mut().let_go(call), Some(Held { store, instance, calls })),
        None => (store.into_data(), None),
    }
}

/// The instance that was kept, or a new one.
pub(super) async fn kept_or_fresh(
    store: &mut Store<State>,
    fresh: &InstancePre<State>,
    kept: &mut Option<Instance>,
) -> wasmtime::Result<Instance> {
    match kept {
        Some(instance) => Ok(*instance),
        None => Ok(*kept.insert(fresh.instantiate_async(store).await?)),
    }
}

/// The call with nothing that its guest could use: what is held between calls.
pub(super) fn without_powers(call: &SandboxCall) -> SandboxCall {
    SandboxCall {
        args: String::new(),
        network: Arc::default(),
        workspace: WorkspaceGrant::default(),
        workspaces: None,
        credentials: Arc::default(),
        powers: None,
        ..call.clone()
    }
}

/// Gives up those that no call comes for, until there are none.
async fn look_after(idle: Weak<Idle>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(idle) = idle.upgrade() else { return };
        idle.drop_all(|one| one.since.elapsed() > LONGEST);
        // Under the lock: whoever keeps one after this begins to look again.
        let waiting = idle.waiting.lock();
        if waiting.is_empty() {
            idle.watched.store(false, Ordering::Relaxed);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::component::Linker;

    use crate::egress::{EgressSettings, Guard};
    use crate::sandbox::Inspection;
    use crate::sandbox::shape::Shape;

    use super::super::budget::Budget;
    use super::super::components::{Components, Entry};
    use super::super::engine::{Kind, engine};
    use super::super::output::Overflow;
    use super::*;

    #[tokio::test]
    async fn an_instance_of_what_was_forgotten_while_it_ran_is_not_kept() {
        let engine = engine(Kind::PLAIN, 8).unwrap().engine;
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("code");
        let linkers = (Linker::new(&engine), wasmtime::Linker::new(&engine));
        let components = Components::open(engine.clone(), linkers, place.clone()).unwrap();
        // A component with nothing in it.
        let component = b"\0asm\x0d\0\x01\0";
        let digest = Digest::of(component);
        let file = place.join(digest.hex());
        std::fs::write(file.with_extension("cwasm"), engine.precompile_component(component).unwrap()).unwrap();
        let notes = Inspection { shape: Shape::Typed(Vec::new()), ..Inspection::default() };
        std::fs::write(file.with_extension("json"), serde_json::to_vec(&notes).unwrap()).unwrap();

        let call = SandboxCall { reuse: Some(Digest::of(b"whose")), ..SandboxCall::detached(digest, "null") };
        let (whose, room) = (Whose::of(&call).unwrap(), Room::new(64, 512));
        let (idle, guard) = (Idle::new(ReuseSettings::default()), Guard::new(EgressSettings::default()).unwrap());
        let budget = Arc::new(Budget::of_this_machine());
        let loaded = components.get(digest).unwrap();
        let run = async || {
            let Entry::Typed(fresh, _) = &loaded.entry else { panic!("it is typed") };
            let share = (budget.share(&call.context.owner), Overflow::Forgotten);
            let mut store = Store::new(&engine, State::new(&call, share, Arc::clone(&guard)));
            store.limiter(|state| &mut state.limiter);
            store.set_fuel(1_000_000).unwrap();
            store.set_epoch_deadline(1_000);
            let instance = fresh.instantiate_async(&mut store).await.unwrap();
            let taken = room.take(1, 0, call.deadline).await.unwrap();
            Kept { held: Held { store, instance, calls: 1 }, taken }
        };
        idle.put((whose, &loaded), run().await, &room);
        assert!(idle.take(&call).is_some());
        let running = run().await;
        components.forget(digest);
        idle.forget(digest);
        idle.put((whose, &loaded), running, &room);
        assert!(idle.take(&call).is_none());
        // What comes after is another one.
        let loaded = components.get(digest).unwrap();
        idle.put((whose, &loaded), run().await, &room);
        assert!(idle.take(&call).is_some());

        // One for which no call came goes by itself, and its watcher with the last of them.
        idle.put((whose, &loaded), run().await, &room);
        let long_ago = Instant::now().checked_sub(LONGEST + LOOK).unwrap();
        for one in idle.waiting.lock().iter_mut() {
            one.since = long_ago;
        }
        while idle.watched.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!((idle.count.load(Ordering::Relaxed), idle.take(&call).is_none()), (0, true));
        // And whoever is kept after that is watched again.
        idle.put((whose, &loaded), run().await, &room);
        assert!(idle.watched.load(Ordering::Relaxed) && idle.take(&call).is_some());
    }
}
