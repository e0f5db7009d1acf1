//! The tables `kv_entries` and `kv_usage`: what skills keep, by owner and skill.
//!
//! `seq` is the order in which keys came to be, and never changes while the key is there;
//! `version` is another one for each write, also when a key comes back. Both count an owner's writes.

use std::ops::RangeInclusive;

use rusqlite::{Connection, OptionalExtension, Params, params};

use crate::model::{Code, Error, OwnerId, SkillName};

use super::Store;

/// Whose keys are meant, and in which bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvBucket {
    /// Whose they are.
    pub owner: OwnerId,
    /// The owner of the skill that keeps them.
    pub skill_owner: OwnerId,
    /// The skill, in all its versions.
    pub skill: SkillName,
    /// The bucket's name.
    pub name: String,
}

/// The most that one owner may keep, of all skills together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvQuota {
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Keys.
    pub keys: u64,
}

/// The entry of a key: the bucket's four columns, then the key.
const ENTRY: &str = "owner = ?1 AND skill_owner = ?2 AND skill = ?3 AND bucket = ?4 AND key = ?5";

impl Store {
    /// The values of some keys, if all together have at most `most` bytes.
    ///
    /// # Errors
    ///
    /// `invalid_args` if they have more; as any read.
    pub async fn kv_get(&self, of: KvBucket, keys: Vec<String>, most: usize) -> Result<Vec<Option<Vec<u8>>>, Error> {
        self.read(move |connection| {
            let mut bytes = 0;
            let mut values = Vec::with_capacity(keys.len());
            for key in &keys {
                let found = look(connection, &of, key)?.map(|(value, _)| value);
                bytes += found.as_ref().map_or(0, Vec::len);
                if bytes > most {
                    let detail = format!("the values have more than {most} bytes together; ask for fewer at one time");
                    return Ok(Err(Error::new(Code::InvalidArgs, detail)));
                }
                values.push(found);
            }
            Ok(Ok(values))
        })
        .await?
    }

    /// A value and its version.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn kv_look(&self, of: KvBucket, key: String) -> Result<Option<(Vec<u8>, u64)>, Error> {
        self.read(move |connection| look(connection, &of, &key)).await
    }

    /// Whether there is a value.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn kv_exists(&self, of: KvBucket, key: String) -> Result<bool, Error> {
        self.read(move |connection| Ok(size(connection, &of, &key)?.is_some())).await
    }

    /// At most `limit` keys that came to be after `after`, each with its place in that order.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn kv_keys(&self, of: KvBucket, after: u64, limit: u32) -> Result<Vec<(String, u64)>, Error> {
        self.read(move |connection| {
            let text = "SELECT key, seq FROM kv_entries
                        WHERE owner = ?1 AND skill_owner = ?2 AND skill = ?3 AND bucket = ?4 AND seq > ?5
                        ORDER BY seq LIMIT ?6";
            let after = i64::try_from(after).unwrap_or(i64::MAX);
            let values = params![of.owner.as_str(), of.skill_owner.as_str(), of.skill.as_str(), of.name, after, limit];
            connection.prepare_cached(text)?.query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
        .await
    }

    /// Sets keys: all, or none where they would be over the quota.
    ///
    /// # Errors
    ///
    /// `storage_full` over the quota; as any write.
    pub async fn kv_set(&self, of: KvBucket, pairs: Vec<(String, Vec<u8>)>, quota: KvQuota) -> Result<(), Error> {
        self.kv_write(move |connection| {
            for (key, value) in &pairs {
                if let Err(error) = set(connection, &of, (key, value), quota)? {
                    return Ok(Err(error));
                }
            }
            Ok(Ok(()))
        })
        .await
    }

    /// Removes keys; those that are not there are left alone.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn kv_delete(&self, of: KvBucket, keys: Vec<String>) -> Result<(), Error> {
        self.kv_write(move |connection| {
            for key in &keys {
                let Some(bytes) = size(connection, &of, key)? else { continue };
                let text = format!("DELETE FROM kv_entries WHERE {ENTRY}");
                connection.prepare_cached(&text)?.execute(entry(&of, key))?;
                count(connection, &of.owner, (-1, -bytes))?;
            }
            Ok(Ok(()))
        })
        .await
    }

    /// Adds to the number that a value is, as decimal text; what is not there is 0.
    ///
    /// # Errors
    ///
    /// `invalid_args` if the value is no number or the sum is out of the range; as [`Store::kv_set`].
    pub async fn kv_add(
        &self,
        of: KvBucket,
        key: String,
        (delta, range): (i128, RangeInclusive<i128>),
        quota: KvQuota,
    ) -> Result<i128, Error> {
        self.kv_write(move |connection| {
            let old = look(connection, &of, &key)?.map_or_else(|| Some(0), |(value, _)| number(&value));
            let Some(sum) = old.and_then(|old| old.checked_add(delta)).filter(|sum| range.contains(sum)) else {
                let detail = "the value is not a decimal number, or the sum is out of range; nothing was changed";
                return Ok(Err(Error::new(Code::InvalidArgs, detail)));
            };
            let set = set(connection, &of, (&key, sum.to_string().as_bytes()), quota)?;
            Ok(set.map(|()| sum))
        })
        .await
    }

    /// Sets a key if its version is still the one that was seen (none: it was not there); says
    /// whether it was.
    ///
    /// # Errors
    ///
    /// As [`Store::kv_set`].
    pub async fn kv_swap(
        &self,
        of: KvBucket,
        key: String,
        (seen, value): (Option<u64>, Vec<u8>),
        quota: KvQuota,
    ) -> Result<bool, Error> {
        self.kv_write(move |connection| {
            let text = format!("SELECT version FROM kv_entries WHERE {ENTRY}");
            let version = connection.prepare_cached(&text)?.query_row(entry(&of, &key), |row| row.get(0)).optional()?;
            if version != seen {
                return Ok(Ok(false));
            }
            Ok(set(connection, &of, (&key, &value), quota)?.map(|()| true))
        })
        .await
    }

    /// Runs `work` on the writer thread; where it refuses, nothing of it stays.
    async fn kv_write<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<Result<R, Error>> + Send + 'static,
    ) -> Result<R, Error> {
        self.write(|connection| {
            connection.prepare_cached("SAVEPOINT kv")?.execute([])?;
            let result = work(connection);
            if !matches!(result, Ok(Ok(_))) {
                connection.prepare_cached("ROLLBACK TO kv")?.execute([])?;
            }
            connection.prepare_cached("RELEASE kv")?.execute([])?;
            result
        })
        .await?
    }
}

