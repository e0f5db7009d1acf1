//! What goes over the wire as a whole, in the OpenAPI document: manifest, forms, pages. As in
//! `shapes`, of which they are made, nothing here is ever built.

#![expect(dead_code, reason = "described, never built")]

use serde_json::Value;
use utoipa::ToSchema;

use super::shapes::{Grants, LimitsPatch, Mode, code};
use super::wire::{ExecutionBody, KeyBody, SkillBody};

/// A skill's manifest. `handlerCode` stands for `handler`, `apiKeyId` for `owner`. What this
/// version has no effect for is refused with `not_supported`.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    /// Name; may come from the query or the component instead.
    name: Option<String>,
    /// Version (SemVer 2.0); likewise.
    version: Option<String>,
    /// What the skill does; at most 1024 characters.
    description: Option<String>,
    /// A JSON Schema for the input, or `{input, output}`.
    schema: Option<Value>,
    /// How it runs: `wasm`, `sha256:…` of a component that was uploaded before, or a command in an
    /// image: `docker://image command…`, or `{"image", "command"}`.
    #[schema(value_type = Option<Value>)]
    handler: Option<String>,
    /// Whether it may run.
    enabled: Option<bool>,
    /// Whether and how it is offered.
    mode: Option<Mode>,
    /// Labels.
    #[schema(required = false)]
    tags: Vec<String>,
    /// Where it came from.
    source_provider: Option<String>,
    /// What it asks to touch.
    #[schema(required = false)]
    grants: Grants,
    /// What it may use up.
    #[schema(required = false)]
    limits: LimitsPatch,
    /// When it is tried again.
    #[schema(required = false)]
    retry: RetryPolicy,
    /// Whether running it twice is as good as once: a run that a crash interrupted runs again.
    #[schema(required = false)]
    idempotent: bool,
    /// Whether instances may be used again.
    #[schema(required = false)]
    reuse: bool,
    /// Whether it is told to those without a key.
    #[schema(required = false)]
    public: bool,
    /// For whom it is registered; admin keys only.
    owner: Option<String>,
    /// OmniRoute's name for `limits.cpuPercent`.
    cpu_limit: Option<u64>,
    /// OmniRoute's name for `limits.memoryMb`.
    memory_limit: Option<u64>,
    /// OmniRoute's name for `limits.timeoutMs`.
    timeout: Option<u64>,
    /// OmniRoute's name for the network grant `public` or none.
    network_enabled: Option<bool>,
    /// OmniRoute's name for the workspace grant `read` or `write`.
    read_only: Option<bool>,
}

/// When a skill is tried again.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[serde(deny_unknown_fields)]
pub(super) struct RetryPolicy {
    /// How often at most.
    #[schema(required = false)]
    max_retries: u32,
    /// After what.
    on: Option<Vec<RetryOn>>,
    /// How long to wait before the first retry, in milliseconds.
    backoff_ms: Option<u64>,
}

/// A class of failures after which a skill may be tried again.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(super) enum RetryOn {
    /// The attempt ran out of time.
    Timeout,
    /// The guest trapped.
    Trap,
    /// A resource was lost.
    Unavailable,
}

/// An attempt that failed and was followed by another.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct EarlierAttempt {
    /// Which, from 1.
    attempt: u32,
    /// Why it failed.
    #[schema(schema_with = code)]
    code: String,
    /// The same in words.
    message: String,
    /// Fuel that it used.
    fuel: u64,
}

/// What an interceptor did to an execution.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Decision {
    /// Which one.
    name: String,
    /// Whether it stands around the runs of every owner.
    global: bool,
    /// On which side of the run.
    phase: Phase,
    /// What it did. One in this process that changed nothing is not listed.
    action: DecisionAction,
    /// How long that took, in milliseconds.
    duration_ms: f64,
    /// Why it gave no answer that could be used, in a word.
    problem: Option<String>,
    /// SHA-256 of the arguments that it put in place of those before.
    #[schema(required = false, schema_with = super::shapes::digest)]
    args_digest: String,
}

