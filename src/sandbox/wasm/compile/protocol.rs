//! What a compile worker says on its stdout: one JSON message a line.

use serde::{Deserialize, Serialize};

use crate::sandbox::Inspection;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Message {
    /// The component can run here, and this is what is in it.
    Inspected(Box<Inspection>),
    /// Its code is in the file that came as stdin, and on the disk.
    Compiled,
    /// It cannot run here.
    Failed {
        /// Why, for the uploader.
        detail: String,
    },
    /// The worker panicked, which is a bug of ours or of the compiler's.
    Broken {
        /// Where and why, for the host's log.
        detail: String,
    },
    /// The worker cannot work here, whatever the component is.
    Unfit {
        /// Why.
        detail: String,
    },
}
