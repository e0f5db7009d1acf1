//! What a guest wanted to do with files and may not.

use crate::model::{Access, Denial, Layer, plain};
use crate::sandbox::RunContext;
use crate::workspace::WorkspaceGrant;

/// Most bytes of a path in a denial.
const MAX_PATH: usize = 256;

/// That `what` was refused, which `wanted` would have allowed; none if it is allowed.
pub(super) fn denial(grant: &WorkspaceGrant, wanted: Access, what: &str, run: &RunContext) -> Option<Denial> {
    let layer = grant.denier(wanted)?;
    let word = if wanted == Access::Write { "write" } else { "read" };
    let flag = format!("--workspace {word}");
    let missing = layer.wider_key("workspace", (word, &flag), &run.parties());
    let (grant, fix) = missing.unwrap_or_else(|| {
        let fix = if layer == Layer::Request {
            "send the request without \"readOnly\": true".to_owned()
        } else {
            format!("add \"workspace\": \"{word}\" to grants in the manifest and push it as a new version")
        };
        (format!("workspace: {word}"), fix)
    });
    Some(Denial { import: "wasi:filesystem/types".into(), asked: plain(what, MAX_PATH), grant, fix })
}
