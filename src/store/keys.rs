//! The table `keys`.

use std::sync::Arc;

use rusqlite::{Row, params};

use crate::model::{Error, Key, KeyId};

use super::{Store, json_column, parsed, to_json};

/// A key with the hashes of its secrets.
#[derive(Clone, Debug)]
pub struct StoredKey {
    /// The key.
    pub key: Arc<Key>,
    /// SHA-256 of its secret.
    pub secret: [u8; 32],
    /// SHA-256 of the secret before the last rotation, which works until the key's `grace_until`.
    pub previous: Option<[u8; 32]>,
}

impl Store {
    /// Every key, also those that no longer work, oldest first.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn keys(&self) -> Result<Vec<StoredKey>, Error> {
        self.read(|connection| {
            let mut query = connection.prepare_cached("SELECT * FROM keys ORDER BY id")?;
            query.query_map([], stored_key)?.collect()
        })
        .await
    }

    /// Adds a key.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn insert_key(&self, stored: StoredKey) -> Result<(), Error> {
        self.write(move |connection| {
            let key = &stored.key;
            connection
                .prepare_cached(
                    "INSERT INTO keys (id, secret_sha256, owner, name, scopes, skills, ceilings, created_at, expires_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                )?
                .execute(params![
                    key.id.as_str(),
                    stored.secret,
                    key.owner.as_str(),
                    key.name,
                    to_json(&key.scopes),
                    key.skills.as_ref().map(to_json),
                    to_json(&key.ceilings),
                    key.created_at,
                    key.expires_at,
                ])
                .map(drop)
        })
        .await
    }

    /// Gives a key a new secret; the old one works until `previous_until`.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn rotate_key(&self, id: KeyId, secret: [u8; 32], previous_until: Option<i64>) -> Result<(), Error> {
        self.write(move |connection| {
            connection
                .prepare_cached(
                    "UPDATE keys SET previous_sha256 = iif(?3 IS NULL, NULL, secret_sha256),
                     previous_until = ?3, secret_sha256 = ?2 WHERE id = ?1",
                )?
                .execute(params![id.as_str(), secret, previous_until])
                .map(drop)
        })
        .await
    }

    /// Writes down that a key no longer works.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn revoke_key(&self, id: KeyId, at: i64) -> Result<(), Error> {
        self.write(move |connection| {
            connection
                .prepare_cached("UPDATE keys SET revoked_at = coalesce(revoked_at, ?2) WHERE id = ?1")?
                .execute(params![id.as_str(), at])
                .map(drop)
        })
        .await
    }
}

fn stored_key(row: &Row<'_>) -> rusqlite::Result<StoredKey> {
    let skills: Option<String> = row.get("skills")?;
    Ok(StoredKey {
        secret: row.get("secret_sha256")?,
        previous: row.get("previous_sha256")?,
        key: Arc::new(Key {
            id: parsed(row.get_ref("id")?.as_str()?)?,
            owner: parsed(row.get_ref("owner")?.as_str()?)?,
            name: row.get("name")?,
            scopes: json_column(row.get_ref("scopes")?.as_str()?)?,
            skills: skills.map(|text| json_column(&text)).transpose()?,
            ceilings: json_column(row.get_ref("ceilings")?.as_str()?)?,
            expires_at: row.get("expires_at")?,
            created_at: row.get("created_at")?,
            revoked_at: row.get("revoked_at")?,
            grace_until: row.get("previous_until")?,
        }),
    })
}
