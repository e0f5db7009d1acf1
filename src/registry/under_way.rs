//! Components that are being registered: what comes to nothing leaves nothing behind.
//!
//! Bytes and code of a component are on the disk before its row is. Whoever is refused in
//! between, or leaves, must not fill the disk; and a component that somebody else registers
//! at the same time must stay. So each registration is counted until its end, and the last
//! one clears away what no skill has.

use std::sync::Arc;

use tokio::runtime::Handle;

use crate::model::Digest;
use crate::sandbox::Preparing;

use super::Registry;

/// One registration. Dropping it ends it, once its component is no longer being compiled.
pub(super) struct UnderWay {
    registry: Arc<Registry>,
    digest: Digest,
    /// The work on the component, unless nothing more is to come of it.
    pub(super) preparing: Option<Preparing>,
}

impl UnderWay {
    /// Begins a registration; before the sandbox is asked about the component.
    pub(super) fn begin(registry: &Arc<Registry>, digest: Digest) -> Self {
        *registry.under_way.lock().entry(digest).or_default() += 1;
        Self { registry: Arc::clone(registry), digest, preparing: None }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let (registry, digest) = (Arc::clone(&self.registry), self.digest);
        let preparing = self.preparing.take().filter(|preparing| !preparing.ready.is_terminated());
        match (preparing, Handle::try_current()) {
            // A worker that is still at it would leave its code behind after we have looked.
            (Some(preparing), Ok(runtime)) => drop(runtime.spawn(async move {
                let _ = preparing.ready.await;
                registry.end(digest);
            })),
            _ => registry.end(digest),
        }
    }
}

impl Registry {
    /// Ends one registration, and clears away its component if that was the last one and no
    /// skill has it.
    fn end(&self, digest: Digest) {
        // Held throughout: a registration that begins now waits, and then finds nothing ready.
        let mut under_way = self.under_way.lock();
        let others = under_way.get(&digest).map_or(0, |count| count - 1);
        if others > 0 {
            under_way.insert(digest, others);
            return;
        }
        under_way.remove(&digest);
        let has = self.skills.read().by_id.values().any(|skill| skill.skill.handler.digest() == digest);
        if !has {
            self.clear_away(digest);
        }
    }

    /// Clears away a component whose rows are gone, unless it is being registered again.
    pub(super) fn forget(&self, digest: Digest) {
        let under_way = self.under_way.lock();
        if !under_way.contains_key(&digest) {
            self.clear_away(digest);
        }
    }

    /// Removes bytes and code. A short call to the file system, and under the lock.
    fn clear_away(&self, digest: Digest) {
        self.sandbox.forget(digest);
        // Mostly it was never there: only a conflict is found out that late.
        let _ = std::fs::remove_file(self.blob(digest));
    }
}
