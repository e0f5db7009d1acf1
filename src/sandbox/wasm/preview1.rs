//! Core modules: WASI preview 1, natively.
//!
//! Through the preview-1 adapter they would lose exit codes other than 0 and 1, and some their
//! arguments.

use wasmtime::{Caller, Engine, Linker};
use wasmtime_wasi::{I32Exit, p1};

use crate::model::Limits;

use super::run::output_bytes;
use super::state::State;

/// The module that all imports come from.
pub(super) const MODULE: &str = "wasi_snapshot_preview1";
/// What a guest may hand over in one call besides what it may print, in bytes. A call that hands
/// over more gets `nomem`.
const HOST_CALL_BYTES: usize = 4 << 20;

/// How many bytes a module may hand over in one call.
pub(super) fn host_call_bytes(limits: &Limits) -> usize {
    output_bytes(limits).saturating_add(HOST_CALL_BYTES)
}

/// A linker with all of WASI preview 1.
///
/// # Errors
///
/// Only if it defines the same name twice.
pub(super) fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    p1::add_to_linker_async(&mut linker, State::preview1)?;
    // The library's own knows no exit codes above 125.
    linker.allow_shadowing(true);
    linker.func_wrap(MODULE, "proc_exit", |_: Caller<'_, State>, code: i32| -> wasmtime::Result<()> {
        Err(I32Exit(code).into())
    })?;
    linker.allow_shadowing(false);
    Ok(linker)
}
