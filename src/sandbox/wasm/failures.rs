//! Why a guest did not come to an end of its own, in words for its caller.

use wasmtime::{PoolConcurrencyLimitError, Trap};
use wasmtime_wasi::I32Exit;

use crate::model::{Code, Limits, RunError, plain};
use crate::sandbox::SandboxCall;
use crate::sandbox::endings::out_of_memory;
pub(super) use crate::sandbox::endings::{cancelled, output_too_large, timeout};

use super::limiter::MemoryLimiter;
use super::preview3::MAX_TASKS;
use super::room;
use super::run::MAX_ERROR_MESSAGE;
use super::state::MAX_RESOURCES;

/// What an error of the engine means.
pub(super) fn of(error: &wasmtime::Error, call: &SandboxCall, limiter: &MemoryLimiter) -> RunError {
    let limits = &call.limits;
    if let Some(I32Exit(code)) = error.downcast_ref() {
        return RunError::new(Code::Trap, format!("the guest called exit({code}) instead of returning"));
    }
    if error.is::<PoolConcurrencyLimitError>() {
        // It has done nothing wrong.
        let none = room::none();
        return RunError::new(none.code, none.detail);
    }
    let trap = error.downcast_ref::<Trap>();
    match trap {
        Some(Trap::Interrupt) => return timeout(call),
        Some(Trap::OutOfFuel) => return out_of_fuel(limits),
        _ => {}
    }
    if limiter.starved() {
        return RunError::new(Code::Unavailable, "the host had no more memory for your guests; try again");
    }
    if limiter.refused() {
        return out_of_memory(limits);
    }
    let text = format!("{error:#}");
    if text.contains("fuel allocated for hostcalls") {
        return output_too_large(limits);
    }
    if text.contains("resource table has no free keys") {
        let message = format!(
            "the guest holds more than {MAX_RESOURCES} host resources, or waits for more than {MAX_TASKS} things"
        );
        return RunError::new(Code::Trap, message);
    }
    match trap {
        Some(trap) => RunError::new(Code::Trap, plain(&trap.to_string(), MAX_ERROR_MESSAGE)),
        None => RunError::new(Code::Trap, plain(&error.root_cause().to_string(), MAX_ERROR_MESSAGE)),
    }
}

fn out_of_fuel(limits: &Limits) -> RunError {
    let units = limits.fuel.units().unwrap_or_default();
    let message = format!("used up {units} units of fuel (limits.fuel)");
    RunError::new(Code::OutOfFuel, message)
}
