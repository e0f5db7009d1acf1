//! Why a run did not come to an end of its own, in words for its caller: the same whatever it ran in.

use crate::model::{Code, Limits, RunError};

use super::{Ends, SandboxCall};

/// The end of a run that is not to go on.
pub(super) fn cancelled() -> RunError {
    RunError::new(Code::Cancelled, "somebody cancelled it, its caller left, or the host stopped")
}

/// The failure of a run whose deadline passed.
pub(super) fn timeout(call: &SandboxCall) -> RunError {
    let (setting, value) = match call.ends {
        Ends::Attempt => ("attemptTimeoutMs", call.limits.attempt_timeout_ms),
        Ends::Whole => ("timeoutMs", call.limits.timeout_ms),
    };
    RunError::new(Code::Timeout, format!("stopped after {value} ms (limits.{setting})"))
}

pub(super) fn out_of_memory(limits: &Limits) -> RunError {
    let message = format!("wanted more than {} MiB of memory (limits.memoryMb)", limits.memory_mb);
    RunError::new(Code::OutOfMemory, message)
}

pub(super) fn output_too_large(limits: &Limits) -> RunError {
    let message = format!("gave the host more than {} bytes (limits.outputBytes)", limits.output_bytes);
    RunError::new(Code::OutputTooLarge, message)
}
