//! Whether a version had to be accepted by somebody before it may run.

use serde::{Deserialize, Serialize};

use super::KeyId;

/// Where a version stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// Nobody was asked.
    #[default]
    None,
    /// It may not run before somebody accepts it.
    Pending,
    /// Somebody accepted it.
    Approved {
        /// With this key.
        by: KeyId,
        /// When, in milliseconds since the Unix epoch.
        at: i64,
    },
}

impl Approval {
    /// The word for it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pending => "pending",
            Self::Approved { .. } => "approved",
        }
    }

    /// Whether it still waits for somebody.
    pub fn is_pending(&self) -> bool {
        *self == Self::Pending
    }
}

/// Whether versions that may touch or say more than the one before have to be accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApprovalPolicy {
    /// Nobody is asked.
    #[default]
    None,
    /// They may not run before a key with `skills:approve` accepts them.
    Required,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        for approval in [Approval::None, Approval::Pending, Approval::Approved { by: KeyId::generate(), at: 7 }] {
            let text = serde_json::to_string(&approval).unwrap();
            assert_eq!(serde_json::from_str::<Approval>(&text).unwrap(), approval);
        }
        assert_eq!(serde_json::from_str::<Approval>(r#""none""#).unwrap(), Approval::None);
    }
}
