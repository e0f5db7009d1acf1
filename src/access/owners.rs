//! The keys of an owner who is erased.

use crate::model::{Caller, Door, Error, Key, OwnerId};
use crate::store::Act;

use super::Access;

impl Access {
    /// Ends every key of an owner.
    ///
    /// # Errors
    ///
    /// As the store gives them.
    pub(crate) async fn end_all_of(&self, owner: &OwnerId) -> Result<(), Error> {
        let now = self.clock.now_ms();
        for key in self.all().into_iter().filter(|key| key.owner == *owner && key.revoked_at.is_none()) {
            self.end(&key.id, Act::of_host("key.revoke", now).to(owner, &key.id)).await?;
        }
        Ok(())
    }

    /// Forgets the keys of an owner, as the store did.
    pub(crate) fn forget(&self, owner: &OwnerId) {
        self.keys.write().retain(|_, stored| stored.key.owner != *owner);
        let keys = self.keys.read();
        self.by_secret.write().retain(|_, id| keys.contains_key(id));
    }

    /// Writes down failed authentications that are due, or at the end all of them.
    pub(crate) fn note_failures(&self, all: bool) {
        let count = if all { self.failures.rest() } else { self.failures.due(std::time::Instant::now()) };
        if let Some(count) = count {
            self.store.note(Act { count, ..Act::of_host("auth.failed", self.clock.now_ms()) });
        }
    }

    /// Counts a request without a key that is valid.
    pub(crate) fn failed(&self, door: Door) {
        if let Some(count) = self.failures.count(std::time::Instant::now()) {
            let door = Some(door.as_str().to_owned());
            self.store.note(Act { count, door, ..Act::of_host("auth.failed", self.clock.now_ms()) });
        }
    }

    /// An act of a caller, or of the host by itself.
    pub(super) fn act(&self, caller: Option<&Caller>, act: &str, key: &Key) -> Act {
        let now = self.clock.now_ms();
        caller.map_or_else(|| Act::of_host(act, now), |caller| Act::of(caller, act, now)).to(&key.owner, &key.id)
    }
}
