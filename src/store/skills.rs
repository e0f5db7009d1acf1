//! The tables `skills`, `components` and `component_owners`.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::model::{Code, Digest, Error, Handler, OwnerId, Skill, SkillId, SkillSource};

use super::skill_texts::{forget_text, insert_text};
use super::{Store, json_column, parsed, to_json};

/// An uploaded component.
#[derive(Clone, Copy, Debug)]
pub struct ComponentRecord {
    /// SHA-256 of its bytes.
    pub digest: Digest,
    /// How many bytes.
    pub bytes: u64,
}

/// What belongs to a skill and lies apart from it.
#[derive(Clone, Debug)]
pub struct SkillParts {
    /// The component.
    pub component: ComponentRecord,
    /// The `SKILL.md`, where it came with one.
    pub skill_md: Option<String>,
}

/// A row of `skills`, also of a version that was deleted.
#[derive(Clone, Debug)]
pub struct SkillRecord {
    /// The skill.
    pub skill: Skill,
    /// Whether the version was deleted.
    pub deleted: bool,
}

impl Store {
    /// Every skill, also deleted ones; and the ids and problems of rows that cannot be read.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn skills(&self) -> Result<(Vec<SkillRecord>, Vec<String>), Error> {
        self.read(|connection| {
            let mut query = connection.prepare_cached("SELECT * FROM skills ORDER BY id")?;
            let mut rows = query.query([])?;
            let (mut good, mut bad) = (Vec::new(), Vec::new());
            while let Some(row) = rows.next()? {
                match skill_record(row) {
                    Ok(record) => good.push(record),
                    Err(error) => {
                        let id: Vec<u8> = row.get("id").unwrap_or_default();
                        bad.push(format!("{}: {error}", hex::encode(id)));
                    }
                }
            }
            Ok((good, bad))
        })
        .await
    }

    /// Adds a skill and its parts, unless the version exists; then gives what is there.
    ///
    /// # Errors
    ///
    /// `conflict` if what is there cannot be read; and as any write.
    pub async fn insert_skill(&self, skill: Skill, parts: SkillParts) -> Result<Option<SkillRecord>, Error> {
        let inserted = self.write_together(move |connection| {
            let address = (skill.owner.as_str(), skill.name.as_str(), skill.version.to_string());
            let existing = connection
                .prepare_cached("SELECT * FROM skills WHERE owner = ?1 AND name = ?2 AND version = ?3")?
                .query_row(address, |row| Ok(skill_record(row)))
                .optional()?;
            if existing.is_none() {
                insert_component(connection, &skill.owner, parts.component, skill.created_at)?;
                insert_row(connection, &skill)?;
                insert_text(connection, skill.id, parts.skill_md.as_deref())?;
            }
            Ok(existing)
        });
        inserted.await?.transpose().map_err(|error| {
            let detail = "this version exists, but its record is damaged; publish another version";
            Error { source: Some(error.into()), ..Error::new(Code::Conflict, detail) }
        })
    }

    /// Brings a deleted version back, under the limits of whoever registers it now.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn restore_skill(&self, skill: Skill, parts: SkillParts) -> Result<(), Error> {
        self.write_together(move |connection| {
            insert_component(connection, &skill.owner, parts.component, skill.created_at)?;
            insert_text(connection, skill.id, parts.skill_md.as_deref())?;
            connection
                .prepare_cached(
                    "UPDATE skills SET deleted_at = NULL, grants = ?2, limits = ?3, frozen_limits = ?4,
                     registered_by = ?5, frozen_network = ?6, frozen_workspace = ?7, frozen_secrets = ?8,
                     frozen_skills = ?9, pinned = ?10, retry = ?11, public = ?12, reuse = ?13, frozen_reuse = ?14,
                     source = ?15, container = ?16, digest = ?17 WHERE id = ?1",
                )?
                .execute(params![
                    skill.id.as_bytes(),
                    to_json(&skill.grants),
                    to_json(&skill.limits),
                    to_json(&skill.frozen_limits),
                    skill.registered_by.as_str(),
                    to_json(&skill.frozen_network),
                    to_json(&skill.frozen_workspace),
                    to_json(&skill.frozen_secrets),
                    to_json(&skill.frozen_skills),
                    to_json(&skill.pinned),
                    to_json(&skill.retry),
                    skill.public,
                    skill.reuse,
                    skill.frozen_reuse,
                    skill.source.as_ref().map(to_json),
                    container(&skill),
                    skill.handler.digest().as_bytes(),
                ])?;
            update_row(connection, &skill)
        })
        .await
    }

    /// Writes what may change in a skill: `enabled`, `mode`, `tags`, its approval, and how far it is.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn update_skill(&self, skill: Skill) -> Result<(), Error> {
        self.write(move |connection| update_row(connection, &skill)).await
    }

    /// Deletes a version, and forgets its component if nothing else needs it; says whether
    /// the component's file may go.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn delete_skill(&self, id: SkillId, digest: Digest, at: i64) -> Result<bool, Error> {
        self.write_together(move |connection| {
            connection
                .prepare_cached("UPDATE skills SET deleted_at = ?2, updated_at = ?2 WHERE id = ?1")?
                .execute(params![id.as_bytes(), at])?;
            forget_text(connection, id)?;
            forget_component(connection, digest)
        })
        .await
    }

    /// The digests of all components that are kept.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn components(&self) -> Result<Vec<Digest>, Error> {
        self.read(|connection| {
            let mut query = connection.prepare_cached("SELECT digest FROM components")?;
            query.query_map([], |row| row.get(0).map(Digest::from_bytes))?.collect()
        })
        .await
    }

    /// The component with this digest, if this owner uploaded it.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn owned_component(&self, owner: OwnerId, digest: Digest) -> Result<Option<ComponentRecord>, Error> {
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT bytes FROM component_owners JOIN components USING (digest)
                     WHERE owner = ?1 AND digest = ?2",
                )?
                .query_row(params![owner.as_str(), digest.as_bytes()], |row| row.get(0))
                .map(|bytes| ComponentRecord { digest, bytes })
                .optional()
        })
        .await
    }
}

