//! The most that a key may grant and use.

use serde::{Deserialize, Serialize};

use super::{Access, Fuel, Limits, LimitsPatch, NetworkRule};

/// What a key with a rate may start at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateState {
    /// Executions started within one minute.
    pub per_minute: u32,
    /// How many may be started now.
    pub left: u32,
    /// Seconds until it is one more, if it can be.
    pub next_s: Option<u32>,
}

/// How often a key may do something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Rates {
    /// Executions started within one minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executions_per_minute: Option<u32>,
}

/// What a key may use up within one UTC day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Budgets {
    /// Executions started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executions_per_day: Option<u64>,
    /// Fuel used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel_per_day: Option<u64>,
    /// Bytes sent and received through the egress guard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress_bytes_per_day: Option<u64>,
}

/// What an owner's keys may leave lying on this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct StorageCeilings {
    /// Registered skill versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<u64>,
    /// Bytes of uploaded components.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub component_bytes: Option<u64>,
    /// Bytes of kept results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// Bytes of files in the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// Files in the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// Bytes in the key-value stores of all its skills, keys and values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_bytes: Option<u64>,
}

/// The most that a key may grant to what it registers and use in what it runs.
///
/// The default is that of a new non-admin key: its own workspace, and nothing that
/// reaches beyond it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Ceilings {
    /// Where its skills may connect to.
    pub network: Vec<NetworkRule>,
    /// Secrets its skills may use, by name.
    pub secrets: Vec<String>,
    /// Skills its skills may call, as `name` or `name@range`.
    pub skills: Vec<String>,
    /// Whether container skills are open to it.
    pub containers: bool,
    /// How far its skills may go in the workspace.
    pub workspace: Access,
    /// Whether `run_script` is open to it.
    pub code_mode: bool,
    /// Whether its skills may keep their instances between calls.
    pub reuse: bool,
    /// The largest limits; what is not given is the host's default.
    #[serde(deserialize_with = "super::object")]
    pub limits: LimitsPatch,
    /// How often.
    #[serde(deserialize_with = "super::object")]
    pub rates: Rates,
    /// How much in a day.
    #[serde(deserialize_with = "super::object")]
    pub budgets: Budgets,
    /// How much may lie here.
    #[serde(deserialize_with = "super::object")]
    pub storage: StorageCeilings,
}

impl Default for Ceilings {
    fn default() -> Self {
        Self {
            network: Vec::new(),
            secrets: Vec::new(),
            skills: Vec::new(),
            containers: false,
            workspace: Access::Write,
            code_mode: false,
            reuse: false,
            limits: LimitsPatch::default(),
            rates: Rates::default(),
            budgets: Budgets::default(),
            storage: StorageCeilings::default(),
        }
    }
}

impl Ceilings {
    /// The largest limits under these ceilings. No run has more fuel than there is for a day, and
    /// so none has it without an end.
    pub fn limits(&self) -> Limits {
        let limits = self.limits.over(Limits::DEFAULT).intersect(Limits::HOST_MAXIMUM);
        let day = self.budgets.fuel_per_day.map_or(limits.fuel, Fuel::Metered);
        limits.intersect(Limits { fuel: day, ..limits })
    }
}
