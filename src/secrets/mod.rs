//! Secrets: sealed on the disk, opened for a run that may use them, and never shown again.
//!
//! Each is one owner's, and goes to one origin in one header. What is sealed with a value are its
//! owner, name, version and place, so that no row can stand in for another or be sent elsewhere.

mod book;
mod key;
mod run;
mod seal;
mod webhooks;

use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::Mutex;

use crate::egress::Place;
use crate::model::{Caller, Clock, Code, Error, OwnerId, Scope, SecretName, SecretValue};
use crate::store::{Act, SecretRecord, Store, to_its_end};

use self::book::Book;

pub use self::key::{KEY_FILE, KeySource, SealingKey};
pub use self::webhooks::SigningSecret;

/// Most secrets of one owner.
const MAX_SECRETS: usize = 1000;

/// A secret that is to be stored.
#[derive(Clone, Debug)]
pub struct NewSecret {
    /// The only origin that gets it: `https://host[:port]`.
    pub origin: String,
    /// The header that it goes into.
    pub header: String,
    /// What stands before it there.
    pub prefix: String,
    /// Whether global skills may use it for everybody: only for those of `system`.
    pub shared: bool,
    /// What it is.
    pub value: SecretValue,
}

/// What was asked for, and whether it is new.
#[derive(Debug)]
pub enum Stored {
    /// There was none of this name.
    Created(SecretRecord),
    /// It stands in place of another.
    Replaced(SecretRecord),
}

/// All secrets of this host.
pub struct Secrets {
    store: Store,
    clock: Clock,
    source: KeySource,
    key: RwLock<Option<Arc<SealingKey>>>,
    /// What the store has.
    book: Book,
    /// Held while a secret is stored: each version is sealed once.
    changes: Mutex<()>,
}

impl Secrets {
    /// Reads the key, and makes sure that it is the one that the secrets were sealed with.
    ///
    /// # Errors
    ///
    /// `unavailable` if the key is missing, cannot be read or is another one; nothing was changed.
    pub async fn open(store: Store, clock: Clock, source: KeySource) -> Result<Self, Error> {
        let records = store.secrets().await?;
        let webhooks = store.webhook_secrets().await?;
        let sealed = records.iter().map(|record| record.key_id).chain(webhooks.iter().map(|secret| secret.key_id));
        let key = source.require(sealed)?.map(Arc::new);
        Ok(Self { store, clock, source, key: RwLock::new(key), book: Book::of(records), changes: Mutex::default() })
    }

    /// Stores a secret, in place of one that has this name.
    ///
    /// # Errors
    ///
    /// `insufficient_scope`; `forbidden` for another owner or to share it without `admin`;
    /// `invalid_args` for a place that no secret can go to; `storage_full`.
    pub async fn put(
        self: &Arc<Self>,
        caller: &Caller,
        (owner, name): (Option<OwnerId>, SecretName),
        new: NewSecret,
    ) -> Result<Stored, Error> {
        let owner = owner_for(caller, owner)?;
        if new.shared && !caller.key.is_admin() {
            return Err(Error::new(Code::Forbidden, "only a key with the scope `admin` can share a secret"));
        }
        if new.shared && !owner.is_system() {
            let detail = "only a secret of `system` can be shared; store it with `owner=system`";
            return Err(Error::at(Code::InvalidArgs, "/shared", detail));
        }
        let place = Place::parse(&new.origin, &new.header, &new.prefix)?;
        let (secrets, act) = (Arc::clone(self), self.act(caller, "secret.put", (&owner, &name)));
        to_its_end(async move { secrets.store((owner, name), (place, new.shared, new.value), act).await }).await
    }

    async fn store(
        &self,
        (owner, name): (OwnerId, SecretName),
        (place, shared, value): (Place, bool, SecretValue),
        act: Act,
    ) -> Result<Stored, Error> {
        let _alone = self.changes.lock().await;
        let all = self.book.of_owner(&owner);
        let old = all.iter().find(|record| record.name == name);
        if old.is_none() && all.len() >= MAX_SECRETS {
            let detail = format!("this owner has {MAX_SECRETS} secrets; remove one that is no longer used");
            return Err(Error::new(Code::StorageFull, detail));
        }
        let now = self.clock.now_ms();
        let record = SecretRecord {
            owner,
            name,
            version: old.map_or(1, |old| old.version.saturating_add(1)),
            origin: place.origin(),
            header: place.header().to_owned(),
            prefix: place.prefix().to_owned(),
            shared,
            key_id: [0; 16],
            nonce: [0; 12],
            sealed: Vec::new(),
            created_at: old.map_or(now, |old| old.created_at),
            updated_at: now,
        };
        let record = self.seal_and_keep(record, &value, act).await?;
        Ok(if old.is_some() { Stored::Replaced(record) } else { Stored::Created(record) })
    }

