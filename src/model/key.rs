//! Who may ask, and for what.

use serde::{Deserialize, Serialize};

use super::{Access, Budgets, Ceilings, Code, Error, KeyId, Limits, NetworkRule, OwnerId, SkillName, StorageCeilings};

/// What an owner's skills may keep where the key says nothing, and at most, in bytes.
const DEFAULT_KV_BYTES: u64 = 64 << 20;
const MAX_KV_BYTES: u64 = 1 << 30;

/// What a key may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scope {
    /// Read skills and tools.
    #[serde(rename = "skills:read")]
    SkillsRead,
    /// Upload, install, change and delete skills.
    #[serde(rename = "skills:write")]
    SkillsWrite,
    /// Run skills, and cancel what the key started.
    #[serde(rename = "skills:execute")]
    SkillsExecute,
    /// Approve skills whose grants grew.
    #[serde(rename = "skills:approve")]
    SkillsApprove,
    /// See every execution of the owner.
    #[serde(rename = "executions:read")]
    ExecutionsRead,
    /// Read files of the workspace.
    #[serde(rename = "files:read")]
    FilesRead,
    /// Write files of the workspace.
    #[serde(rename = "files:write")]
    FilesWrite,
    /// Store secrets.
    #[serde(rename = "secrets:write")]
    SecretsWrite,
    /// Manage interceptors.
    #[serde(rename = "interceptors:write")]
    InterceptorsWrite,
    /// Everything, without ceilings.
    #[serde(rename = "admin")]
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: &'static [Self] = &[
        Self::SkillsRead,
        Self::SkillsWrite,
        Self::SkillsExecute,
        Self::SkillsApprove,
        Self::ExecutionsRead,
        Self::FilesRead,
        Self::FilesWrite,
        Self::SecretsWrite,
        Self::InterceptorsWrite,
        Self::Admin,
    ];

    /// What a key gets when nothing is said: enough to upload, run and look.
    pub const DEFAULT: &'static [Self] =
        &[Self::SkillsRead, Self::SkillsWrite, Self::SkillsExecute, Self::ExecutionsRead];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SkillsRead => "skills:read",
            Self::SkillsWrite => "skills:write",
            Self::SkillsExecute => "skills:execute",
            Self::SkillsApprove => "skills:approve",
            Self::ExecutionsRead => "executions:read",
            Self::FilesRead => "files:read",
            Self::FilesWrite => "files:write",
            Self::SecretsWrite => "secrets:write",
            Self::InterceptorsWrite => "interceptors:write",
            Self::Admin => "admin",
        }
    }
}

/// A key as the host knows it. The secret is not in it.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its id.
    pub id: KeyId,
    /// The namespace it acts in.
    pub owner: OwnerId,
    /// What people call it.
    pub name: String,
    /// What it may be used for.
    pub scopes: Vec<Scope>,
    /// The only skills it may see and run; none means all.
    pub skills: Option<Vec<SkillName>>,
    /// The most it may grant and use.
    pub ceilings: Ceilings,
    /// When it ends, in milliseconds since the Unix epoch.
    pub expires_at: Option<i64>,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at: i64,
    /// When it was revoked, in milliseconds since the Unix epoch.
    pub revoked_at: Option<i64>,
    /// Until when the secret before the last rotation works, or did, in milliseconds since the
    /// Unix epoch.
    pub grace_until: Option<i64>,
}

impl Key {
    /// Whether the key may do everything.
    pub fn is_admin(&self) -> bool {
        self.scopes.contains(&Scope::Admin)
    }

    /// Whether the key has `scope`. `admin` has all.
    pub fn has(&self, scope: Scope) -> bool {
        self.is_admin() || self.scopes.contains(&scope)
    }

    /// Whether the key works at `now_ms`.
    pub fn is_live(&self, now_ms: i64) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now_ms < end)
    }

    /// Whether the key may see a skill of this name.
    pub fn may_see(&self, name: &SkillName) -> bool {
        self.skills.as_ref().is_none_or(|allowed| allowed.contains(name))
    }

    /// The largest limits this key may use.
    pub fn max_limits(&self) -> Limits {
        if self.is_admin() { Limits::HOST_MAXIMUM } else { self.ceilings.limits() }
    }

    /// How many executions this key may start within one minute, if that is limited.
    pub fn executions_per_minute(&self) -> Option<u32> {
        self.ceilings.rates.executions_per_minute.filter(|_| !self.is_admin())
    }

    /// What this key may use up within one UTC day.
    pub fn budgets(&self) -> Budgets {
        if self.is_admin() { Budgets::default() } else { self.ceilings.budgets }
    }

    /// Where what this key registers and runs may connect to at most.
    pub fn max_network(&self) -> Vec<NetworkRule> {
        if self.is_admin() { vec![NetworkRule::public()] } else { self.ceilings.network.clone() }
    }

    /// How far what this key registers and runs may go in the workspace at most.
    pub fn max_workspace(&self) -> Access {
        if self.is_admin() { Access::Write } else { self.ceilings.workspace }
    }

    /// What its owner may leave lying here, where its ceilings say so.
    pub fn max_storage(&self) -> StorageCeilings {
        if self.is_admin() { StorageCeilings::default() } else { self.ceilings.storage }
    }

    /// Most bytes and most entries in its owner's workspace, where its ceilings say so.
    pub fn max_files(&self) -> (Option<u64>, Option<u64>) {
        let storage = self.ceilings.storage;
        if self.is_admin() { (None, None) } else { (storage.file_bytes, storage.files) }
    }

    /// The secrets that what this key registers and runs may use at most, by name; none means all.
    pub fn max_secrets(&self) -> Option<Vec<String>> {
        if self.is_admin() { None } else { Some(self.ceilings.secrets.clone()) }
    }

    /// Which skills what this key registers and runs may call at most; `None` for all.
    pub fn max_skills(&self) -> Option<Vec<String>> {
        (!self.is_admin()).then(|| self.ceilings.skills.clone())
    }

    /// Bytes that its owner's skills may keep while they run for this key.
    pub fn max_kv_bytes(&self) -> u64 {
        let given = if self.is_admin() { Some(MAX_KV_BYTES) } else { self.ceilings.storage.kv_bytes };
        given.unwrap_or(DEFAULT_KV_BYTES).min(MAX_KV_BYTES)
    }

    /// Whether what this key registers and runs may keep its instances between calls.
    pub fn may_reuse(&self) -> bool {
        self.is_admin() || self.ceilings.reuse
    }

    /// Whether it may register and run container skills.
    pub fn may_run_containers(&self) -> bool {
        self.is_admin() || self.ceilings.containers
    }

    /// Refuses unless the key has `scope`.
    ///
    /// # Errors
    ///
    /// `insufficient_scope`, naming the scope.
    pub fn require(&self, scope: Scope) -> Result<(), Error> {
        if self.has(scope) {
            return Ok(());
        }
        let detail = format!("this key lacks the scope `{}`", scope.as_str());
        Err(Error::new(Code::InsufficientScope, detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_read_and_write_as_their_words() {
        for scope in Scope::ALL {
            let word = format!("{:?}", scope.as_str());
            assert_eq!(serde_json::to_string(scope).unwrap(), word);
            assert_eq!(serde_json::from_str::<Scope>(&word).unwrap(), *scope);
        }
    }
}
