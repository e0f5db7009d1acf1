//! Programs (SPEC §4, shapes 3 and 5): the arguments as JSON on stdin, the result on stdout.

use wasmtime::component::{ComponentExportIndex, InstancePre};
use wasmtime::{Result, Store};
use wasmtime_wasi::I32Exit;

use crate::model::Limits;
use crate::sandbox::SandboxCall;
use crate::sandbox::program::exit_nonzero;
pub(super) use crate::sandbox::program::text;

use super::failures::output_too_large;
use super::run::Called;
use super::state::State;

/// Runs a component with a `wasi:cli/run`.
pub(super) async fn command(
    store: &mut Store<State>,
    (instance, run): (&InstancePre<State>, ComponentExportIndex),
    asked: &SandboxCall,
    args: String,
) -> Called {
    store.data_mut().start_program(args);
    let ended = async {
        let instance = instance.instantiate_async(&mut *store).await?;
        let run = instance.get_typed_func::<(), (Result<(), ()>,)>(&mut *store, run)?;
        Ok(i32::from(run.call_async(&mut *store, ()).await?.0.is_err()))
    };
    let ended = ended.await;
    outcome(store.data_mut(), ended, &asked.limits)
}

/// Runs a core module with a `_start`.
pub(super) async fn module(
    store: &mut Store<State>,
    instance: &wasmtime::InstancePre<State>,
    asked: &SandboxCall,
    args: String,
) -> Called {
    store.data_mut().start_program(args);
    let ended = async {
        let instance = instance.instantiate_async(&mut *store).await?;
        let start = instance.get_typed_func::<(), ()>(&mut *store, "_start")?;
        start.call_async(&mut *store, ()).await?;
        Ok(0)
    };
    let ended = ended.await;
    outcome(store.data_mut(), ended, &asked.limits)
}

/// What came of a program that ended with this code, or that was ended.
fn outcome(state: &mut State, ended: Result<i32>, limits: &Limits) -> Called {
    let code = match ended {
        Ok(code) => code,
        Err(error) => match error.downcast_ref::<I32Exit>() {
            Some(exit) => exit.0,
            None if state.stdout.is_full() => return Ok(Err(output_too_large(limits))),
            None => return Err(error),
        },
    };
    state.exit_code = Some(code);
    // A program that could not print all that it wanted may have ended itself for that.
    if code == 0 || state.stdout.is_full() { Ok(state.stdout.output(limits)) } else { Ok(Err(exit_nonzero(code))) }
}
