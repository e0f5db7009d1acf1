//! Skills, executions and keys as they go over the wire (camelCase, times RFC 3339).

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::model::{
    Clock, Denial, Digest, Execution, ExecutionId, Key, KeyId, OwnerId, RunError, Scope, Skill, Status, Usage,
};

/// A skill (API.md §4).
pub(crate) fn skill(skill: &Skill) -> Value {
    json!({
        "id": skill.id, "owner": skill.owner, "name": skill.name, "version": skill.version,
        "description": skill.description, "digest": skill.handler.digest(), "handler": "wasm",
        "schema": skill.schema, "state": skill.state, "problem": skill.problem, "enabled": skill.enabled,
        "mode": skill.mode, "tags": skill.tags, "aliases": [], "sourceProvider": skill.source_provider,
        "public": false, "registeredBy": skill.registered_by, "grants": skill.grants, "limits": skill.limits,
        "retry": { "maxRetries": 0 }, "functions": skill.functions, "imports": skill.imports,
        "warnings": skill.warnings, "createdAt": Clock::rfc3339(skill.created_at),
        "updatedAt": Clock::rfc3339(skill.updated_at),
    })
}

/// An execution as it goes out. The output is the guest's own text.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExecutionBody<'a> {
    id: ExecutionId,
    owner: &'a OwnerId,
    skill_id: &'a str,
    function: &'a str,
    digest: Digest,
    status: Status,
    output: Option<&'a RawValue>,
    stdout: &'a str,
    stderr: &'a str,
    stdout_truncated: bool,
    stderr_truncated: bool,
    exit_code: Option<i32>,
    killed: bool,
    error: Option<&'a RunError>,
    denials: &'a [Denial],
    attempts: u32,
    duration_ms: Option<f64>,
    usage: Usage,
    parent_id: Option<ExecutionId>,
    session_id: Option<&'a str>,
    door: &'a str,
    key_id: &'a KeyId,
    created_at: String,
    started_at: Option<String>,
    finished_at: Option<String>,
    /// Only where output, stdout and stderr are no longer kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_expired: Option<bool>,
    /// What is left of the output: redacted and cut, so text and not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_copy: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_bytes: Option<u64>,
}

/// An execution (SPEC §5, API.md §5) as JSON text.
pub(crate) fn execution(execution: &Execution) -> String {
    let (streams, expired) = (&execution.streams, execution.expired.as_ref());
    let time = |ms: Option<i64>| ms.map(Clock::rfc3339);
    #[expect(clippy::cast_precision_loss, reason = "milliseconds with three digits")]
    let duration_ms = execution.duration_us.map(|us| us as f64 / 1000.0);
    let body = ExecutionBody {
        id: execution.id,
        owner: &execution.owner,
        skill_id: &execution.skill_address,
        function: &execution.function,
        digest: execution.digest,
        status: execution.status,
        output: execution.output.as_deref(),
        stdout: &streams.stdout,
        stderr: &streams.stderr,
        stdout_truncated: streams.stdout_truncated,
        stderr_truncated: streams.stderr_truncated,
        exit_code: execution.exit_code,
        killed: execution.killed(),
        error: execution.error.as_ref(),
        denials: &execution.denials,
        attempts: execution.attempts,
        duration_ms,
        usage: execution.usage,
        parent_id: execution.parent_id,
        session_id: execution.session_id.as_deref(),
        door: execution.door.as_str(),
        key_id: &execution.key_id,
        created_at: Clock::rfc3339(execution.created_at),
        started_at: time(execution.started_at),
        finished_at: time(execution.finished_at),
        result_expired: expired.map(|_| true),
        output_copy: expired.and_then(|expired| expired.output_copy.as_deref()),
        output_bytes: expired.and_then(|expired| expired.output_bytes),
    };
    serde_json::to_string(&body).unwrap_or_default()
}

/// A key, without its secret.
pub(crate) fn key(key: &Key) -> Value {
    let time = |ms: Option<i64>| ms.map(Clock::rfc3339);
    let scopes: Vec<_> = key.scopes.iter().map(|scope: &Scope| scope.as_str()).collect();
    json!({
        "id": key.id, "owner": key.owner, "name": key.name, "scopes": scopes, "skills": key.skills,
        "ceilings": key.ceilings, "createdAt": Clock::rfc3339(key.created_at),
        "expiresAt": time(key.expires_at), "revokedAt": time(key.revoked_at),
    })
}
