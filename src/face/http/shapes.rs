//! The shapes of the domain's words in the OpenAPI document.
//!
//! The domain knows no HTTP, so its types are described here and not where they are
//! declared. Tests keep the two alike: what serde reads must be what is described.

#![expect(dead_code, reason = "described, never built")]

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};

use crate::model::{Code, Scope, Status};

/// One of these words.
fn words(words: impl IntoIterator<Item = &'static str>) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::new(Type::String)).enum_values(Some(words))
}

/// Every code (docs/errors.md).
pub(super) fn code() -> Object {
    words(Code::ALL.iter().map(|code| code.as_str())).build()
}

/// A digest as OCI writes it.
pub(super) fn digest() -> Object {
    let text = ObjectBuilder::new().schema_type(SchemaType::new(Type::String));
    text.pattern(Some("^sha256:[0-9a-f]{64}$")).build()
}

pub(super) fn status() -> Object {
    words(Status::ALL.iter().map(|status| status.as_str())).build()
}

pub(super) fn approval() -> Object {
    words(["none", "pending", "approved"]).build()
}

pub(super) fn interceptor_kind() -> Object {
    words(["wasm", "webhook", "builtin"]).build()
}

pub(super) fn change_kind() -> Object {
    words(["added", "removed", "changed"]).build()
}

fn scope() -> Object {
    words(Scope::ALL.iter().map(|scope| scope.as_str())).build()
}

pub(super) fn scopes() -> utoipa::openapi::schema::Array {
    utoipa::openapi::schema::Array::new(scope())
}

/// Whether and how a skill is offered.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(super) enum Mode {
    /// Offered and runnable.
    On,
    /// Runnable; offered to a model only when it is relevant.
    Auto,
    /// Not runnable.
    Off,
}

/// How far a skill is from being runnable.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(super) enum SkillState {
    /// Being made ready.
    Compiling,
    /// Can run.
    Ready,
    /// Cannot be made ready; `problem` says why.
    Failed,
    /// Needs something that is not there; `problem` says what.
    Unavailable,
}

/// Where a skill was installed from.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct SkillSource {
    /// `url`, `oci` or `git`.
    kind: String,
    /// The source as it was named, without a URL's query.
    from: String,
    /// The digest of the manifest that the registry had under that name.
    #[schema(required = false, schema_with = digest)]
    manifest_digest: String,
    /// The folder of the repository that was asked for.
    skill: Option<String>,
    /// The branch, tag or commit that was asked for.
    #[schema(rename = "ref")]
    reference: Option<String>,
    /// The digest of the component.
    #[schema(schema_with = digest)]
    digest: String,
    /// The digest of the `SKILL.md`, if it came as a skill folder.
    #[schema(required = false, schema_with = digest)]
    skill_md_digest: String,
}

/// How far a skill may go in its owner's workspace.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(super) enum Access {
    /// It sees an empty directory.
    None,
    /// It may read.
    Read,
    /// It may read and write.
    Write,
}

/// JSON Schemas, draft 2020-12 unless they say otherwise.
#[derive(ToSchema)]
pub(super) struct Schemas {
    /// What goes in.
    #[schema(required = false)]
    input: Value,
    /// What comes out.
    #[schema(required = false)]
    output: Value,
}

/// One callable of a skill.
#[derive(ToSchema)]
pub(super) struct Function {
    /// Its name, unique in the skill.
    name: String,
    /// What it does.
    description: String,
    /// What goes in and out.
    schema: Schemas,
    /// Whether it can be called with JSON.
    callable: bool,
    /// Why not.
    #[schema(required = false)]
    reason: String,
}

/// Compute in fuel units, about one per WebAssembly instruction.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum Fuel {
    /// At most this much.
    Metered(u64),
    /// Not counted.
    Unlimited(Unlimited),
}

/// The word for no metering.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(super) enum Unlimited {
    /// Not counted.
    Unlimited,
}

/// What one execution may use up.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Limits {
    /// Wall-clock time from the request to its end, in milliseconds.
    timeout_ms: u64,
    /// Wall-clock time of one attempt, in milliseconds.
    attempt_timeout_ms: u64,
    /// All linear memories and tables together, in MiB.
    memory_mb: u64,
    /// Compute.
    fuel: Fuel,
    /// Share of one CPU in percent; 100 and more does not slow a WebAssembly guest.
    cpu_percent: u64,
    /// Largest output, and largest stdout and stderr each, in bytes.
    output_bytes: u64,
    /// Largest arguments, as JSON text, in bytes.
    args_bytes: u64,
}

