//! Skills, executions and keys as they go over the wire (camelCase, times RFC 3339).

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::model::{
    self, Alias, Approval, Ceilings, Clock, Decision, Denial, Digest, EarlierAttempt, Execution, ExecutionId, Function,
    Grants, Key, KeyId, Limits, LogLevel, Mode, OwnerId, Retry, RunError, Schemas, Scope, Skill, SkillId, SkillName,
    SkillSource, SkillState, Status, Tag, Usage,
};

use super::{bodies, shapes};

/// One version of a skill.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Skill)]
pub(crate) struct SkillBody<'a> {
    /// Its id.
    #[schema(value_type = uuid::Uuid)]
    id: SkillId,
    /// Whose it is.
    #[schema(value_type = String)]
    owner: &'a OwnerId,
    /// Its name, unique with owner and version.
    #[schema(value_type = String)]
    name: &'a SkillName,
    /// Its version (SemVer 2.0).
    #[schema(value_type = String)]
    version: &'a semver::Version,
    /// What it does.
    description: &'a str,
    /// SHA-256 of its component.
    #[schema(schema_with = shapes::digest)]
    digest: Digest,
    /// How it is carried out.
    handler: String,
    /// What goes in and out.
    #[schema(value_type = shapes::Schemas)]
    schema: &'a Schemas,
    /// How far it is.
    #[schema(value_type = shapes::SkillState)]
    state: SkillState,
    /// Why it is not ready.
    #[schema(required = true)]
    problem: Option<&'a str>,
    /// Whether it may be run.
    enabled: bool,
    /// Whether and how it is offered.
    #[schema(value_type = shapes::Mode)]
    mode: Mode,
    /// Its labels.
    #[schema(value_type = Vec<String>)]
    tags: &'a [Tag],
    /// Words that stand for this version, as in `name@stable`.
    aliases: Vec<&'a str>,
    /// Where it came from.
    source_provider: &'a str,
    /// The same exactly, if it was installed and not uploaded.
    #[schema(required = true, value_type = Option<shapes::SkillSource>)]
    source: Option<&'a SkillSource>,
    /// Whether it is told to those without a key.
    public: bool,
    /// Whether a run that a crash interrupted runs again.
    idempotent: bool,
    /// Whether it asks to keep its instances between calls.
    reuse: bool,
    /// Whether somebody has to accept it before it may run (`pending`), or did.
    #[schema(schema_with = shapes::approval)]
    approval: &'static str,
    /// The key that accepted it.
    #[schema(required = true, value_type = Option<String>)]
    approved_by: Option<&'a KeyId>,
    /// When.
    #[schema(required = true, format = DateTime)]
    approved_at: Option<String>,
    /// The key that registered it.
    #[schema(value_type = String)]
    registered_by: &'a KeyId,
    /// What it asks to touch.
    #[schema(value_type = shapes::Grants)]
    grants: &'a Grants,
    /// What it may use up, under the ceilings of the key that registered it.
    #[schema(value_type = shapes::Limits)]
    limits: Limits,
    /// When it is tried again.
    #[schema(value_type = bodies::RetryPolicy)]
    retry: &'a Retry,
    /// Its callables.
    #[schema(value_type = Vec<shapes::Function>)]
    functions: &'a [Function],
    /// What its component imports, as `namespace:package/interface@version`.
    imports: &'a [String],
    /// What its author should know.
    warnings: &'a [String],
    /// When it was registered.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it was last changed.
    #[schema(format = DateTime)]
    updated_at: String,
}

/// A skill (API.md §4) with the words that stand for it.
pub(crate) fn skill(skill: &Skill, aliases: &[Alias]) -> Value {
    let (approved_by, approved_at) = match &skill.approval {
        Approval::Approved { by, at } => (Some(by), Some(Clock::rfc3339(*at))),
        Approval::None | Approval::Pending => (None, None),
    };
    let body = SkillBody {
        id: skill.id,
        owner: &skill.owner,
        name: &skill.name,
        version: &skill.version,
        description: &skill.description,
        digest: skill.handler.digest(),
        handler: skill.handler.to_text(),
        schema: &skill.schema,
        state: skill.state,
        problem: skill.problem.as_deref(),
        enabled: skill.enabled,
        mode: skill.mode,
        tags: &skill.tags,
        aliases: aliases.iter().map(Alias::as_str).collect(),
        source_provider: &skill.source_provider,
        source: skill.source.as_ref(),
        public: skill.public,
        idempotent: skill.idempotent,
        reuse: skill.reuse,
        approval: skill.approval.as_str(),
        approved_by,
        approved_at,
        registered_by: &skill.registered_by,
        grants: &skill.grants,
        limits: skill.limits,
        retry: &skill.retry,
        functions: &skill.functions,
        imports: &skill.imports,
        warnings: &skill.warnings,
        created_at: Clock::rfc3339(skill.created_at),
        updated_at: Clock::rfc3339(skill.updated_at),
    };
    serde_json::to_value(body).unwrap_or_default()
}

