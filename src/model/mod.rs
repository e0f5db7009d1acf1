//! The words of the domain: ids, skills, keys, limits, executions, errors.
//!
//! Values here are valid by construction: parsing happens at the border, and past it
//! nobody checks again. No I/O, no async, no HTTP.

mod alias;
mod approval;
mod ceilings;
mod clock;
mod code;
mod container;
mod disabled;
mod error;
mod execution;
mod grants;
mod idempotency;
mod ids;
mod interceptor;
mod journal;
mod json;
mod key;
mod layer;
mod limits;
mod nearest;
mod pin;
mod pointer;
mod redact;
mod retry;
mod sandbox_fields;
mod secret;
mod secret_value;
mod skill;
mod skill_md;
mod skill_ref;
mod source;
mod text;
mod version;
mod without_effect;

#[cfg(test)]
mod properties;

pub use self::alias::Alias;
pub use self::approval::{Approval, ApprovalPolicy};
pub use self::ceilings::{Budgets, Ceilings, RateState, Rates, StorageCeilings};
pub use self::clock::Clock;
pub use self::code::{Code, CodeRow};
pub use self::container::{ContainerPolicy, ContainerProgram, EngineChoice, ImageRef};
pub use self::disabled::Disabled;
pub use self::error::{BoxError, Error, FieldError, MAX_DETAIL};
pub use self::execution::{
    Caller, Denial, Door, Execution, ExecutionRequest, ExpiredResult, RunError, Status, Streams, Usage,
};
pub use self::grants::{Access, Grants, NetworkRule, SecretGrant};
pub use self::idempotency::{Idempotency, IdempotencyKey};
pub use self::ids::{
    Digest, ExecutionId, InterceptorId, InterceptorName, KeyId, OwnerId, SecretName, SkillId, SkillName, Tag,
};
pub use self::interceptor::{Decision, DecisionAction, InterceptorKind, InterceptorRecord, Phase};
pub use self::journal::{Event, Heard, LogLevel, LogLine, Progress, Said, Saying};
pub use self::json::{MAX_JSON_DEPTH, StrictJson, object, strict_value};
pub use self::key::{Key, Scope};
pub use self::layer::{Layer, Parties};
pub use self::limits::{Fuel, Limits, LimitsPatch};
pub use self::nearest::nearest;
pub use self::pin::Pin;
pub use self::pointer::{pointer_below, pointer_segment};
pub use self::redact::{REDACTED, redacted_copy};
pub use self::retry::{EarlierAttempt, Retry, RetryOn, RetryPatch};
pub use self::sandbox_fields::SandboxFields;
pub use self::secret::{MIN_ADMIN_KEY_CHARS, Secret};
pub use self::secret_value::{MAX_SECRET_BYTES, MIN_SECRET_BYTES, SecretValue};
pub use self::skill::{Function, Handler, Mode, Schemas, Skill, SkillState};
pub use self::skill_md::{MAX_SKILL_MD_BYTES, NO_MANIFEST_BLOCK, manifest_block, without_manifest};
pub use self::skill_ref::{SkillRef, VersionSelector, known_as};
pub use self::source::{GitPart, OciReference, SkillSource, Source, SourceRule};
pub use self::text::{clip, plain, quotable, steers};
pub use self::version::{compare_versions, satisfies};
pub use self::without_effect::{Asked, refuse_without_effect};
