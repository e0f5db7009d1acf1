//! A skill as the host knows it once its manifest has been checked.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Access, Approval, Code, ContainerProgram, Digest, Error, Grants, Key, KeyId, Limits, NetworkRule, OwnerId, Pin,
    Retry, SkillId, SkillName, SkillSource, Tag,
};

/// How a skill is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handler {
    /// A WebAssembly component that was uploaded.
    Wasm {
        /// SHA-256 of its bytes.
        digest: Digest,
    },
    /// A command in a container image.
    Container {
        /// SHA-256 of the text of `program`.
        digest: Digest,
        /// The image and the command.
        program: Arc<ContainerProgram>,
    },
}

impl Handler {
    /// The digest of what runs.
    pub fn digest(&self) -> Digest {
        match self {
            Self::Wasm { digest } | Self::Container { digest, .. } => *digest,
        }
    }

    /// A command in a container image.
    pub fn container(program: ContainerProgram) -> Self {
        Self::Container { digest: program.digest(), program: Arc::new(program) }
    }

    /// All that there is to run, of what is no upload.
    pub fn program_text(&self) -> String {
        match self {
            Self::Wasm { .. } => String::new(),
            Self::Container { program, .. } => program.to_text(),
        }
    }

    /// As it is written in a manifest.
    pub fn to_text(&self) -> String {
        match self {
            Self::Wasm { .. } => "wasm".to_owned(),
            Self::Container { program, .. } => program.to_handler(),
        }
    }

    /// Whether both were written alike: the same component, or the same words for what runs.
    pub fn is_written_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Container { program, .. }, Self::Container { program: other, .. }) => program.is_written_as(other),
            (one, other) => one == other,
        }
    }

    /// Refuses a kind that the ceilings of a key keep from it.
    ///
    /// # Errors
    ///
    /// `denied`.
    pub fn require_allowed(&self, key: &Key) -> Result<(), Error> {
        match self {
            Self::Container { .. } if !key.may_run_containers() => {
                let detail = "the ceilings of this key keep container skills from it; an admin opens them with \
                              `skillvisor keys create NAME --containers`";
                Err(Error::at(Code::Denied, "/handler", detail))
            }
            Self::Wasm { .. } | Self::Container { .. } => Ok(()),
        }
    }
}

/// Whether and how a skill is offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Offered and runnable.
    #[default]
    On,
    /// Runnable; offered to a model only when it is relevant.
    Auto,
    /// Not runnable.
    Off,
}

/// How far a skill is from being runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillState {
    /// Being made ready.
    Compiling,
    /// Can run.
    Ready,
    /// Cannot be made ready; `problem` says why.
    Failed,
    /// Needs something that is not there; `problem` says what.
    Unavailable,
}

/// Gives an enum that serde writes as a word the same word for the database.
macro_rules! word {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.serialize(f)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                use serde::de::IntoDeserializer;
                let word: serde::de::value::StrDeserializer<'_, serde::de::value::Error> = text.into_deserializer();
                Self::deserialize(word).map_err(|error| Error::new(Code::Malformed, error.to_string()))
            }
        }
    };
}

word!(Mode);
word!(SkillState);

/// The JSON Schemas of a function, draft 2020-12 unless they say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Schemas {
    /// What goes in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// What comes out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

/// One callable of a skill.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// Its name, unique in the skill.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What goes in and out.
    pub schema: Schemas,
    /// Whether it can be called with JSON.
    pub callable: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One version of a skill. Immutable but for `enabled`, `mode`, `tags`, its approval and the state.
