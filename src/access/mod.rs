//! Keys: who may ask. Secrets are kept as hashes, and compared in constant time.

mod failures;
mod local_key;
mod owners;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;
use tokio::sync::Mutex;

use crate::model::{
    Caller, Ceilings, Clock, Code, Door, Error, Key, KeyId, MIN_ADMIN_KEY_CHARS, OwnerId, Scope, Secret, SkillName,
};
use crate::store::{Act, Store, StoredKey, to_its_end};

use self::failures::Failures;
use self::local_key::LocalKey;

/// Most characters of a key's name.
pub const MAX_NAME: usize = 100;

/// What a new key is to be.
#[derive(Clone, Debug, Default)]
pub struct NewKey {
    /// What people call it; 1 to [`MAX_NAME`] characters.
    pub name: String,
    /// The namespace it acts in; its own id if none is given.
    pub owner: Option<OwnerId>,
    /// What it may be used for; [`Scope::DEFAULT`] if empty.
    pub scopes: Vec<Scope>,
    /// When it ends, in milliseconds since the Unix epoch.
    pub expires_at: Option<i64>,
    /// The only skills it may see and run.
    pub skills: Option<Vec<SkillName>>,
    /// The most it may grant and use.
    pub ceilings: Ceilings,
}

/// All keys of this host, in memory; the store has the same.
pub struct Access {
    store: Store,
    clock: Clock,
    keys: RwLock<HashMap<KeyId, StoredKey>>,
    by_secret: RwLock<HashMap<[u8; 32], KeyId>>,
    local: LocalKey,
    failures: Failures,
    /// Held while a key changes, in memory, on the disk and in the local file.
    changes: Mutex<()>,
}

impl Access {
    /// Loads all keys. `local` is the file with the first admin key's secret, for the command
    /// line on this machine.
    ///
    /// # Errors
    ///
    /// As the store gives them.
    pub async fn open(store: Store, clock: Clock, local: &Path) -> Result<Self, Error> {
        let access = Self {
            clock,
            keys: RwLock::default(),
            by_secret: RwLock::default(),
            local: LocalKey::new(local),
            failures: Failures::default(),
            changes: Mutex::default(),
            store,
        };
        for stored in access.store.keys().await? {
            access.remember(stored);
        }
        let works = |secret: &str| access.find(secret).is_some();
        access.local.settle(works).map_err(Error::internal)?;
        Ok(access)
    }

    /// Whether there is a key that may do everything.
    pub fn has_admin(&self) -> bool {
        let now = self.clock.now_ms();
        self.keys.read().values().any(|stored| stored.key.is_admin() && stored.key.is_live(now))
    }

    /// Makes the first admin key if there is none: with the `chosen` secret, which only the
    /// operator knows, else with a new one, which goes into the local file.
    ///
    /// # Errors
    ///
    /// `malformed` if the chosen secret is too short; and as disk and store give them.
    pub async fn ensure_admin(&self, chosen: Option<&Secret>) -> Result<(), Error> {
        if self.has_admin() {
            let is_admin = |secret| self.find(secret).is_some_and(|key| key.is_admin());
            if chosen.is_some_and(|secret| !is_admin(secret.reveal())) {
                tracing::warn!(
                    "SKILLVISOR_ADMIN_KEY is not in force: there is an admin key already, and it is another one"
                );
            }
            return Ok(());
        }
        if let Some(secret) = chosen {
            // What lies there is of a key that has ended.
            self.local.remove().map_err(Error::internal)?;
            return self.create_first_admin(secret.reveal()).await;
        }
        // The file comes before the row: a crash in between leaves a file that the next start
        // replaces, and never a key whose secret nobody knows.
        let secret = new_secret()?;
        self.local.stage(&secret).and_then(|()| self.local.replace()).map_err(Error::internal)?;
        self.create_first_admin(&secret).await
    }

    /// Makes an admin key for the local file: for who holds the data directory and has no key for it.
    ///
    /// # Errors
    ///
    /// As disk and store give them.
    pub async fn make_local_admin(&self, name: &str) -> Result<(), Error> {
        let secret = new_secret()?;
        self.local.stage(&secret).and_then(|()| self.local.replace()).map_err(Error::internal)?;
        self.insert_admin(name, &secret).await
    }

    async fn create_first_admin(&self, secret: &str) -> Result<(), Error> {
        if secret.chars().count() < MIN_ADMIN_KEY_CHARS {
            let detail = format!("SKILLVISOR_ADMIN_KEY must have at least {MIN_ADMIN_KEY_CHARS} characters");
            return Err(Error::new(Code::Malformed, detail));
        }
        self.insert_admin("admin", secret).await
    }

    async fn insert_admin(&self, name: &str, secret: &str) -> Result<(), Error> {
        let new = NewKey {
            name: name.into(),
            owner: Some(OwnerId::admin()),
            scopes: vec![Scope::Admin],
            ..NewKey::default()
        };
        self.insert(None, new, secret).await.map(drop)
    }

