//! The end of a run in the log: one line, and nothing in it that the caller or the guest said.

use crate::model::{Execution, Status};

/// Logs that an execution has ended. Those that went well are logged at
/// `debug`: there may be thousands in a second, and the audit has them all.
pub(super) fn ended(execution: &Execution) {
    macro_rules! log {
        ($level:ident) => {
            tracing::$level!(
                execution.id = %execution.id,
                skill.name = &*execution.skill_address,
                execution.status = execution.status.as_str(),
                error.code = execution.error.as_ref().map(|error| error.code.as_str()),
                execution.duration_us,
                "An execution ended"
            )
        };
    }
    if execution.status == Status::Success { log!(debug) } else { log!(info) }
}
