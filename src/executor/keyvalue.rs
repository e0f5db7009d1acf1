//! What skills keep: the store's tables, within limits.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::model::{Code, Error, OwnerId, SkillName};
use crate::sandbox::{BoxFuture, KeyPage, KeyValue, Versioned};
use crate::store::{KvBucket, KvQuota, Store};

/// Most bytes of a key, and of the name of a bucket.
const MAX_KEY: usize = 1024;
const MAX_BUCKET: usize = 128;
/// Most bytes of a value.
const MAX_VALUE: usize = 1 << 20;
/// Most keys in one call.
const MAX_BATCH: usize = 1_000;
/// Most bytes of values in one answer.
const MAX_ANSWER: usize = 4 << 20;
/// Keys on one page of them.
const PAGE: u32 = 256;
/// Most keys of one owner.
const MAX_KEYS: u64 = 100_000;
/// Calls of one owner that are under way at one time; others wait.
const AT_ONE_TIME: usize = 16;

/// Who waits for whom, by owner.
#[derive(Default)]
pub(super) struct Gates(Mutex<HashMap<OwnerId, Weak<Semaphore>>>);

impl Gates {
    fn of(&self, owner: &OwnerId) -> Arc<Semaphore> {
        let mut each = self.0.lock();
        each.get(owner).and_then(Weak::upgrade).unwrap_or_else(|| {
            each.retain(|_, gate| gate.strong_count() > 0);
            let gate = Arc::new(Semaphore::new(AT_ONE_TIME));
            each.insert(owner.clone(), Arc::downgrade(&gate));
            gate
        })
    }
}

/// The store of one owner and skill.
pub(super) struct Kept {
    pub(super) store: Store,
    pub(super) gates: Arc<Gates>,
    pub(super) owner: OwnerId,
    pub(super) skill_owner: OwnerId,
    pub(super) skill: SkillName,
    /// Bytes that the owner may keep (`ceilings.storage.kvBytes`).
    pub(super) bytes: u64,
}

impl Kept {
    /// A turn, and the bucket, if the keys are such as can be.
    async fn turn<'a>(
        &self,
        bucket: String,
        keys: impl ExactSizeIterator<Item = &'a String>,
    ) -> Result<(OwnedSemaphorePermit, KvBucket), Error> {
        if bucket.len() > MAX_BUCKET {
            return Err(refused(format!("the name of the bucket has more than {MAX_BUCKET} bytes")));
        }
        if keys.len() > MAX_BATCH {
            return Err(refused(format!("more than {MAX_BATCH} keys in one call")));
        }
        if keys.into_iter().any(|key| key.is_empty() || key.len() > MAX_KEY || key.contains('\0')) {
            return Err(refused(format!("a key has 1 to {MAX_KEY} bytes, and no NUL")));
        }
        let turn = self.gates.of(&self.owner).acquire_owned().await.map_err(Error::internal)?;
        let name = if bucket.is_empty() { "default".to_owned() } else { bucket };
        let (owner, skill_owner, skill) = (self.owner.clone(), self.skill_owner.clone(), self.skill.clone());
        Ok((turn, KvBucket { owner, skill_owner, skill, name }))
    }

    fn quota(&self) -> KvQuota {
        KvQuota { bytes: self.bytes, keys: MAX_KEYS }
    }
}

fn refused(detail: String) -> Error {
    Error::new(Code::InvalidArgs, detail)
}

fn require_small(value: &[u8]) -> Result<(), Error> {
    if value.len() > MAX_VALUE { Err(refused(format!("a value has at most {MAX_VALUE} bytes"))) } else { Ok(()) }
}

impl KeyValue for Kept {
    fn get(
        self: Arc<Self>,
        bucket: String,
        keys: Vec<String>,
    ) -> BoxFuture<'static, Result<Vec<Option<Vec<u8>>>, Error>> {
        Box::pin(async move {
            let (_turn, of) = self.turn(bucket, keys.iter()).await?;
            self.store.kv_get(of, keys, MAX_ANSWER).await
        })
    }

    fn set(self: Arc<Self>, bucket: String, pairs: Vec<(String, Vec<u8>)>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            pairs.iter().try_for_each(|(_, value)| require_small(value))?;
            let (_turn, of) = self.turn(bucket, pairs.iter().map(|(key, _)| key)).await?;
            self.store.kv_set(of, pairs, self.quota()).await
        })
    }

    fn delete(self: Arc<Self>, bucket: String, keys: Vec<String>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            let (_turn, of) = self.turn(bucket, keys.iter()).await?;
            self.store.kv_delete(of, keys).await
        })
    }

    fn exists(self: Arc<Self>, bucket: String, key: String) -> BoxFuture<'static, Result<bool, Error>> {
        Box::pin(async move {
            let (_turn, of) = self.turn(bucket, [&key].into_iter()).await?;
            self.store.kv_exists(of, key).await
        })
    }

    fn keys(self: Arc<Self>, bucket: String, after: u64) -> BoxFuture<'static, Result<KeyPage, Error>> {
        Box::pin(async move {
            let (_turn, of) = self.turn(bucket, [].iter()).await?;
            let mut found = self.store.kv_keys(of, after, PAGE + 1).await?;
            let more = found.len() > PAGE as usize;
            found.truncate(PAGE as usize);
            let next = found.last().filter(|_| more).map(|(_, place)| *place);
            Ok(KeyPage { keys: found.into_iter().map(|(key, _)| key).collect(), next })
        })
    }

    fn add(
        self: Arc<Self>,
        bucket: String,
        key: String,
        change: (i128, RangeInclusive<i128>),
    ) -> BoxFuture<'static, Result<i128, Error>> {
        Box::pin(async move {
            let (_turn, of) = self.turn(bucket, [&key].into_iter()).await?;
            self.store.kv_add(of, key, change, self.quota()).await
        })
    }

    fn look(self: Arc<Self>, bucket: String, key: String) -> BoxFuture<'static, Result<Versioned, Error>> {
        Box::pin(async move {
            let (_turn, of) = self.turn(bucket, [&key].into_iter()).await?;
            let (value, version) = self.store.kv_look(of, key).await?.unzip();
            Ok(Versioned { value, version })
        })
    }

    fn swap(
        self: Arc<Self>,
        bucket: String,
        key: String,
        change: (Option<u64>, Vec<u8>),
    ) -> BoxFuture<'static, Result<bool, Error>> {
        Box::pin(async move {
            require_small(&change.1)?;
            let (_turn, of) = self.turn(bucket, [&key].into_iter()).await?;
            self.store.kv_swap(of, key, change, self.quota()).await
        })
    }
}