/// One run of a skill.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Execution)]
pub(crate) struct ExecutionBody<'a> {
    /// Its id.
    #[schema(value_type = uuid::Uuid)]
    id: ExecutionId,
    /// Whose it is.
    #[schema(value_type = String)]
    owner: &'a OwnerId,
    /// The skill as `name@version`.
    skill_id: &'a str,
    /// The function that ran.
    function: &'a str,
    /// SHA-256 of the component that ran.
    #[schema(schema_with = shapes::digest)]
    digest: Digest,
    /// Where it stands.
    #[schema(schema_with = shapes::status)]
    status: Status,
    /// What came out, as the guest wrote it; null also once it is no longer kept.
    #[schema(value_type = Value)]
    output: Option<&'a RawValue>,
    /// What it printed.
    stdout: &'a str,
    /// What it printed to stderr.
    stderr: &'a str,
    /// Whether stdout was cut at its limit.
    stdout_truncated: bool,
    /// Whether stderr was cut at its limit.
    stderr_truncated: bool,
    /// What it logged.
    #[schema(value_type = Vec<bodies::LogLine>)]
    log: Vec<LogLine<'a>>,
    /// Whether some of the log was not kept.
    log_truncated: bool,
    /// Exit code of a command; null where the skill is none.
    #[schema(required = true)]
    exit_code: Option<i32>,
    /// Whether the guest was stopped from outside.
    killed: bool,
    /// Why it did not succeed.
    #[schema(required = true, value_type = Option<bodies::RunError>)]
    error: Option<&'a RunError>,
    /// What it was not given.
    #[schema(value_type = Vec<bodies::Denial>)]
    denials: &'a [Denial],
    /// How often it was tried.
    attempts: u32,
    /// The attempts before the last one; absent if there were none.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = Option<Vec<bodies::EarlierAttempt>>)]
    earlier_attempts: &'a [EarlierAttempt],
    /// From the request to the end, in milliseconds.
    #[schema(required = true)]
    duration_ms: Option<f64>,
    /// What interceptors did to it; absent if nothing, and in lists.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = Option<Vec<bodies::Decision>>)]
    interceptors: &'a [Decision],
    /// What it used.
    #[schema(value_type = bodies::Usage)]
    usage: Usage,
    /// The execution that called it.
    #[schema(required = true, value_type = Option<uuid::Uuid>)]
    parent_id: Option<ExecutionId>,
    /// The caller's session.
    #[schema(required = true)]
    session_id: Option<&'a str>,
    /// The way the request came in.
    door: &'a str,
    /// The key that asked.
    #[schema(value_type = String)]
    key_id: &'a KeyId,
    /// When the request came in.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it started.
    #[schema(required = true, format = DateTime)]
    started_at: Option<String>,
    /// When it ended.
    #[schema(required = true, format = DateTime)]
    finished_at: Option<String>,
    /// Only where output, stdout and stderr are no longer kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_expired: Option<bool>,
    /// What is left of the output: redacted and cut, so text and not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_copy: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_bytes: Option<u64>,
    /// In the answer to the request that asked for it: limits that were cut to a ceiling. Absent if there are none.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = Option<Vec<String>>)]
    warnings: &'a [String],
}

/// A line that the guest logged.
#[derive(Serialize)]
struct LogLine<'a> {
    at: String,
    level: LogLevel,
    context: &'a str,
    message: &'a str,
}

impl<'a> LogLine<'a> {
    fn of(line: &'a model::LogLine) -> Self {
        Self { at: Clock::rfc3339(line.at), level: line.level, context: &line.context, message: &line.message }
    }
}

/// An execution (SPEC §5, API.md §5) as JSON text.
pub(crate) fn execution(execution: &Execution) -> String {
    execution_with(execution, &[])
}

/// The same, with what whoever asked for it should know.
pub(crate) fn execution_with(execution: &Execution, warnings: &[String]) -> String {
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
        log: execution.said.log.iter().map(LogLine::of).collect(),
        log_truncated: execution.said.log_truncated,
        exit_code: execution.exit_code,
        killed: execution.killed(),
        error: execution.error.as_ref(),
        denials: &execution.denials,
        attempts: execution.attempts,
        earlier_attempts: &execution.earlier,
        interceptors: &execution.interceptors,
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
        warnings,
    };
    // What stands around the output and the streams has about a thousand bytes.
    let output = body.output.map_or(0, |output| output.get().len());
    let mut text = Vec::with_capacity(1024 + output + streams.stdout.len() + streams.stderr.len());
    let written = serde_json::to_writer(&mut text, &body);
    written.ok().and_then(|()| String::from_utf8(text).ok()).unwrap_or_default()
}

/// A key.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Key)]
pub(crate) struct KeyBody<'a> {
    /// Its id.
    #[schema(value_type = String)]
    id: &'a KeyId,
    /// The namespace it acts in.
    #[schema(value_type = String)]
    owner: &'a OwnerId,
    /// What people call it.
    name: &'a str,
    /// What it may be used for.
    #[schema(schema_with = shapes::scopes)]
    scopes: &'a [Scope],
    /// The only skills it may see and run; null for all.
    #[schema(required = true, value_type = Option<Vec<String>>)]
    skills: Option<&'a [SkillName]>,
    /// The most it may grant and use.
    #[schema(value_type = shapes::Ceilings)]
    ceilings: &'a Ceilings,
    /// When it was made.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it ends.
    #[schema(required = true, format = DateTime)]
    expires_at: Option<String>,
    /// When it was revoked.
    #[schema(required = true, format = DateTime)]
    revoked_at: Option<String>,
    /// Until when the secret before the last rotation works, or did; null if it ended at once.
    #[schema(required = true, format = DateTime)]
    grace_until: Option<String>,
    /// The secret: in the answer to making or rotating a key, and nowhere else.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    secret: Option<&'a str>,
}

/// A key; with its secret only where that was made just now.
pub(crate) fn key(key: &Key, secret: Option<&str>) -> Value {
    let time = |ms: Option<i64>| ms.map(Clock::rfc3339);
    let body = KeyBody {
        id: &key.id,
        owner: &key.owner,
        name: &key.name,
        scopes: &key.scopes,
        skills: key.skills.as_deref(),
        ceilings: &key.ceilings,
        created_at: Clock::rfc3339(key.created_at),
        expires_at: time(key.expires_at),
        revoked_at: time(key.revoked_at),
        grace_until: time(key.grace_until),
        secret,
    };
    serde_json::to_value(body).unwrap_or_default()
}