#[derive(Clone, Debug)]
pub struct Skill {
    /// Its id.
    pub id: SkillId,
    /// Whose it is.
    pub owner: OwnerId,
    /// Its name, unique with owner and version.
    pub name: SkillName,
    /// Its version (SemVer 2.0).
    pub version: Version,
    /// What it does.
    pub description: String,
    /// How it runs.
    pub handler: Handler,
    /// What goes in and out.
    pub schema: Schemas,
    /// Whether it may be run.
    pub enabled: bool,
    /// Whether and how it is offered.
    pub mode: Mode,
    /// Its labels.
    pub tags: Vec<Tag>,
    /// Where it came from.
    pub source_provider: String,
    /// The same exactly, if it was installed and not uploaded.
    pub source: Option<SkillSource>,
    /// Whether it is told to those without a key; only of global skills.
    pub public: bool,
    /// Whether running it twice is as good as once, so that a run that a crash interrupted runs again.
    pub idempotent: bool,
    /// Whether it asks to keep its instances between calls.
    pub reuse: bool,
    /// Whether the key that registered it might let it, as that was then.
    pub frozen_reuse: bool,
    /// Whether somebody has to accept it, or did.
    pub approval: Approval,
    /// What it asks to touch.
    pub grants: Grants,
    /// What it may use up, under the ceilings of the key that registered it.
    pub limits: Limits,
    /// When it is tried again.
    pub retry: Retry,
    /// The largest limits of the key that registered it, as they were then.
    pub frozen_limits: Limits,
    /// Where the key that registered it might let it connect to, as it was then.
    pub frozen_network: Vec<NetworkRule>,
    /// How far the key that registered it might let it go in the workspace, as it was then.
    pub frozen_workspace: Access,
    /// The secrets that the key that registered it might let it use, as it was then; none means all.
    pub frozen_secrets: Option<Vec<String>>,
    /// Which skills the key that registered it might let it call, as it was then; `None` for all.
    pub frozen_skills: Option<Vec<String>>,
    /// What the skills that it asks to call were when it was registered.
    pub pinned: Vec<Pin>,
    /// Its callables.
    pub functions: Vec<Function>,
    /// What its component imports, as `namespace:package/interface@version`.
    pub imports: Vec<String>,
    /// What its author should know.
    pub warnings: Vec<String>,
    /// How far it is.
    pub state: SkillState,
    /// Why it is not ready.
    pub problem: Option<String>,
    /// The key that registered it.
    pub registered_by: KeyId,
    /// SHA-256 of what may never change in its manifest.
    pub manifest_digest: Digest,
    /// When it was registered, in milliseconds since the Unix epoch.
    pub created_at: i64,
    /// When it was last changed, in milliseconds since the Unix epoch.
    pub updated_at: i64,
}

impl Skill {
    /// Whether its instances are kept between calls, for callers that may have that.
    pub fn is_reused(&self) -> bool {
        self.reuse && self.frozen_reuse
    }

    /// `name@version`.
    pub fn address(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    /// Refuses unless the skill may be run.
    ///
    /// # Errors
    ///
    /// `approval_required`, `skill_disabled`, `skill_failed`, or `unavailable`, each with the reason.
    pub fn require_runnable(&self) -> Result<(), Error> {
        let address = self.address();
        if self.approval.is_pending() {
            let detail = format!(
                "{address} waits for approval; `skillvisor approve {address}`, with a key that has `skills:approve`"
            );
            return Err(Error::new(Code::ApprovalRequired, detail));
        }
        if !self.enabled {
            let detail = format!("{address} is disabled; enable it with PATCH {{\"enabled\": true}}");
            return Err(Error::new(Code::SkillDisabled, detail));
        }
        if self.mode == Mode::Off {
            let detail = format!("{address} has mode `off`; set it to `on` or `auto` to run it");
            return Err(Error::new(Code::SkillDisabled, detail));
        }
        let problem = self.problem.as_deref().unwrap_or("no reason was recorded");
        match self.state {
            SkillState::Ready | SkillState::Compiling => Ok(()),
            SkillState::Failed => Err(Error::new(Code::SkillFailed, format!("{address} cannot run: {problem}"))),
            SkillState::Unavailable => {
                Err(Error::new(Code::Unavailable, format!("{address} cannot run now: {problem}")))
            }
        }
    }
}
