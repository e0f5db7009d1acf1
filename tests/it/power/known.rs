//! What a client knows because it was told so.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::recording::Call;
use crate::campaign::Random;

/// One thing that a client learned, or set out to change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Note {
    /// The server is ready, and this is its first admin key.
    Ready(String),
    /// A run has ended.
    Ran { id: String, status: String, output: Value },
    /// A skill is there.
    Uploaded(String),
    /// A skill is about to be deleted: from now on it may be there or not.
    Deleting(String),
    /// A skill is gone.
    Deleted(String),
    /// A key is there: its id and secret.
    KeyMade(String, String),
    /// A key is about to be revoked.
    Revoking(String),
    /// A key is revoked.
    Revoked(String, String),
}

/// All that must be true.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) admin_key: Option<String>,
    /// Runs by id: status and output.
    pub(crate) runs: BTreeMap<String, (String, Value)>,
    /// Skills by name, and whether they are there.
    pub(crate) skills: BTreeMap<String, bool>,
    /// Secrets of keys by id, and whether they are good.
    pub(crate) keys: BTreeMap<String, (String, bool)>,
}

impl Known {
    /// What the client knows after these calls.
    pub(super) fn after(calls: &[Call]) -> Self {
        let mut known = Self::default();
        for call in calls {
            if let Call::Note(text) = call {
                known.learn(serde_json::from_str(text).unwrap());
            }
        }
        known
    }

    pub(crate) fn learn(&mut self, note: Note) {
        match note {
            Note::Ready(key) => self.admin_key = Some(key),
            Note::Ran { id, status, output } => drop(self.runs.insert(id, (status, output))),
            Note::Uploaded(name) => drop(self.skills.insert(name, true)),
            Note::Deleting(name) => drop(self.skills.remove(&name)),
            Note::Deleted(name) => drop(self.skills.insert(name, false)),
            Note::KeyMade(id, secret) => drop(self.keys.insert(id, (secret, true))),
            Note::Revoking(id) => drop(self.keys.remove(&id)),
            Note::Revoked(id, secret) => drop(self.keys.insert(id, (secret, false))),
        }
    }

    /// The key, and some of the rest at random: `most` of each kind or fewer.
    pub(crate) fn share(&self, most: usize, random: &mut Random) -> Self {
        Self {
            admin_key: self.admin_key.clone(),
            runs: some(&self.runs, most, random),
            skills: some(&self.skills, most, random),
            keys: some(&self.keys, most, random),
        }
    }

    /// How many things must be true.
    pub(crate) fn len(&self) -> usize {
        usize::from(self.admin_key.is_some()) + self.runs.len() + self.skills.len() + self.keys.len()
    }
}

/// Some entries of a map.
fn some<T: Clone>(map: &BTreeMap<String, T>, most: usize, random: &mut Random) -> BTreeMap<String, T> {
    let entries: Vec<_> = map.iter().collect();
    let picked = (0..most.min(entries.len())).map(|_| *random.pick(&entries));
    picked.map(|(name, value)| (name.clone(), value.clone())).collect()
}