    /// Gives a secret another value; where it goes stays.
    ///
    /// # Errors
    ///
    /// As [`Secrets::put`]; `not_found`.
    pub async fn rotate(
        self: &Arc<Self>,
        caller: &Caller,
        (owner, name): (Option<OwnerId>, SecretName),
        value: SecretValue,
    ) -> Result<SecretRecord, Error> {
        let owner = owner_for(caller, owner)?;
        let (secrets, act) = (Arc::clone(self), self.act(caller, "secret.rotate", (&owner, &name)));
        to_its_end(async move {
            let _alone = secrets.changes.lock().await;
            let old = secrets.book.find(&owner, &name).ok_or_else(|| Error::not_found("secret"))?;
            let version = old.version.saturating_add(1);
            let record = SecretRecord { version, updated_at: secrets.clock.now_ms(), ..SecretRecord::clone(&old) };
            secrets.seal_and_keep(record, &value, act).await
        })
        .await
    }

    async fn seal_and_keep(
        &self,
        mut record: SecretRecord,
        value: &SecretValue,
        act: Act,
    ) -> Result<SecretRecord, Error> {
        let key = self.key_to_seal()?;
        seal::seal(&key, &mut record, value)?;
        let place = serde_json::json!({ "for": record.origin, "header": record.header, "shared": record.shared });
        self.store.by(act.with(&place)).put_secret(record.clone()).await?;
        self.book.put(record.clone());
        tracing::info!(secret.name = %record.name, secret.owner = %record.owner, "A secret was stored");
        Ok(record)
    }

    /// The key; made now if nothing was ever sealed here.
    fn key_to_seal(&self) -> Result<Arc<SealingKey>, Error> {
        let mut held = self.key.write();
        if let Some(key) = &*held {
            return Ok(Arc::clone(key));
        }
        let key = Arc::new(self.source.create()?);
        *held = Some(Arc::clone(&key));
        Ok(key)
    }

    /// The secrets of an owner by name, without what they are.
    ///
    /// # Errors
    ///
    /// `insufficient_scope`; `forbidden` for another owner.
    pub fn list(&self, caller: &Caller, owner: Option<OwnerId>) -> Result<Vec<SecretRecord>, Error> {
        Ok(self.book.of_owner(&owner_for(caller, owner)?))
    }

    /// One secret, without what it is.
    ///
    /// # Errors
    ///
    /// As [`Secrets::list`]; `not_found`.
    pub fn get(&self, caller: &Caller, owner: Option<OwnerId>, name: &SecretName) -> Result<Arc<SecretRecord>, Error> {
        self.book.find(&owner_for(caller, owner)?, name).ok_or_else(|| Error::not_found("secret"))
    }

    /// Removes a secret. Runs that have it go on.
    ///
    /// # Errors
    ///
    /// As [`Secrets::get`].
    pub async fn remove(
        self: &Arc<Self>,
        caller: &Caller,
        owner: Option<OwnerId>,
        name: SecretName,
    ) -> Result<(), Error> {
        let owner = owner_for(caller, owner)?;
        let (secrets, act) = (Arc::clone(self), self.act(caller, "secret.remove", (&owner, &name)));
        to_its_end(async move {
            let _alone = secrets.changes.lock().await;
            if !secrets.store.by(act).delete_secret(owner.clone(), name.clone()).await? {
                return Err(Error::not_found("secret"));
            }
            secrets.book.remove(&owner, &name);
            tracing::info!(secret.name = %name, secret.owner = %owner, "A secret was removed");
            Ok(())
        })
        .await
    }
}

impl Secrets {
    /// Forgets the secrets of an owner, as the store did.
    pub(crate) fn forget(&self, owner: &OwnerId) {
        self.book.remove_owner(owner);
    }

    fn act(&self, caller: &Caller, act: &str, (owner, name): (&OwnerId, &SecretName)) -> Act {
        Act::of(caller, act, self.clock.now_ms()).to(owner, name)
    }
}

/// Whose secret is meant: an admin key may name another owner.
fn owner_for(caller: &Caller, owner: Option<OwnerId>) -> Result<OwnerId, Error> {
    caller.key.require(Scope::SecretsWrite)?;
    match owner {
        Some(owner) if owner != *caller.owner() && !caller.key.is_admin() => {
            Err(Error::new(Code::Forbidden, "only a key with the scope `admin` can name another owner"))
        }
        Some(owner) => Ok(owner),
        None => Ok(caller.owner().clone()),
    }
}
