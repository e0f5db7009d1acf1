//! The end of a run in the log: one line, and nothing in it that the caller or the guest said.

use crate::model::Execution;

/// Logs that an execution has ended and is written down.
pub(super) fn ended(execution: &Execution) {
    tracing::info!(
        execution.id = %execution.id,
        skill.name = execution.skill_address,
        execution.status = execution.status.as_str(),
        error.code = execution.error.as_ref().map(|error| error.code.as_str()),
        execution.duration_us,
        "An execution ended"
    );
}
