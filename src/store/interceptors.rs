//! The tables `interceptors` and `webhook_secrets`. What is secret was sealed before it came here.

use rusqlite::{Connection, params};

use crate::model::{Digest, Error, InterceptorId, InterceptorKind, InterceptorName, InterceptorRecord, OwnerId};

use super::{Store, json_column, parsed, to_json};

/// A secret that a webhook is signed with.
#[derive(Clone, Debug)]
pub struct WebhookSecret {
    /// Which webhook.
    pub interceptor: InterceptorId,
    /// Which of its secrets, from 1.
    pub version: u32,
    /// Which key it was sealed with.
    pub key_id: [u8; 16],
    /// The nonce of the sealing.
    pub nonce: [u8; 12],
    /// The sealed secret.
    pub sealed: Vec<u8>,
    /// Until when it signs, in milliseconds since the Unix epoch; the newest has no end.
    pub until: Option<i64>,
}

impl Store {
    /// All interceptors, those that were set up first at the beginning, and whose rows cannot be read, with names.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn interceptors(&self) -> Result<(Vec<InterceptorRecord>, Vec<(OwnerId, InterceptorName)>), Error> {
        self.read(|connection| {
            let mut query = connection.prepare("SELECT owner, name, record FROM interceptors ORDER BY id")?;
            let (mut records, mut broken) = (Vec::new(), Vec::new());
            let mut rows = query.query([])?;
            while let Some(row) = rows.next()? {
                match json_column(row.get_ref("record")?.as_str()?) {
                    Ok(record) => records.push(record),
                    Err(_) => {
                        broken.push((parsed(row.get_ref("owner")?.as_str()?)?, parsed(row.get_ref("name")?.as_str()?)?))
                    }
                }
            }
            Ok((records, broken))
        })
        .await
    }

    /// Every secret that webhooks are signed with, the newest of each first.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn webhook_secrets(&self) -> Result<Vec<WebhookSecret>, Error> {
        self.read(|connection| {
            let text = "SELECT interceptor_id, version, key_id, nonce, sealed, until FROM webhook_secrets
                        ORDER BY interceptor_id, version DESC";
            let mut query = connection.prepare(text)?;
            let secrets = query.query_map([], |row| {
                Ok(WebhookSecret {
                    interceptor: InterceptorId::from_bytes(row.get(0)?),
                    version: row.get(1)?,
                    key_id: row.get(2)?,
                    nonce: row.get(3)?,
                    sealed: row.get(4)?,
                    until: row.get(5)?,
                })
            });
            secrets?.collect()
        })
        .await
    }

    /// Keeps an interceptor, in place of one with its id, and the secrets given with it in place of those that
    /// it had; none leaves these as they are.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn put_interceptor(&self, record: InterceptorRecord, secrets: Vec<WebhookSecret>) -> Result<(), Error> {
        self.write_together(move |connection| {
            let id = record.id;
            connection
                .prepare_cached(
                    "INSERT INTO interceptors (id, owner, name, record) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (id) DO UPDATE SET record = excluded.record",
                )?
                .execute(params![id.as_bytes(), record.owner.as_str(), record.name.as_str(), to_json(&record)])?;
            if !secrets.is_empty() {
                connection.execute("DELETE FROM webhook_secrets WHERE interceptor_id = ?1", [id.as_bytes()])?;
            }
            secrets.iter().try_for_each(|secret| put_secret(connection, secret))
        })
        .await
    }

    /// Removes an interceptor with all that it has; says whether it was there.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn delete_interceptor(&self, id: InterceptorId) -> Result<bool, Error> {
        self.write_together(move |connection| {
            connection.execute("DELETE FROM webhook_secrets WHERE interceptor_id = ?1", [id.as_bytes()])?;
            connection.execute("DELETE FROM webhook_outbox WHERE interceptor_id = ?1", [id.as_bytes()])?;
            let removed = connection.execute("DELETE FROM interceptors WHERE id = ?1", [id.as_bytes()])?;
            Ok(removed > 0)
        })
        .await
    }

    /// Whether an interceptor of this owner, or one for everybody, is the component.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn is_interceptor(&self, owner: &OwnerId, digest: Digest) -> Result<bool, Error> {
        let (records, _) = self.interceptors().await?;
        let is_it =
            |what: &InterceptorKind| matches!(what, InterceptorKind::Wasm { component } if *component == digest);
        Ok(records.iter().any(|record| is_it(&record.what) && (record.global || record.owner == *owner)))
    }
}

fn put_secret(connection: &Connection, secret: &WebhookSecret) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO webhook_secrets (interceptor_id, version, key_id, nonce, sealed, until)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            secret.interceptor.as_bytes(),
            secret.version,
            secret.key_id,
            secret.nonce,
            secret.sealed,
            secret.until,
        ])
        .map(drop)
}