impl Store {
    /// The versions of this owner that were deleted, as name and version.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn deleted_versions(&self, owner: OwnerId) -> Result<Vec<(String, String)>, Error> {
        const DELETED: &str = "SELECT name, version FROM skills WHERE owner = ?1 AND deleted_at IS NOT NULL";
        self.read(move |connection| {
            let mut query = connection.prepare_cached(DELETED)?;
            query.query_map([owner.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
        .await
    }

    /// Removes a version as if it had never been, so that something else can take its place; says
    /// whether its component's file may go.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn erase_skill(&self, id: SkillId, digest: Digest) -> Result<bool, Error> {
        self.write_together(move |connection| {
            connection.prepare_cached("DELETE FROM skills WHERE id = ?1")?.execute([id.as_bytes()])?;
            forget_text(connection, id)?;
            forget_component(connection, digest)
        })
        .await
    }

    /// Bytes of all components that this owner has uploaded and has a skill of.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn component_bytes(&self, owner: OwnerId) -> Result<u64, Error> {
        const SUM: &str = "SELECT coalesce(sum(bytes), 0) FROM component_owners JOIN components USING (digest)
                           WHERE owner = ?1";
        self.read(move |connection| connection.prepare_cached(SUM)?.query_row([owner.as_str()], |row| row.get(0))).await
    }
}

fn insert_component(
    connection: &Connection,
    owner: &OwnerId,
    component: ComponentRecord,
    at: i64,
) -> rusqlite::Result<()> {
    let digest = component.digest.as_bytes();
    connection
        .prepare_cached("INSERT OR IGNORE INTO components (digest, bytes, created_at) VALUES (?1, ?2, ?3)")?
        .execute(params![digest, component.bytes, at])?;
    connection
        .prepare_cached("INSERT OR IGNORE INTO component_owners (owner, digest) VALUES (?1, ?2)")?
        .execute(params![owner.as_str(), digest])
        .map(drop)
}

/// Takes the component from each owner that has no live skill of it, and says whether it is gone.
fn forget_component(connection: &Connection, digest: Digest) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "DELETE FROM component_owners WHERE digest = ?1 AND owner NOT IN
             (SELECT owner FROM skills WHERE digest = ?1 AND deleted_at IS NULL)",
        )?
        .execute([digest.as_bytes()])?;
    let gone = connection
        .prepare_cached(
            "DELETE FROM components WHERE digest = ?1
             AND NOT EXISTS (SELECT 1 FROM component_owners WHERE digest = ?1)",
        )?
        .execute([digest.as_bytes()])?;
    Ok(gone > 0)
}