/// On which side of a run an interceptor stands.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(super) enum Phase {
    /// Before anything of the guest starts.
    Before,
    /// After it has ended.
    After,
}

/// What an interceptor came to.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(super) enum DecisionAction {
    /// It changed nothing.
    Continue,
    /// It changed arguments, or what came out.
    Replace,
    /// It gave the output, and the skill did not run.
    Answer,
    /// It refused.
    Reject,
    /// It gave no answer that could be used, and the run was refused.
    Failed,
    /// It gave none, and the run went on, or was over.
    Skipped,
}

/// Why a run did not succeed.
#[derive(ToSchema)]
pub(super) struct RunError {
    /// The stable name of the failure. Match on this.
    #[schema(schema_with = code)]
    code: String,
    /// What happened; where a limit bit, its value and its setting.
    message: String,
    /// More, for programs.
    #[schema(required = false)]
    detail: Value,
}

/// Something a guest asked for and was not given.
#[derive(ToSchema)]
pub(super) struct Denial {
    /// The import that was called.
    import: String,
    /// What it asked for.
    asked: String,
    /// The grant that would have allowed it.
    grant: String,
    /// The command that gives that grant.
    fix: String,
}

/// A line that a guest logged.
#[derive(ToSchema)]
pub(super) struct LogLine {
    /// When.
    #[schema(format = DateTime)]
    at: String,
    /// `trace`, `debug`, `info`, `warn`, `error` or `critical`.
    level: String,
    /// The guest's word for the part that says it.
    context: String,
    /// What it says.
    message: String,
}

/// What a run used.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Usage {
    /// Fuel of all attempts.
    fuel: u64,
    /// Most memory at one time, in bytes.
    memory_peak_bytes: u64,
    /// Time spent waiting for a free place, in milliseconds.
    queue_ms: f64,
    /// Bytes sent and received through the egress guard.
    egress_bytes: u64,
}

/// The bytes of a WebAssembly component.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
pub(super) struct Component(Vec<u8>);

/// A zip of a skill folder: one `SKILL.md`, at the top or in the one folder there, and one `.wasm` file
/// beside it.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
pub(super) struct Archive(Vec<u8>);

/// The parts of a multipart upload.
#[derive(ToSchema)]
pub(super) struct UploadForm {
    /// The manifest, as JSON text.
    #[schema(required = false)]
    manifest: Manifest,
    /// The `SKILL.md` with the manifest in it, instead.
    #[schema(rename = "skillMd", required = false)]
    skill_md: String,
    /// The component.
    component: Component,
}

/// One page of skills.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct SkillPage<'a> {
    /// The skills.
    skills: Vec<SkillBody<'a>>,
    /// Where the next page begins; null on the last.
    #[schema(required = true)]
    next_cursor: Option<String>,
    /// How many there are on all pages.
    total: u64,
}

/// One page of the versions of a skill, highest first.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct VersionPage<'a> {
    /// The versions, each as the skill that it is.
    versions: Vec<SkillBody<'a>>,
    /// Where the next page begins; null on the last.
    #[schema(required = true)]
    next_cursor: Option<String>,
    /// How many there are on all pages.
    total: u64,
}

/// One page of executions, newest first.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct ExecutionPage<'a> {
    /// The executions.
    executions: Vec<ExecutionBody<'a>>,
    /// Where the next page begins; null on the last.
    #[schema(required = true)]
    next_cursor: Option<String>,
    /// How many there are on all pages.
    total: u64,
}

/// One page of keys, oldest first.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct KeyPage<'a> {
    /// The keys, without their secrets.
    keys: Vec<KeyBody<'a>>,
    /// Where the next page begins; null on the last.
    #[schema(required = true)]
    next_cursor: Option<String>,
    /// How many there are on all pages.
    total: u64,
}
