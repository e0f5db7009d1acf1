//! The records of executions: what is open, what has ended (together: the view
//! `skill_executions`), and `execution_results`.

mod applying;
mod beside;
mod columns;
mod counts;
mod recording;
pub(super) mod row;
mod writing;

use std::sync::Arc;

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use crate::model::{Digest, Error, Execution, ExecutionId, InterceptorId, KeyId, OwnerId, SkillName, Status};

use super::{Store, to_json};

pub(super) use self::applying::{apply, recover};
pub(super) use self::columns::ROW;
pub(super) use self::counts::Counts;
pub(super) use self::recording::{integer, queue_us};
pub(super) use self::writing::open;

use self::columns::{at_end, at_start, open_as_ended};

/// What is kept of an execution's arguments.
#[derive(Clone, Debug)]
pub struct ArgsRecord {
    /// SHA-256 of their text.
    pub digest: Digest,
    /// Length of their text in bytes.
    pub bytes: u64,
    /// The redacted, capped copy.
    pub copy: String,
}

/// An execution at its end.
#[derive(Clone, Debug)]
pub struct FinishedExecution {
    /// The execution as it stands; its status is final.
    pub execution: Arc<Execution>,
    /// What went in.
    pub args: Arc<ArgsRecord>,
    /// SHA-256 of the output's text.
    pub output_digest: Option<Digest>,
    /// The redacted, capped copy of the output.
    pub output_copy: Option<String>,
    /// Whether its key has a budget, for which it counts.
    pub counts: bool,
    /// The webhooks that are to be told of its end.
    pub told: Vec<InterceptorId>,
    /// Whether its request may still be there, which goes then.
    pub waited: bool,
}

/// Which executions to list.
#[derive(Clone, Debug, Default)]
pub struct ExecutionFilter {
    /// Only this owner's.
    pub owner: Option<OwnerId>,
    /// Only what this key started.
    pub key: Option<KeyId>,
    /// Only of this skill: a name, or `name@version`.
    pub skill: Option<String>,
    /// Only of skills with one of these names.
    pub names: Option<Vec<SkillName>>,
    /// Only with this status.
    pub status: Option<Status>,
    /// Only of this session.
    pub session: Option<String>,
    /// Only those that came in at or after this time, in milliseconds since the Unix epoch.
    pub since: Option<i64>,
    /// Only older ones than this.
    pub before: Option<ExecutionId>,
    /// Most to give.
    pub limit: u32,
}

/// Some executions, newest first.
#[derive(Clone, Debug)]
pub struct ExecutionPage {
    /// The executions, without their outputs and streams.
    pub executions: Vec<Execution>,
    /// Whether there are older ones.
    pub more: bool,
    /// How many match in all.
    pub total: u64,
}

impl Store {
    /// One execution with its result, if it is this owner's, or anybody's where no owner is given.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn execution(&self, id: ExecutionId, owner: Option<OwnerId>) -> Result<Option<Execution>, Error> {
        const OPEN: &str = concat!(
            "SELECT ",
            at_start!(),
            ", ",
            open_as_ended!(),
            " FROM open_executions
             WHERE place = ?1 AND id = ?2 AND (?3 IS NULL OR owner = ?3)"
        );
        const ENDED: &str =
            "SELECT e.*, r.*, (SELECT decisions FROM interceptions i WHERE i.execution_id = e.id) AS interceptors
                             FROM ended_executions e LEFT JOIN execution_results r ON execution_id = id
                             WHERE id = ?1 AND (?2 IS NULL OR e.owner = ?2)";
        self.read_settled(move |connection| {
            let owner = owner.as_ref().map(OwnerId::as_str);
            // In this order: one that ends between the two is found by the second.
            let mut open = connection.prepare_cached(OPEN)?;
            let found = open.query_row(params![place(id), id.as_bytes(), owner], row::execution).optional()?;
            if found.is_some() {
                return Ok(found);
            }
            let mut ended = connection.prepare_cached(ENDED)?;
            ended.query_row(params![id.as_bytes(), owner], row::with_result).optional()
        })
        .await
    }

    /// Executions, newest first.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn executions(&self, filter: ExecutionFilter) -> Result<ExecutionPage, Error> {
        self.read_settled(move |connection| {
            let conditions = Conditions::of(&filter);
            let total = count(connection, &conditions, &filter)?;
            let mut executions = page(connection, conditions, &filter)?;
            let more = executions.len() > filter.limit as usize;
            executions.truncate(filter.limit as usize);
            Ok(ExecutionPage { executions, more, total })
        })
        .await
    }
}

