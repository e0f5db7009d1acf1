//! Administrative acts: what was done, by which key, to what.

use std::sync::Arc;

use rusqlite::{Connection, Row, params};

use crate::model::{Caller, Error, KeyId, OwnerId};
use crate::store::{Store, parsed, together};

use super::append::Chain;

/// One administrative act, as it is written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// When, in milliseconds since the Unix epoch.
    pub at: i64,
    /// What was done, such as `key.create`.
    pub act: String,
    /// The door it came through; none for what the host does by itself.
    pub door: Option<String>,
    /// How often, where several are told as one.
    pub count: i64,
    /// Whose namespace it was done in.
    pub owner: Option<OwnerId>,
    /// The key that did it; none for what the host does by itself.
    pub key: Option<KeyId>,
    /// What it was done to: an id, an address or a name, and never what is secret.
    pub target: Option<String>,
    /// What it was made, as JSON, where that can be told.
    pub details: Option<String>,
}

impl Act {
    /// Something that the host does by itself.
    pub fn of_host(act: &str, at: i64) -> Self {
        let act = act.to_owned();
        Self { at, act, door: None, count: 1, owner: None, key: None, target: None, details: None }
    }

    /// Something that a caller does.
    pub fn of(caller: &Caller, act: &str, at: i64) -> Self {
        let (key, door) = (Some(caller.key.id.clone()), Some(caller.door.as_str().to_owned()));
        Self { key, door, ..Self::of_host(act, at) }
    }

    /// What it was done to, and whose that is.
    #[must_use]
    pub fn to(self, owner: &OwnerId, target: impl ToString) -> Self {
        Self { owner: Some(owner.clone()), target: Some(target.to_string()), ..self }
    }

    /// What it was made.
    #[must_use]
    pub fn with(self, details: &serde_json::Value) -> Self {
        Self { details: Some(details.to_string()), ..self }
    }

    pub(super) fn insert(&self, connection: &Connection, seq: i64) -> rusqlite::Result<()> {
        connection
            .prepare_cached(
                "INSERT INTO admin_acts (seq, at, act, door, count, owner, key_id, target, details)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                seq,
                self.at,
                self.act,
                self.door,
                self.count,
                self.owner.as_ref().map(OwnerId::as_str),
                self.key.as_ref().map(KeyId::as_str),
                self.target,
                self.details,
            ])
            .map(drop)
    }

    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let (owner, key): (Option<String>, Option<String>) = (row.get("owner")?, row.get("key_id")?);
        Ok(Self {
            at: row.get("at")?,
            act: row.get("act")?,
            door: row.get("door")?,
            count: row.get("count")?,
            owner: owner.map(|text| parsed(&text)).transpose()?,
            key: key.map(|text| parsed(&text)).transpose()?,
            target: row.get("target")?,
            details: row.get("details")?,
        })
    }
}

impl Store {
    /// The same store for a change that is to be written down as this act, with the change or not at
    /// all; a change that changes nothing is none.
    #[must_use]
    pub fn by(&self, act: Act) -> Self {
        Self { act: Some(Arc::new(act)), ..self.clone() }
    }

    /// Writes down an act that changes nothing in the database. Returns at once; nobody hears of it
    /// where that fails, but the log.
    pub fn note(&self, act: Act) {
        let work = together(move |connection: &Connection| Chain::default().act(connection, &act));
        self.writer.send(work, |noted: Result<(), Error>| {
            if let Err(error) = noted {
                tracing::error!(error.code = %error.code, "An act could not be written down: {error:?}");
            }
        });
    }
}

/// A change, and its act behind it.
pub(in crate::store) fn acted<R>(
    act: Arc<Act>,
    change: impl FnOnce(&Connection) -> rusqlite::Result<R>,
) -> impl FnOnce(&Connection) -> rusqlite::Result<R> {
    move |connection| {
        let before = connection.total_changes();
        let changed = change(connection)?;
        if connection.total_changes() != before {
            Chain::default().act(connection, &act)?;
        }
        Ok(changed)
    }
}
