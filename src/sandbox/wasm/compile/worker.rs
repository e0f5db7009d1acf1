//! The inside of a compile worker: a process that reads one component and ends.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use rustix::process::{Resource, Rlimit, setrlimit};
use tokio::process::{Child, Command};
use wasmtime::Engine;

use super::bond;
use super::inspect::inspect;
use super::protocol::Message;
use super::{CompileSettings, print};
use crate::model::{Code, Digest, Error};
use crate::sandbox::shape::Shape;
use crate::sandbox::wasm::engine::{self, Kind};
use crate::sandbox::wasm::tiers::compatibility;

/// Largest code file of all, in bytes.
const MAX_CODE: u64 = 1 << 30;
/// Bytes of code that any component may come to, and for each of its own bytes how many more.
/// Toolchains' components come to two or three times their size.
const CODE_BASE: u64 = 4 << 20;
const CODE_PER_BYTE: u64 = 32;
/// The first argument of a program that is started as compile worker.
pub(super) const ARGUMENT: &str = "compile-worker";
/// The program that runs now, also after another file has taken its place on the disk: a
/// host that was upgraded but not restarted still compiles.
pub const THIS_PROGRAM: &str = "/proc/self/exe";
/// How much less a worker matters than the host.
const NICE: i32 = 10;

/// What the host told the worker.
pub(super) struct Task {
    component: PathBuf,
    /// SHA-256 of the component, in hex.
    digest: String,
    hash: String,
    memory_mb: u64,
    cpu_seconds: u64,
}

/// Why a worker gives up.
enum Failure {
    /// For something in the component; what, for its uploader.
    Component(String),
    /// For something on this machine.
    Unfit(String),
}

impl Failure {
    fn unfit(error: impl ToString) -> Self {
        Self::Unfit(error.to_string())
    }
}

/// Makes the program that calls it its own compile worker, and gives what
/// [`HostOptions::new`](crate::HostOptions::new) wants. Call it first thing in `main`.
///
/// A host looks into and compiles components in child processes with limits on memory and
/// time, and the child is this same program, started as `PROGRAM compile-worker …` with an
/// empty environment and the file for the code as its stdin. Whatever `main` does before this
/// call, each child does too.
///
/// # Errors
///
/// This process *is* such a child, and its work is done: return the exit code from `main`.
///
/// ```
/// # use std::process::ExitCode;
/// fn main() -> ExitCode {
///     let program = match skillvisor::compile_worker() {
///         Ok(program) => program,
///         Err(exit) => return exit,
///     };
///     let options = skillvisor::HostOptions::new("skillvisor-data", program);
///     // … build a runtime, then `Host::open(options)`.
///     # drop(options);
///     ExitCode::SUCCESS
/// }
/// ```
pub fn compile_worker() -> Result<PathBuf, ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == ARGUMENT) {
        return Err(compile_worker_main(arguments));
    }
    Ok(PathBuf::from(THIS_PROGRAM))
}

/// Runs this process as a compile worker, with the arguments behind `compile-worker`: for a
/// program that reads its arguments itself. Others call [`compile_worker`].
pub fn compile_worker_main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(task) = Task::parse(arguments) else {
        return ExitCode::from(2);
    };
    std::panic::set_hook(Box::new(|panic| say(&Message::Broken { detail: panic.to_string() })));
    let result = task.fence().map_err(Failure::unfit).and_then(|()| task.run());
    let message = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Component(detail)) => Message::Failed { detail },
        Err(Failure::Unfit(detail)) => Message::Unfit { detail },
    };
    say(&message);
    ExitCode::FAILURE
}

impl Task {
    pub(super) fn parse(mut arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        Some(Self {
            component: arguments.next()?.into(),
            digest: arguments.next()?.into_string().ok()?,
            hash: arguments.next()?.into_string().ok()?,
            memory_mb: arguments.next()?.to_str()?.parse().ok()?,
            cpu_seconds: arguments.next()?.to_str()?.parse().ok()?,
        })
    }

    /// Puts the limits on before anything of the component is read.
    fn fence(&self) -> io::Result<()> {
        bond::end_with_the_host()?;
        let limit = |resource, most| setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
        limit(Resource::As, self.memory_mb << 20)?;
        // With a second in between, since the second limit kills without saying why.
        let cpu = Rlimit { current: Some(self.cpu_seconds), maximum: Some(self.cpu_seconds.saturating_add(1)) };
        setrlimit(Resource::Cpu, cpu)?;
        limit(Resource::Fsize, MAX_CODE)?;
        limit(Resource::Core, 0)?;
        limit(Resource::Nofile, 64)?;
        // Best effort: whoever must give way under pressure, it is not the host.
        let _ = rustix::process::setpriority_process(None, NICE);
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
        Ok(())
    }

