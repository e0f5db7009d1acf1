//! What a guest wanted to do with files and may not.

use crate::model::{Access, Denial, plain};
use crate::workspace::{Layer, WorkspaceGrant};

/// Denials kept for one execution; further ones say nothing new.
const MAX_DENIALS: usize = 20;
/// Most bytes of a path in a denial.
const MAX_PATH: usize = 256;

/// Those of one guest.
#[derive(Default)]
pub(super) struct Denials(Vec<Denial>);

impl Denials {
    pub(super) fn end(self) -> Vec<Denial> {
        self.0
    }

    /// Writes down that `what` was refused, which `wanted` would have allowed.
    pub(super) fn note(&mut self, grant: &WorkspaceGrant, wanted: Access, what: &str) {
        let Some(layer) = grant.denier(wanted) else { return };
        let word = if wanted == Access::Write { "write" } else { "read" };
        let key = format!("skillvisor keys create NAME --workspace {word}");
        let (grant, fix) = match layer {
            Layer::Manifest => (
                format!("workspace: {word}"),
                format!("add \"workspace\": \"{word}\" to grants in the manifest and push it as a new version"),
            ),
            Layer::Registrar => (
                format!("ceilings.workspace of the registering key: {word}"),
                format!("{key}, and push the skill as a new version with that key"),
            ),
            Layer::Caller => {
                (format!("ceilings.workspace of the calling key: {word}"), format!("{key}, and call with that key"))
            }
            Layer::Request => (format!("workspace: {word}"), "send the request without \"readOnly\": true".to_owned()),
        };
        let denial = Denial { import: "wasi:filesystem/types".into(), asked: plain(what, MAX_PATH), grant, fix };
        if self.0.len() < MAX_DENIALS && !self.0.contains(&denial) {
            self.0.push(denial);
        }
    }
}