    /// Makes a key; gives it with its secret, which is nowhere else.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `admin`; `malformed` for a name of no or too many
    /// characters, a limit of zero, or an end that does not lie ahead; and as the store gives them.
    pub async fn create(self: &Arc<Self>, caller: &Caller, new: NewKey) -> Result<(Arc<Key>, String), Error> {
        caller.key.require(Scope::Admin)?;
        if new.name.is_empty() || new.name.chars().count() > MAX_NAME {
            return Err(Error::at(Code::Malformed, "/name", format!("must have 1 to {MAX_NAME} characters")));
        }
        if let Some(limit) = new.ceilings.limits.zero() {
            return Err(Error::at(Code::Malformed, format!("/ceilings/limits/{limit}"), "must be larger than 0"));
        }
        if new.ceilings.rates.executions_per_minute == Some(0) {
            let detail = "must be larger than 0; a key without the scope skills:execute runs nothing";
            return Err(Error::at(Code::Malformed, "/ceilings/rates/executionsPerMinute", detail));
        }
        if new.expires_at.is_some_and(|end| end <= self.clock.now_ms()) {
            return Err(Error::at(Code::Malformed, "/expiresAt", "must lie ahead: a key that has ended opens nothing"));
        }
        let (access, secret) = (Arc::clone(self), new_secret()?);
        let caller = caller.clone();
        to_its_end(async move { Ok((access.insert(Some(&caller), new, &secret).await?, secret)) }).await
    }

    async fn insert(&self, caller: Option<&Caller>, new: NewKey, secret: &str) -> Result<Arc<Key>, Error> {
        let id = KeyId::generate();
        let own = || id.as_str().parse();
        let key = Key {
            owner: new.owner.map_or_else(own, Ok)?,
            name: new.name,
            scopes: if new.scopes.is_empty() { Scope::DEFAULT.to_vec() } else { new.scopes },
            skills: new.skills,
            ceilings: new.ceilings,
            expires_at: new.expires_at,
            created_at: self.clock.now_ms(),
            revoked_at: None,
            grace_until: None,
            id,
        };
        let key = Arc::new(key);
        let stored = StoredKey { key: Arc::clone(&key), secret: hash(secret), previous: None };
        let act = self.act(caller, "key.create", &key).with(&told(&key));
        self.store.by(act).insert_key(stored.clone()).await?;
        self.remember(stored);
        Ok(key)
    }

    /// The caller behind a secret.
    ///
    /// # Errors
    ///
    /// `unauthenticated`, in the same words whatever is wrong with it.
    pub fn authenticate(&self, secret: &str, door: Door) -> Result<Caller, Error> {
        let Some(key) = self.find(secret) else {
            self.failed(door);
            return Err(Error::new(Code::Unauthenticated, "the key is missing, unknown or no longer valid"));
        };
        Ok(Caller { key, door })
    }

    /// The key that has this secret, if it opens something.
    fn find(&self, secret: &str) -> Option<Arc<Key>> {
        let hash = hash(secret);
        let now = self.clock.now_ms();
        let id = self.by_secret.read().get(&hash).cloned();
        let keys = self.keys.read();
        let stored = id.and_then(|id| keys.get(&id)).filter(|stored| {
            let current = bool::from(stored.secret.ct_eq(&hash));
            let previous = stored.previous.is_some_and(|old| bool::from(old.ct_eq(&hash)));
            let previous = previous && stored.key.grace_until.is_some_and(|until| now < until);
            (current || previous) && stored.key.is_live(now)
        });
        stored.map(|stored| Arc::clone(&stored.key))
    }

    /// A key, if it still opens something: what it began may not go further if not.
    pub fn live(&self, id: &KeyId) -> Option<Arc<Key>> {
        let keys = self.keys.read();
        keys.get(id).filter(|stored| stored.key.is_live(self.clock.now_ms())).map(|stored| Arc::clone(&stored.key))
    }

    /// An admin key that works, as a caller: for who holds the data directory and with it
    /// every secret in it.
    ///
    /// # Errors
    ///
    /// `unauthenticated` if there is none.
    pub fn admin(&self, door: Door) -> Result<Caller, Error> {
        let now = self.clock.now_ms();
        let mut admins = self.all().into_iter().filter(|key| key.is_admin() && key.is_live(now));
        let key = admins.next().ok_or_else(|| Error::new(Code::Unauthenticated, "no admin key is valid any more"))?;
        Ok(Caller { key, door })
    }

    /// Every key, oldest first.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `admin`.
    pub fn list(&self, caller: &Caller) -> Result<Vec<Arc<Key>>, Error> {
        caller.key.require(Scope::Admin)?;
        Ok(self.all())
    }

    /// Every key of an owner that still opens something, oldest first.
    pub(crate) fn of_owner(&self, owner: &OwnerId) -> Vec<Arc<Key>> {
        let now = self.clock.now_ms();
        self.all().into_iter().filter(|key| key.owner == *owner && key.is_live(now)).collect()
    }

