//! Code around executions, before and after them (SPEC §8).

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Digest, InterceptorId, InterceptorName, KeyId, OwnerId, SkillName};

/// On which side of a run an interceptor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// After the run is on record, before anything of its guest starts.
    Before,
    /// After the guest has ended, before its output is checked and told.
    After,
}

impl Phase {
    /// Both.
    pub const ALL: &'static [Self] = &[Self::Before, Self::After];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an interceptor is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum InterceptorKind {
    /// A component of the world `interceptor`.
    Wasm {
        /// SHA-256 of its bytes, which its owner has uploaded.
        component: Digest,
    },
    /// A URL that is asked, or told.
    Webhook {
        /// Where.
        url: String,
    },
    /// One that the host brings along.
    Builtin {
        /// Its name.
        builtin: String,
        /// What it is set to.
        config: Map<String, Value>,
    },
}

impl InterceptorKind {
    /// The word for it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Wasm { .. } => "wasm",
            Self::Webhook { .. } => "webhook",
            Self::Builtin { .. } => "builtin",
        }
    }
}

/// An interceptor as it was set up over the API. One of an embedding program is not here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterceptorRecord {
    /// Its id.
    pub id: InterceptorId,
    /// Whose it is.
    pub owner: OwnerId,
    /// What people call it; unique with its owner.
    pub name: InterceptorName,
    /// What it is.
    pub what: InterceptorKind,
    /// Where it stands.
    pub phases: Vec<Phase>,
    /// Whether runs wait for it; a webhook that they do not wait for is told of their ends.
    pub blocking: bool,
    /// Its place among those of its owner: lower ones come first.
    pub order: i32,
    /// How long it may take for one answer, in milliseconds.
    pub timeout_ms: u64,
    /// Whether a run goes on without it if it fails.
    pub optional: bool,
    /// Whether it stands around the runs of every owner.
    pub global: bool,
    /// Whether it is asked at all.
    pub enabled: bool,
    /// The only skills that it is asked about, by name; none means all.
    pub skills: Option<Vec<SkillName>>,
    /// The key that set it up, under whose ceilings it works.
    pub registered_by: KeyId,
    /// When it was set up, in milliseconds since the Unix epoch.
    pub created_at: i64,
    /// When it was last changed, in milliseconds since the Unix epoch.
    pub updated_at: i64,
}

/// What an interceptor came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecisionAction {
    /// It changed nothing.
    Continue,
    /// It changed arguments, or what came out.
    Replace,
    /// It gave the output, and the skill did not run.
    Answer,
    /// It refused.
    Reject,
    /// It gave no answer that can be used; the run was refused.
    Failed,
    /// It gave no answer that can be used, and is optional: the run went on.
    Skipped,
}

/// What one interceptor did to one execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Which one.
    pub name: InterceptorName,
    /// Whether it is one for every owner.
    pub global: bool,
    /// On which side of the run.
    pub phase: Phase,
    /// What it did.
    pub action: DecisionAction,
    /// How long that took, in milliseconds.
    pub duration_ms: f64,
    /// Why it failed: a word such as `timeout`, `trap` or `invalid_answer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// SHA-256 of the arguments that it put in place of those before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args_digest: Option<Digest>,
}