fn count(connection: &Connection, conditions: &Conditions, filter: &ExecutionFilter) -> rusqlite::Result<u64> {
    let Conditions { ended, open, values } = conditions;
    let known = counts::known(connection, filter)?;
    // Both with all conditions, so that they take the same values.
    let ended = if known.is_some() { format!("false AND {ended}") } else { ended.clone() };
    let text = format!(
        "SELECT (SELECT count(*) FROM ended_executions WHERE {ended})
              + (SELECT count(*) FROM open_executions WHERE {open})"
    );
    let counted: u64 = connection.prepare_cached(&text)?.query_row(params_from_iter(values), |row| row.get(0))?;
    Ok(known.unwrap_or(0) + counted)
}

fn page(connection: &Connection, conditions: Conditions, filter: &ExecutionFilter) -> rusqlite::Result<Vec<Execution>> {
    let (text, values) = page_text(conditions, filter);
    let mut query = connection.prepare_cached(&text)?;
    query.query_map(params_from_iter(values), row::execution)?.collect()
}

/// The question for one execution more than the filter asks for. It is not put to the view:
/// only so SQLite walks the index and stops at the limit.
fn page_text(conditions: Conditions, filter: &ExecutionFilter) -> (String, Vec<Sql>) {
    let Conditions { ended, open, mut values } = conditions;
    let before = filter.before.map_or([0xff; 16], |id| *id.as_bytes());
    values.push(Sql::Blob(before.to_vec()));
    let before = values.len();
    values.push(Sql::Integer(i64::from(filter.limit) + 1));
    let limit = values.len();
    let (start, end, not_ended) = (at_start!(), at_end!(), open_as_ended!());
    let text = format!(
        "SELECT {start}, {end} FROM ended_executions WHERE {ended} AND id < ?{before} UNION ALL
         SELECT {start}, {not_ended} FROM open_executions WHERE {open} AND id < ?{before}
         ORDER BY id DESC LIMIT ?{limit}"
    );
    (text, values)
}

/// Where an open execution has its place in the table: the random bytes of its id before the
/// others, so that rows come and go in the same few pages.
pub(super) fn place(id: ExecutionId) -> i64 {
    let bytes = id.as_bytes();
    let mut last = [0; 8];
    last.copy_from_slice(&bytes[8..]);
    i64::from_be_bytes(last).rotate_left(32)
}

/// A filter as SQL.
struct Conditions {
    /// For `ended_executions`; at least one condition.
    ended: String,
    /// For `open_executions`.
    open: String,
    /// The values of both, by their numbers.
    values: Vec<Sql>,
}

impl Conditions {
    fn of(filter: &ExecutionFilter) -> Self {
        let (mut parts, mut values) = (vec!["true".to_owned()], Vec::new());
        let mut add = |part: &str, value| {
            values.push(value);
            parts.push(part.replace('?', &format!("?{}", values.len())));
        };
        let text = |text: &dyn ToString| Sql::Text(text.to_string());
        if let Some(owner) = &filter.owner {
            add("owner = ?", text(owner));
        }
        if let Some(session) = &filter.session {
            add("session_id = ?", text(session));
        }
        if let Some(key) = &filter.key {
            add("key_id = ?", text(key));
        }
        if let Some(names) = &filter.names {
            let within = "substr(skill, 1, instr(skill, '@') - 1) IN (SELECT value FROM json_each(?))";
            add(within, Sql::Text(to_json(names)));
        }
        if let Some(skill) = &filter.skill {
            let whole = skill.contains('@');
            add(if whole { "skill = ?" } else { "substr(skill, 1, instr(skill, '@') - 1) = ?" }, text(skill));
        }
        if let Some(since) = filter.since {
            add("created_at >= ?", Sql::Integer(since));
        }
        if let Some(status) = filter.status {
            add("status = ?", text(&status));
        }
        let all = parts.join(" AND ");
        // Of those that have ended there may be millions, and none of them is open.
        let open = filter.status.is_some_and(|status| matches!(status, Status::Pending | Status::Running));
        let ended = match filter.status {
            _ if open => "false".to_owned(),
            // So that the index of those is known to do.
            Some(status) if status != Status::Success => format!("{all} AND status <> 'success'"),
            _ => all.clone(),
        };
        Self { ended, open: all, values }
    }
}

#[cfg(test)]
pub(super) mod tests;
