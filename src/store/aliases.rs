//! The table `skill_aliases`.

use rusqlite::{Row, params};
use semver::Version;

use crate::model::{Alias, Error, KeyId, OwnerId, SkillName};

use super::{Store, parsed};

/// A word that stands for a version of a skill.
#[derive(Clone, Debug)]
pub struct AliasRecord {
    /// Whose skill it is.
    pub owner: OwnerId,
    /// The skill's name.
    pub name: SkillName,
    /// The word.
    pub alias: Alias,
    /// The version.
    pub version: Version,
}

impl Store {
    /// Every alias; and the problems of rows that cannot be read.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn aliases(&self) -> Result<(Vec<AliasRecord>, Vec<String>), Error> {
        self.read(|connection| {
            let mut query = connection.prepare_cached("SELECT owner, name, alias, version FROM skill_aliases")?;
            let mut rows = query.query([])?;
            let (mut good, mut bad) = (Vec::new(), Vec::new());
            while let Some(row) = rows.next()? {
                match record(row) {
                    Ok(record) => good.push(record),
                    Err(error) => bad.push(error.to_string()),
                }
            }
            Ok((good, bad))
        })
        .await
    }

    /// Lets an alias stand for a version, whatever it stood for before.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn put_alias(&self, record: AliasRecord, key: KeyId, at: i64) -> Result<(), Error> {
        self.write(move |connection| {
            connection
                .prepare_cached(
                    "INSERT INTO skill_aliases (owner, name, alias, version, key_id, updated_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                     ON CONFLICT (owner, name, alias) DO UPDATE
                     SET version = excluded.version, key_id = excluded.key_id, updated_at = excluded.updated_at",
                )?
                .execute(params![
                    record.owner.as_str(),
                    record.name.as_str(),
                    record.alias.as_str(),
                    record.version.to_string(),
                    key.as_str(),
                    at,
                ])
                .map(drop)
        })
        .await
    }

    /// Takes an alias away.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn delete_alias(&self, owner: OwnerId, name: SkillName, alias: Alias) -> Result<(), Error> {
        self.write(move |connection| {
            connection
                .prepare_cached("DELETE FROM skill_aliases WHERE owner = ?1 AND name = ?2 AND alias = ?3")?
                .execute([owner.as_str(), name.as_str(), alias.as_str()])
                .map(drop)
        })
        .await
    }
}

fn record(row: &Row<'_>) -> rusqlite::Result<AliasRecord> {
    let text = |name| row.get_ref(name).and_then(|value| Ok(value.as_str()?));
    Ok(AliasRecord {
        owner: parsed(text("owner")?)?,
        name: parsed(text("name")?)?,
        alias: parsed(text("alias")?)?,
        version: parsed(text("version")?)?,
    })
}
