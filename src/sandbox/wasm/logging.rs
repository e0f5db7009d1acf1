//! `wasi:logging`: lines for the log of the execution.

use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Linker, Lower};

use crate::model::LogLevel;

use super::state::State;

/// The interface under the names that toolchains use for it.
const NAMES: &[&str] = &["wasi:logging/logging", "wasi:logging/logging@0.1.0-draft"];

/// Its `level`.
#[derive(Clone, Copy, ComponentType, Lift, Lower)]
#[component(enum)]
#[expect(dead_code, reason = "lifting makes them from their numbers")]
#[repr(u8)]
enum Level {
    #[component(name = "trace")]
    Trace,
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
    #[component(name = "critical")]
    Critical,
}

/// Links it, for every guest.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    for name in NAMES {
        linker.instance(name)?.func_wrap(
            "log",
            |store: StoreContextMut<'_, State>, (level, context, message): (Level, String, String)| {
                let state = store.data();
                state.context.journal.log((state.now_ms(), word(level)), (&context, &message));
                Ok(())
            },
        )?;
    }
    Ok(())
}

fn word(level: Level) -> LogLevel {
    match level {
        Level::Trace => LogLevel::Trace,
        Level::Debug => LogLevel::Debug,
        Level::Info => LogLevel::Info,
        Level::Warn => LogLevel::Warn,
        Level::Error => LogLevel::Error,
        Level::Critical => LogLevel::Critical,
    }
}
