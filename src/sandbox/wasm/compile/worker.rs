//! The inside of a compile worker: a process that reads one component and ends.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use wasmtime::Engine;

use super::inspect::inspect;
use super::protocol::Message;
use crate::sandbox::wasm::{compatibility, engine};

/// Largest code file, in bytes.
const MAX_CODE: u64 = 1 << 30;
/// How much less a worker matters than the host.
const NICE: i32 = 10;

/// What the host told the worker.
pub(super) struct Task {
    component: PathBuf,
    output: PathBuf,
    hash: String,
    memory_mb: u64,
    cpu_seconds: u64,
}

/// Runs this process as a compile worker: call it first thing in `main` when the first
/// argument is `compile-worker`, with what follows.
///
/// An embedder whose own binary is the [`super::CompileSettings::program`] does that too.
pub fn compile_worker_main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(task) = Task::parse(arguments) else {
        return ExitCode::from(2);
    };
    let result = task.fence().map_err(|error| error.to_string()).and_then(|()| task.run());
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(detail) => {
            say(&Message::Failed { detail });
            ExitCode::FAILURE
        }
    }
}

impl Task {
    pub(super) fn parse(mut arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        Some(Self {
            component: arguments.next()?.into(),
            output: arguments.next()?.into(),
            hash: arguments.next()?.into_string().ok()?,
            memory_mb: arguments.next()?.to_str()?.parse().ok()?,
            cpu_seconds: arguments.next()?.to_str()?.parse().ok()?,
        })
    }

    /// Puts the limits on before anything of the component is read.
    fn fence(&self) -> std::io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let limit = |resource, most| setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
        limit(Resource::As, self.memory_mb << 20)?;
        limit(Resource::Cpu, self.cpu_seconds)?;
        limit(Resource::Fsize, MAX_CODE)?;
        limit(Resource::Core, 0)?;
        limit(Resource::Nofile, 64)?;
        // Best effort: whoever must give way under pressure, it is not the host.
        let _ = rustix::process::setpriority_process(None, NICE);
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
        Ok(())
    }

    fn run(&self) -> Result<(), String> {
        let engine = Engine::new(&engine::config()).map_err(|error| error.to_string())?;
        if compatibility(&engine) != self.hash {
            return Err("the compile worker is of another version than the host".into());
        }
        let bytes = std::fs::read(&self.component).map_err(|error| error.to_string())?;
        let found = inspect(&bytes)?;
        say(&Message::Inspected(Box::new(found)));
        let code = engine.precompile_component(&bytes).map_err(|error| reason(&error))?;
        crate::files::write_durably(&self.output, &code).map_err(|error| error.to_string())?;
        say(&Message::Compiled);
        Ok(())
    }
}

/// The whole reason behind an error of the engine, in one line.
pub(in crate::sandbox::wasm) fn reason(error: &wasmtime::Error) -> String {
    crate::model::plain(&format!("{error:#}").replace('\n', "; "), 1000)
}

fn say(message: &Message) {
    if let Ok(mut line) = serde_json::to_vec(message) {
        line.push(b'\n');
        let _ = std::io::stdout().write_all(&line);
    }
}