fn entry<'a>(of: &'a KvBucket, key: &'a str) -> impl Params + 'a {
    (of.owner.as_str(), of.skill_owner.as_str(), of.skill.as_str(), of.name.as_str(), key)
}

fn look(connection: &Connection, of: &KvBucket, key: &str) -> rusqlite::Result<Option<(Vec<u8>, u64)>> {
    let text = format!("SELECT value, version FROM kv_entries WHERE {ENTRY}");
    let mut query = connection.prepare_cached(&text)?;
    query.query_row(entry(of, key), |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

/// Bytes of a key and its value, if it is there.
fn size(connection: &Connection, of: &KvBucket, key: &str) -> rusqlite::Result<Option<i64>> {
    let text = format!("SELECT octet_length(key) + octet_length(value) FROM kv_entries WHERE {ENTRY}");
    connection.prepare_cached(&text)?.query_row(entry(of, key), |row| row.get(0)).optional()
}

fn set(
    connection: &Connection,
    of: &KvBucket,
    (key, value): (&str, &[u8]),
    quota: KvQuota,
) -> rusqlite::Result<Result<(), Error>> {
    let old = size(connection, of, key)?;
    let new = i64::try_from(key.len() + value.len()).unwrap_or(i64::MAX);
    let more = (i64::from(old.is_none()), new - old.unwrap_or(0));
    let (keys, bytes, tick) = count(connection, &of.owner, more)?;
    if more.0 > 0 && keys > quota.keys {
        let detail = format!("your skills keep {} keys, which is the most; delete some", quota.keys);
        return Ok(Err(Error::new(Code::StorageFull, detail)));
    }
    // Who is over a quota that was lowered may still write less than before.
    if more.1 > 0 && bytes > quota.bytes {
        let detail = format!("your skills would keep more than {} bytes (ceilings.storage.kvBytes)", quota.bytes);
        return Ok(Err(Error::new(Code::StorageFull, detail)));
    }
    let text = "INSERT INTO kv_entries (owner, skill_owner, skill, bucket, key, seq, version, value)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7)
                ON CONFLICT (owner, skill_owner, skill, bucket, key)
                DO UPDATE SET value = excluded.value, version = excluded.version";
    let (owner, skill_owner, skill) = (of.owner.as_str(), of.skill_owner.as_str(), of.skill.as_str());
    connection.prepare_cached(text)?.execute(params![owner, skill_owner, skill, of.name, key, tick, value])?;
    Ok(Ok(()))
}

/// Counts a change of keys and bytes, and gives the sums and the number of this write.
fn count(connection: &Connection, owner: &OwnerId, (keys, bytes): (i64, i64)) -> rusqlite::Result<(u64, u64, i64)> {
    let text = "INSERT INTO kv_usage (owner, keys, bytes, writes) VALUES (?1, ?2, ?3, 1)
                ON CONFLICT (owner) DO UPDATE SET keys = keys + ?2, bytes = bytes + ?3, writes = writes + 1
                RETURNING keys, bytes, writes";
    let values = params![owner.as_str(), keys, bytes];
    connection.prepare_cached(text)?.query_row(values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
}

fn number(value: &[u8]) -> Option<i128> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Telemetry;

    const QUOTA: KvQuota = KvQuota { bytes: 1000, keys: 5 };

    fn bucket(owner: &str) -> KvBucket {
        let (owner, skill_owner) = (owner.parse().unwrap(), OwnerId::system());
        KvBucket { owner, skill_owner, skill: "s".parse().unwrap(), name: "default".into() }
    }

    fn open() -> (Store, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        (Store::open(dir.path(), Telemetry::new()).unwrap(), dir)
    }

    #[tokio::test]
    async fn a_write_over_the_quota_leaves_everything_as_it_was() {
        let (store, _dir) = open();
        let pair = |key: &str, bytes: usize| (key.to_owned(), vec![0; bytes]);
        store.kv_set(bucket("a"), vec![pair("k", 500)], QUOTA).await.unwrap();
        let over = store.kv_set(bucket("a"), vec![pair("k", 1), pair("l", 999)], QUOTA).await.unwrap_err();
        assert_eq!(over.code, Code::StorageFull);
        let (value, _) = store.kv_look(bucket("a"), "k".into()).await.unwrap().unwrap();
        assert_eq!((value.len(), store.kv_exists(bucket("a"), "l".into()).await.unwrap()), (500, false));
        store.kv_set(bucket("b"), vec![pair("k", 500)], QUOTA).await.unwrap();
        store.kv_delete(bucket("a"), vec!["k".into(), "none".into()]).await.unwrap();
        let many = (0..5).map(|n| pair(&n.to_string(), 190)).collect();
        store.kv_set(bucket("a"), many, QUOTA).await.unwrap();
        assert_eq!(store.kv_set(bucket("a"), vec![pair("6", 0)], QUOTA).await.unwrap_err().code, Code::StorageFull);
        // Less than before is no more.
        let lower = KvQuota { bytes: 10, keys: 1 };
        store.kv_set(bucket("a"), vec![pair("0", 5)], lower).await.unwrap();
    }

    #[tokio::test]
    async fn a_key_that_went_and_came_back_has_another_version_and_another_place() {
        let (store, _dir) = open();
        let set = async |key: &str| store.kv_set(bucket("a"), vec![(key.into(), b"1".into())], QUOTA).await.unwrap();
        set("k").await;
        set("l").await;
        let seen = store.kv_look(bucket("a"), "k".into()).await.unwrap().map(|(_, version)| version);
        store.kv_delete(bucket("a"), vec!["k".into()]).await.unwrap();
        set("k").await;
        let swap = async |seen| store.kv_swap(bucket("a"), "k".into(), (seen, b"2".into()), QUOTA).await.unwrap();
        assert!(!swap(seen).await && !swap(None).await);
        let seen = store.kv_look(bucket("a"), "k".into()).await.unwrap().map(|(_, version)| version);
        assert!(swap(seen).await && !swap(seen).await);
        let keys = store.kv_keys(bucket("a"), 0, 10).await.unwrap();
        assert_eq!(keys.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["l", "k"]);
        let rest = store.kv_keys(bucket("a"), keys[0].1, 10).await.unwrap();
        assert_eq!(rest, keys[1..]);
    }

    #[tokio::test]
    async fn numbers_stay_in_their_range_and_what_is_none_is_left_alone() {
        let (store, _dir) = open();
        let add = async |delta| store.kv_add(bucket("a"), "n".into(), (delta, 0..=10), QUOTA).await;
        assert_eq!((add(7).await.unwrap(), add(3).await.unwrap()), (7, 10));
        assert_eq!(add(1).await.unwrap_err().code, Code::InvalidArgs);
        assert_eq!(add(-10).await.unwrap(), 0);
        store.kv_set(bucket("a"), vec![("n".into(), b"x".into())], QUOTA).await.unwrap();
        assert_eq!(add(1).await.unwrap_err().code, Code::InvalidArgs);
        assert_eq!(store.kv_get(bucket("a"), vec!["n".into()], 1).await.unwrap(), [Some(b"x".to_vec())]);
        assert!(store.kv_get(bucket("a"), vec!["n".into(); 2], 1).await.is_err());
    }
}