    fn run(&self) -> Result<(), Failure> {
        if self.hash == print::WIT {
            return self.print();
        }
        let plain = Engine::new(&engine::config(Kind::PLAIN)).map_err(Failure::unfit)?;
        let hash = compatibility(&plain);
        let unmetered = match &self.hash {
            task if *task == self::task(&hash, false) => false,
            task if *task == self::task(&hash, true) => true,
            _ => return Err(Failure::unfit("it is of another version than the host")),
        };
        let bytes = self.bytes()?;
        let found = inspect(&bytes).map_err(Failure::Component)?;
        let is_module = found.shape == Shape::Module;
        let kind = Kind { unmetered, concurrent: found.concurrent };
        let engine = match kind {
            Kind::PLAIN => plain,
            kind => Engine::new(&engine::config(kind)).map_err(Failure::unfit)?,
        };
        say(&Message::Inspected(Box::new(found)));
        let code = if is_module { engine.precompile_module(&bytes) } else { engine.precompile_component(&bytes) };
        let code = code.map_err(|error| Failure::Component(reason(&error)))?;
        require_size(code.len() as u64, bytes.len() as u64)?;
        keep(&code).map_err(Failure::unfit)?;
        say(&Message::Compiled);
        Ok(())
    }

    fn print(&self) -> Result<(), Failure> {
        let text = print::wit(&self.bytes()?).map_err(Failure::Component)?;
        keep(text.as_bytes()).map_err(Failure::unfit)?;
        say(&Message::Compiled);
        Ok(())
    }

    fn bytes(&self) -> Result<Vec<u8>, Failure> {
        let bytes = std::fs::read(&self.component).map_err(Failure::unfit)?;
        // What was uploaded is what is worked on, whatever happened on the disk since.
        if Digest::of(&bytes).hex() != self.digest {
            return Err(Failure::unfit("the component's file is damaged: its digest is another one"));
        }
        Ok(bytes)
    }
}

/// What a worker is to do: compile for the engine of this name, or for the one beside it that
/// does not count fuel.
pub(super) fn task(hash: &str, unmetered: bool) -> String {
    if unmetered { format!("{hash}-unmetered") } else { hash.to_owned() }
}

/// Starts a worker for the component of this name and the output, which is made; the component's
/// digest; and what is to be done: a [`task`], or [`print::WIT`].
pub(super) fn spawn(
    settings: &CompileSettings,
    (component, output): (&Path, &Path),
    (digest, task): (&str, &str),
) -> Result<Child, Error> {
    // The worker knows the file, and not its name: see `keep`.
    let output = crate::files::create_private(output).map_err(Error::internal)?;
    Command::new(&settings.program)
        // What process lists show; the program may be one of /proc.
        .arg0("skillvisor")
        .arg(ARGUMENT)
        .arg(component)
        .arg(digest)
        .arg(task)
        .arg(settings.memory_mb.to_string())
        .arg(settings.timeout.as_secs().max(1).to_string())
        .env_clear()
        // Else the allocator takes 1 GiB of address space before there is a limit, and leaves
        // nothing of a smaller one. In KiB.
        .env("MIMALLOC_ARENA_RESERVE", "65536")
        .current_dir("/")
        .stdin(Stdio::from(output))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| {
            let detail = "the compile worker could not be started; the host's log says why";
            Error { source: Some(error.into()), ..Error::new(Code::Unavailable, detail) }
        })
}

/// Writes the code, or the text, and waits until it is on the disk.
///
/// Into the file that the host opened, which is stdin: a worker never makes a file by its name.
/// It may outlive its host for a moment, however it is tied to it, and the next host clears away
/// what the dead one left in `tmp`. What is written after that goes with the file, which has no
/// name any more. A name would be made again, and belong to nothing.
fn keep(bytes: &[u8]) -> io::Result<()> {
    let mut file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    file.write_all(bytes)?;
    file.sync_all()
}

/// Refuses code that is out of all proportion to its component: whoever uploads little must
/// not fill the disk.
fn require_size(code: u64, component: u64) -> Result<(), Failure> {
    let most = CODE_BASE.saturating_add(component.saturating_mul(CODE_PER_BYTE)).min(MAX_CODE);
    if code <= most {
        return Ok(());
    }
    let detail = format!("its code would take {code} bytes; {most} is the most for a component of {component} bytes");
    Err(Failure::Component(detail))
}

/// The whole reason behind an error of the engine, in one line.
pub(in crate::sandbox::wasm) fn reason(error: &wasmtime::Error) -> String {
    crate::model::plain(&format!("{error:#}").replace('\n', "; "), 1000)
}

fn say(message: &Message) {
    if let Ok(mut line) = serde_json::to_vec(message) {
        line.push(b'\n');
        let _ = io::stdout().write_all(&line);
    }
}