/// Limits of which only some are given. None may be 0.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsPatch {
    /// Wall-clock time from the request to its end, in milliseconds.
    #[schema(minimum = 1)]
    timeout_ms: Option<u64>,
    /// Wall-clock time of one attempt, in milliseconds.
    #[schema(minimum = 1)]
    attempt_timeout_ms: Option<u64>,
    /// All linear memories and tables together, in MiB.
    #[schema(minimum = 1)]
    memory_mb: Option<u64>,
    /// Compute.
    fuel: Option<Fuel>,
    /// Share of one CPU in percent.
    #[schema(minimum = 1)]
    cpu_percent: Option<u64>,
    /// Largest output, and largest stdout and stderr each, in bytes.
    #[schema(minimum = 1)]
    output_bytes: Option<u64>,
    /// Largest arguments, as JSON text, in bytes.
    #[schema(minimum = 1)]
    args_bytes: Option<u64>,
}

/// What a skill may touch. Nothing by default.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Grants {
    /// The owner's files.
    #[schema(required = false)]
    workspace: Access,
    /// Where it may connect to: `[METHOD[,METHOD] ]scheme://host[:port][/path]`, or `public`.
    #[schema(required = false)]
    network: Vec<String>,
    /// Secrets the host adds to its requests.
    #[schema(required = false)]
    secrets: Vec<SecretGrant>,
    /// Values for `wasi:config/store`.
    #[schema(required = false)]
    config: BTreeMap<String, String>,
    /// Environment variables.
    #[schema(required = false)]
    env: BTreeMap<String, String>,
    /// The skill's own key-value store.
    #[schema(required = false)]
    kv: bool,
    /// Other skills it may call, as `name` or `name@range`.
    #[schema(required = false)]
    skills: Vec<String>,
}

/// A secret by name, maybe narrowed.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum SecretGrant {
    /// As the secret was stored.
    Name(String),
    /// Only for the requests that the rule matches.
    Narrowed(NarrowedSecret),
}

/// A secret for some requests only.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NarrowedSecret {
    /// Name of the secret.
    name: String,
    /// The requests that may carry it, as a network rule.
    r#for: String,
}

/// How often a key may do something.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[serde(deny_unknown_fields)]
pub(super) struct Rates {
    /// Executions started within one minute.
    executions_per_minute: Option<u32>,
}

/// What a key may use up within one UTC day.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[serde(deny_unknown_fields)]
pub(super) struct Budgets {
    /// Executions started.
    executions_per_day: Option<u64>,
    /// Fuel used.
    fuel_per_day: Option<u64>,
    /// Bytes sent and received through the egress guard.
    egress_bytes_per_day: Option<u64>,
}

/// What an owner's keys may leave lying on the host.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[serde(deny_unknown_fields)]
pub(super) struct StorageCeilings {
    /// Registered skill versions.
    skills: Option<u64>,
    /// Bytes of uploaded components.
    component_bytes: Option<u64>,
    /// Bytes of kept results.
    result_bytes: Option<u64>,
    /// Bytes of files in the workspace.
    file_bytes: Option<u64>,
    /// Files in the workspace.
    files: Option<u64>,
    /// Bytes in the key-value stores.
    kv_bytes: Option<u64>,
}

/// The most that a key may grant to what it registers and use in what it runs.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[serde(deny_unknown_fields)]
pub(super) struct Ceilings {
    /// Where its skills may connect to.
    #[schema(required = false)]
    network: Vec<String>,
    /// Secrets its skills may use, by name.
    #[schema(required = false)]
    secrets: Vec<String>,
    /// Skills its skills may call, as `name` or `name@range`.
    #[schema(required = false)]
    skills: Vec<String>,
    /// Whether container skills are open to it.
    #[schema(required = false)]
    containers: bool,
    /// How far its skills may go in the workspace.
    #[schema(required = false)]
    workspace: Access,
    /// Whether `run_script` is open to it.
    #[schema(required = false)]
    code_mode: bool,
    /// Whether its skills may keep their instances between calls.
    #[schema(required = false)]
    reuse: bool,
    /// The largest limits; what is not given is the host's default.
    #[schema(required = false)]
    limits: LimitsPatch,
    /// How often.
    #[schema(required = false)]
    rates: Rates,
    /// How much in a day.
    #[schema(required = false)]
    budgets: Budgets,
    /// How much may lie on the host.
    #[schema(required = false)]
    storage: StorageCeilings,
}
