//! The table `secrets`. What is secret in it was sealed before it came here.

use rusqlite::{Connection, Row, params};

use crate::model::{Error, OwnerId, SecretName};

use super::{Store, parsed};

/// A row of `secrets`.
#[derive(Clone, Debug)]
pub struct SecretRecord {
    /// Whose it is.
    pub owner: OwnerId,
    /// Its name.
    pub name: SecretName,
    /// How often it was stored; each sealing has its own.
    pub version: u32,
    /// The only origin that gets it, as `https://host[:port]`.
    pub origin: String,
    /// The header that it goes into.
    pub header: String,
    /// What stands before it there.
    pub prefix: String,
    /// Whether global skills may use it for everybody.
    pub shared: bool,
    /// Which key it was sealed with.
    pub key_id: [u8; 16],
    /// The nonce of the sealing.
    pub nonce: [u8; 12],
    /// The sealed value.
    pub sealed: Vec<u8>,
    /// When it was first stored, in milliseconds since the Unix epoch.
    pub created_at: i64,
    /// When it was last stored, in milliseconds since the Unix epoch.
    pub updated_at: i64,
}

/// The keys that secrets are sealed with in a database of any version.
pub(super) fn sealed_with(connection: &Connection) -> rusqlite::Result<Vec<[u8; 16]>> {
    if !connection.table_exists(None, "secrets")? {
        return Ok(Vec::new());
    }
    let mut query = connection.prepare("SELECT DISTINCT key_id FROM secrets")?;
    let mut keys = query.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    if connection.table_exists(None, "webhook_secrets")? {
        let mut query = connection.prepare("SELECT DISTINCT key_id FROM webhook_secrets")?;
        keys.extend(query.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<[u8; 16]>>>()?);
    }
    Ok(keys)
}

impl Store {
    /// All secrets.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn secrets(&self) -> Result<Vec<SecretRecord>, Error> {
        self.read(|connection| {
            let mut query = connection.prepare_cached("SELECT * FROM secrets")?;
            query.query_map([], secret_record)?.collect()
        })
        .await
    }

    /// The names of an owner's secrets.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn secret_names(&self, owner: OwnerId) -> Result<Vec<String>, Error> {
        self.read(move |connection| {
            let mut query = connection.prepare_cached("SELECT name FROM secrets WHERE owner = ?1")?;
            query.query_map([owner.as_str()], |row| row.get(0))?.collect()
        })
        .await
    }

    /// Stores a secret, in place of one of the same owner and name.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn put_secret(&self, record: SecretRecord) -> Result<(), Error> {
        self.write(move |connection| {
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO secrets (owner, name, version, origin, header, prefix, shared, key_id,
                     nonce, sealed, created_at, updated_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                )?
                .execute(params![
                    record.owner.as_str(),
                    record.name.as_str(),
                    record.version,
                    record.origin,
                    record.header,
                    record.prefix,
                    record.shared,
                    record.key_id,
                    record.nonce,
                    record.sealed,
                    record.created_at,
                    record.updated_at,
                ])
                .map(drop)
        })
        .await
    }

    /// Removes a secret; says whether it was there.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn delete_secret(&self, owner: OwnerId, name: SecretName) -> Result<bool, Error> {
        self.write(move |connection| {
            connection
                .prepare_cached("DELETE FROM secrets WHERE owner = ?1 AND name = ?2")?
                .execute((owner.as_str(), name.as_str()))
                .map(|removed| removed > 0)
        })
        .await
    }
}

fn secret_record(row: &Row<'_>) -> rusqlite::Result<SecretRecord> {
    Ok(SecretRecord {
        owner: parsed(row.get_ref("owner")?.as_str()?)?,
        name: parsed(row.get_ref("name")?.as_str()?)?,
        version: row.get("version")?,
        origin: row.get("origin")?,
        header: row.get("header")?,
        prefix: row.get("prefix")?,
        shared: row.get("shared")?,
        key_id: row.get("key_id")?,
        nonce: row.get("nonce")?,
        sealed: row.get("sealed")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}
