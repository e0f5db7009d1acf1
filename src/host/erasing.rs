//! Erasing an owner, and ending a key with all that it brought.

use crate::model::{Caller, Code, Error, KeyId, OwnerId, Scope};
use crate::store::{Act, Erasure, to_its_end};

use super::Host;

/// How often runs of the owner are looked for that began before its keys ended.
const LOOKS: usize = 3;

impl Host {
    /// Every owner that has something here, with how many keys that work, skills and executions.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `admin`; as the store gives them.
    pub(crate) async fn owners(&self, caller: &Caller) -> Result<Vec<(OwnerId, [u64; 3])>, Error> {
        caller.key.require(Scope::Admin)?;
        self.store.owners().await
    }

    /// Removes everything that an owner has: keys, skills, files, secrets, what skills keep for it and the
    /// results of its runs, which are cancelled. The audit stays, without what tells whose it was. Gives of
    /// how many records. What is interrupted is gone on with by the same call, or by the next start.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `admin`; `conflict` for `system`, and for the owner of the key that asks;
    /// `not_found` for who has nothing; `unavailable` if its runs do not end.
    pub(crate) async fn erase_owner(&self, caller: &Caller, owner: OwnerId) -> Result<u64, Error> {
        caller.key.require(Scope::Admin)?;
        if owner.is_system() {
            let detail = "`system` is the host itself; delete its skills one by one";
            return Err(Error::new(Code::Conflict, detail));
        }
        if owner == *caller.owner() {
            let detail =
                "the key that asks is one of this owner's, and would go with it; ask with an admin key of another";
            return Err(Error::new(Code::Conflict, detail));
        }
        let is_known = self.store.owners().await?.iter().any(|(known, _)| *known == owner);
        let is_begun = self.store.erasures().await?.iter().any(|erasure| erasure.owner == owner);
        if !is_known && !is_begun && !self.workspaces.has(&owner) {
            return Err(Error::not_found("owner"));
        }
        let now = self.clock.now_ms();
        let store = self.store.by(Act::of(caller, "owner.delete", now).to(&owner, &owner));
        let erasure = store.begin_erasure(owner, now).await?;
        let host = self.clone();
        to_its_end(async move { host.erase(erasure).await }).await
    }

    /// Goes on with what a crash interrupted.
    ///
    /// # Errors
    ///
    /// As [`Host::erase_owner`].
    pub(super) async fn go_on_erasing(&self) -> Result<(), Error> {
        for erasure in self.store.erasures().await? {
            tracing::warn!("Erasing an owner was interrupted, and is gone on with");
            self.erase(erasure).await?;
        }
        Ok(())
    }

    async fn erase(&self, erasure: Erasure) -> Result<u64, Error> {
        let owner = &erasure.owner;
        self.access.end_all_of(owner).await?;
        let mut erased = 0;
        for look in 0..LOOKS {
            self.end_runs_of(owner).await?;
            self.registry.erase(owner).await?;
            self.secrets.forget(owner);
            self.interceptors.forget(owner);
            self.workspaces.erase(owner).await?;
            erased += self.erase_audit(&erasure).await?;
            // At the first look, what was under way when its keys ended may leave something again.
            if look > 0 && self.store.end_erasure(owner.clone()).await? {
                self.access.forget(owner);
                tracing::info!(audit.records = erased, "An owner was erased");
                return Ok(erased);
            }
        }
        Err(still_runs())
    }

    async fn erase_audit(&self, erasure: &Erasure) -> Result<u64, Error> {
        let (mut after, mut erased) = (0, 0);
        while let Some((next, count)) = self.store.erase_records(erasure.clone(), after).await? {
            (after, erased) = (next, erased + count);
        }
        while self.store.erase_unrecorded(erasure.clone(), after).await? > 0 {}
        Ok(erased)
    }

    async fn end_runs_of(&self, owner: &OwnerId) -> Result<(), Error> {
        for _ in 0..LOOKS {
            let open = self.store.open_of_owner(owner.clone()).await?;
            if open.is_empty() {
                return Ok(());
            }
            self.executor.end_all(&open).await?;
        }
        Err(still_runs())
    }

    /// Ends a key, disables every skill that it registered, and cancels its runs and theirs.
    ///
    /// # Errors
    ///
    /// As [`Access::revoke`](crate::access::Access::revoke); as the store gives them.
    pub(crate) async fn quarantine(&self, caller: &Caller, key: &KeyId) -> Result<(), Error> {
        self.access.revoke(caller, key).await?;
        let (host, caller, key) = (self.clone(), caller.clone(), key.clone());
        to_its_end(async move {
            let skills = host.registry.disable_all_of(&caller, &key).await?;
            let mut ended = 0;
            for _ in 0..LOOKS {
                let open = host.store.open_of_key(key.clone(), skills.clone()).await?;
                if open.is_empty() {
                    break;
                }
                host.executor.end_all(&open).await?;
                ended += open.len();
            }
            let owner = host.access.get(&caller, &key)?.owner.clone();
            let details = serde_json::json!({ "skills": skills.len(), "executions": ended });
            let act = Act::of(&caller, "key.quarantine", host.clock.now_ms());
            host.store.note(act.to(&owner, &key).with(&details));
            Ok(())
        })
        .await
    }
}

fn still_runs() -> Error {
    let detail = "some runs of this owner have not ended yet; ask again, it goes on from here";
    Error::new(Code::Unavailable, detail).retry_after(10)
}