fn insert_row(connection: &Connection, skill: &Skill) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO skills (id, owner, name, version, description, digest, schema, enabled, mode, tags,
             source_provider, grants, limits, frozen_limits, functions, imports, warnings, state, problem,
             registered_by, manifest_digest, created_at, updated_at, frozen_network,
             frozen_workspace, frozen_secrets, frozen_skills, pinned, retry, public, approval,
             reuse, frozen_reuse, source, idempotent, container)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
             ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36)",
        )?
        .execute(params![
            skill.id.as_bytes(),
            skill.owner.as_str(),
            skill.name.as_str(),
            skill.version.to_string(),
            skill.description,
            skill.handler.digest().as_bytes(),
            to_json(&skill.schema),
            skill.enabled,
            skill.mode.to_string(),
            to_json(&skill.tags),
            skill.source_provider,
            to_json(&skill.grants),
            to_json(&skill.limits),
            to_json(&skill.frozen_limits),
            to_json(&skill.functions),
            to_json(&skill.imports),
            to_json(&skill.warnings),
            skill.state.to_string(),
            skill.problem,
            skill.registered_by.as_str(),
            skill.manifest_digest.as_bytes(),
            skill.created_at,
            skill.updated_at,
            to_json(&skill.frozen_network),
            to_json(&skill.frozen_workspace),
            to_json(&skill.frozen_secrets),
            to_json(&skill.frozen_skills),
            to_json(&skill.pinned),
            to_json(&skill.retry),
            skill.public,
            to_json(&skill.approval),
            skill.reuse,
            skill.frozen_reuse,
            skill.source.as_ref().map(to_json),
            skill.idempotent,
            container(skill),
        ])
        .map(drop)
}

/// What runs in which image, of a skill that is no component.
fn container(skill: &Skill) -> Option<String> {
    match &skill.handler {
        Handler::Wasm { .. } => None,
        Handler::Container { program, .. } => Some(to_json(&**program)),
    }
}

fn handler(row: &Row<'_>) -> rusqlite::Result<Handler> {
    let digest = Digest::from_bytes(row.get("digest")?);
    let program = row.get_ref("container")?.as_str_or_null()?.map(json_column).transpose()?;
    Ok(program.map_or(Handler::Wasm { digest }, |program| Handler::Container { digest, program: Arc::new(program) }))
}

fn update_row(connection: &Connection, skill: &Skill) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE skills SET enabled = ?2, mode = ?3, tags = ?4, state = ?5, problem = ?6, functions = ?7,
             imports = ?8, warnings = ?9, updated_at = ?10, approval = ?11 WHERE id = ?1",
        )?
        .execute(params![
            skill.id.as_bytes(),
            skill.enabled,
            skill.mode.to_string(),
            to_json(&skill.tags),
            skill.state.to_string(),
            skill.problem,
            to_json(&skill.functions),
            to_json(&skill.imports),
            to_json(&skill.warnings),
            skill.updated_at,
            to_json(&skill.approval),
        ])
        .map(drop)
}

/// Where it was installed from, if it was.
fn source(row: &Row<'_>) -> rusqlite::Result<Option<SkillSource>> {
    row.get_ref("source")?.as_str_or_null()?.map(json_column).transpose()
}

pub(super) fn skill_record(row: &Row<'_>) -> rusqlite::Result<SkillRecord> {
    let text = |name| row.get_ref(name).and_then(|value| Ok(value.as_str()?));
    let deleted: Option<i64> = row.get("deleted_at")?;
    let skill = Skill {
        id: SkillId::from_bytes(row.get("id")?),
        owner: parsed(text("owner")?)?,
        name: parsed(text("name")?)?,
        version: parsed(text("version")?)?,
        description: row.get("description")?,
        handler: handler(row)?,
        schema: json_column(text("schema")?)?,
        enabled: row.get("enabled")?,
        mode: parsed(text("mode")?)?,
        tags: json_column(text("tags")?)?,
        source_provider: row.get("source_provider")?,
        source: source(row)?,
        public: row.get("public")?,
        reuse: row.get("reuse")?,
        frozen_reuse: row.get("frozen_reuse")?,
        idempotent: row.get("idempotent")?,
        approval: json_column(text("approval")?)?,
        grants: json_column(text("grants")?)?,
        limits: json_column(text("limits")?)?,
        frozen_limits: json_column(text("frozen_limits")?)?,
        frozen_network: json_column(text("frozen_network")?)?,
        frozen_workspace: json_column(text("frozen_workspace")?)?,
        frozen_secrets: json_column(text("frozen_secrets")?)?,
        frozen_skills: json_column(text("frozen_skills")?)?,
        pinned: json_column(text("pinned")?)?,
        retry: json_column(text("retry")?)?,
        functions: json_column(text("functions")?)?,
        imports: json_column(text("imports")?)?,
        warnings: json_column(text("warnings")?)?,
        state: parsed(text("state")?)?,
        problem: row.get("problem")?,
        registered_by: parsed(text("registered_by")?)?,
        manifest_digest: Digest::from_bytes(row.get("manifest_digest")?),
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    };
    Ok(SkillRecord { skill, deleted: deleted.is_some() })
}
