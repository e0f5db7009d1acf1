//! Our own interfaces of `wit/`, and the linker with everything a guest may import.

use wasmtime::Engine;
use wasmtime::component::{HasSelf, Linker};

use crate::model::{Digest, clip};

use super::state::State;

wasmtime::component::bindgen!({ path: "wit", world: "skill" });

use self::skillvisor::skill::{context, progress, types};

/// Most bytes of one progress message that are kept.
const MAX_MESSAGE: usize = 1024;

/// A linker with all of WASI 0.2, `wasi:http` and our own interfaces: a guest may import
/// any of them; what they do is decided when they are called.
///
/// # Errors
///
/// Only if two of them define the same name.
pub(super) fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    types::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
    context::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
    progress::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
    Ok(linker)
}

impl types::Host for State {}

impl context::Host for State {
    fn current(&mut self) -> context::Execution {
        let context = &self.context;
        context::Execution {
            id: context.execution.to_string(),
            skill: context.skill.to_string(),
            owner_hash: Digest::of(context.owner.as_str().as_bytes()).hex(),
            session: context.session.clone(),
            attempt: context.attempt,
            deadline_ms: context.deadline_ms.unsigned_abs(),
        }
    }
}

impl progress::Host for State {
    fn report(&mut self, done: f64, total: Option<f64>, mut message: String) {
        clip(&mut message, MAX_MESSAGE);
        tracing::debug!(execution.id = %self.context.execution, done, total, "Progress of a guest");
    }
}
