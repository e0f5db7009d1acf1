//! The table `skill_texts`: what was written about skills, apart from what is read at each start.

use rusqlite::{Connection, OptionalExtension, params};

use crate::model::{Error, SkillId};

use super::Store;

impl Store {
    /// The `SKILL.md` that a skill came with.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn skill_md(&self, id: SkillId) -> Result<Option<String>, Error> {
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT skill_md FROM skill_texts WHERE id = ?1")?
                .query_row([id.as_bytes()], |row| row.get(0))
                .optional()
        })
        .await
    }
}

pub(super) fn insert_text(connection: &Connection, id: SkillId, skill_md: Option<&str>) -> rusqlite::Result<()> {
    let Some(text) = skill_md else { return Ok(()) };
    connection
        .prepare_cached("INSERT OR REPLACE INTO skill_texts (id, skill_md) VALUES (?1, ?2)")?
        .execute(params![id.as_bytes(), text])
        .map(drop)
}

/// Whoever brings the version back sends its text again; else its digest is another.
pub(super) fn forget_text(connection: &Connection, id: SkillId) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM skill_texts WHERE id = ?1")?.execute([id.as_bytes()]).map(drop)
}
