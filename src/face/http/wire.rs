//! Skills, executions and keys as they go over the wire (camelCase, times RFC 3339).

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::model::{Clock, Execution, Key, Scope, Skill};

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

/// An execution (SPEC §5, API.md §5). The output goes out as the guest wrote it.
pub(crate) fn execution(execution: &Execution) -> String {
    let streams = &execution.streams;
    let time = |ms: Option<i64>| ms.map(Clock::rfc3339);
    #[expect(clippy::cast_precision_loss, reason = "milliseconds with three digits")]
    let duration = execution.duration_us.map(|us| us as f64 / 1000.0);
    let mut text = json!({
        "id": execution.id, "owner": execution.owner, "skillId": execution.skill_address,
        "function": execution.function, "digest": execution.digest, "status": execution.status,
        "stdout": streams.stdout, "stderr": streams.stderr, "stdoutTruncated": streams.stdout_truncated,
        "stderrTruncated": streams.stderr_truncated, "exitCode": execution.exit_code,
        "killed": execution.killed(), "error": execution.error, "denials": execution.denials,
        "attempts": execution.attempts, "durationMs": duration, "usage": execution.usage,
        "parentId": execution.parent_id, "sessionId": execution.session_id, "door": execution.door,
        "keyId": execution.key_id, "createdAt": Clock::rfc3339(execution.created_at),
        "startedAt": time(execution.started_at), "finishedAt": time(execution.finished_at),
    })
    .to_string();
    let output = execution.output.as_deref().map_or("null", RawValue::get);
    text.pop();
    text.push_str(",\"output\":");
    text.push_str(output);
    text.push('}');
    text
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