    fn all(&self) -> Vec<Arc<Key>> {
        let mut keys: Vec<_> = self.keys.read().values().map(|stored| Arc::clone(&stored.key)).collect();
        keys.sort_by(|a, b| a.id.cmp(&b.id));
        keys
    }

    /// One key.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `admin`; `not_found`.
    pub fn get(&self, caller: &Caller, id: &KeyId) -> Result<Arc<Key>, Error> {
        caller.key.require(Scope::Admin)?;
        let found = self.keys.read().get(id).map(|stored| Arc::clone(&stored.key));
        found.ok_or_else(|| Error::not_found("key"))
    }

    /// Gives a key a new secret. The old one works for `grace_seconds` more. If the old one is
    /// in the local file, the new one takes its place there.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `admin`; `not_found`; `conflict` if the key was revoked.
    pub async fn rotate(
        self: &Arc<Self>,
        caller: &Caller,
        id: &KeyId,
        grace_seconds: u32,
    ) -> Result<(Arc<Key>, String), Error> {
        caller.key.require(Scope::Admin)?;
        let (access, caller, id) = (Arc::clone(self), caller.clone(), id.clone());
        to_its_end(async move { access.change_secret(&caller, &id, grace_seconds).await }).await
    }

    async fn change_secret(
        &self,
        caller: &Caller,
        id: &KeyId,
        grace_seconds: u32,
    ) -> Result<(Arc<Key>, String), Error> {
        let _alone = self.changes.lock().await;
        let stored = self.keys.read().get(id).cloned().ok_or_else(|| Error::not_found("key"))?;
        if stored.key.revoked_at.is_some() {
            return Err(Error::new(Code::Conflict, "the key was revoked; make a new one"));
        }
        let secret = new_secret()?;
        let until = (grace_seconds > 0).then(|| self.clock.now_ms() + i64::from(grace_seconds) * 1000);
        let is_local = self.is_local(&stored);
        if is_local {
            self.local.stage(&secret).map_err(Error::internal)?;
        }
        let act = self.act(Some(caller), "key.rotate", &stored.key);
        if let Err(error) = self.store.by(act).rotate_key(id.clone(), hash(&secret), until).await {
            // What stays there does not work, and the next start removes it.
            let _ = self.local.discard();
            return Err(error);
        }
        if is_local && let Err(error) = self.local.replace() {
            tracing::error!("The admin key's file could not be replaced; the next start does it: {error}");
        }
        let previous = until.map(|_| stored.secret);
        self.by_secret.write().remove(&stored.secret);
        let key = Arc::new(Key { grace_until: until, ..Key::clone(&stored.key) });
        self.remember(StoredKey { key: Arc::clone(&key), secret: hash(&secret), previous });
        Ok((key, secret))
    }

    /// Ends a key, from the next request on.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `admin`; `not_found`.
    pub async fn revoke(self: &Arc<Self>, caller: &Caller, id: &KeyId) -> Result<(), Error> {
        let act = self.act(Some(caller), "key.revoke", &*self.get(caller, id)?);
        let (access, id) = (Arc::clone(self), id.clone());
        to_its_end(async move { access.end(&id, act).await }).await
    }

    async fn end(&self, id: &KeyId, act: Act) -> Result<(), Error> {
        let _alone = self.changes.lock().await;
        let now = self.clock.now_ms();
        self.store.by(act).revoke_key(id.clone(), now).await?;
        let mut keys = self.keys.write();
        let Some(stored) = keys.get_mut(id) else { return Ok(()) };
        Arc::make_mut(&mut stored.key).revoked_at.get_or_insert(now);
        if self.is_local(stored)
            && let Err(error) = self.local.remove()
        {
            tracing::warn!("The file of a revoked admin key could not be removed: {error}");
        }
        Ok(())
    }

    /// Whether the local file has this key's secret, maybe the one before the last rotation.
    fn is_local(&self, stored: &StoredKey) -> bool {
        let Some(local) = self.local.secret().map(|secret| hash(&secret)) else { return false };
        bool::from(stored.secret.ct_eq(&local))
            || stored.previous.is_some_and(|secret| bool::from(secret.ct_eq(&local)))
    }

    fn remember(&self, stored: StoredKey) {
        let mut by_secret = self.by_secret.write();
        by_secret.insert(stored.secret, stored.key.id.clone());
        if let Some(previous) = stored.previous {
            by_secret.insert(previous, stored.key.id.clone());
        }
        drop(by_secret);
        self.keys.write().insert(stored.key.id.clone(), stored);
    }
}

/// What a key may, for the audit.
fn told(key: &Key) -> serde_json::Value {
    serde_json::json!({
        "name": key.name, "scopes": key.scopes, "skills": key.skills, "ceilings": key.ceilings,
        "expiresAt": key.expires_at.map(Clock::rfc3339),
    })
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// `sk_` and 256 random bits in hex.
pub(crate) fn new_secret() -> Result<String, Error> {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits).map_err(|error| Error::internal(error.to_string()))?;
    Ok(format!("sk_{}", hex::encode(bits)))
}
