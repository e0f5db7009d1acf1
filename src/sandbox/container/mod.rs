//! Commands in container images, run by Podman or Docker through their own clients.
//!
//! The clients and not the engines' sockets: Podman has no daemon that would listen, its Docker-like
//! socket does not tell which container the system ended for its memory, and loses exit codes of
//! containers that remove themselves. The same few arguments mean the same to both clients.

mod argv;
mod client;
mod direct;
mod engine;
mod images;
mod job;
mod leftovers;
mod live;
mod pump;
mod run;
mod settle;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;

use crate::files;
use crate::model::{Code, ContainerPolicy, ContainerProgram, Digest, Error, ImageRef};

use super::{ReadyRun, SandboxCall};

use self::engine::{Engine, Engines};
use self::live::Live;

pub use self::direct::{SandboxConfig, SandboxResult, SandboxRunner};
pub use self::images::Image;

/// What system calls a container may make; what is not in it is refused.
const SECCOMP: &str = include_str!("seccomp.json");
/// The file with them, in the directory of the sandbox.
const SECCOMP_FILE: &str = "seccomp.json";

/// How the container sandbox works.
#[derive(Clone, Debug)]
pub struct ContainerSettings {
    /// What the operator says.
    pub policy: ContainerPolicy,
    /// A directory for what runs need meanwhile, which nobody else may write. It is made when it is
    /// first needed.
    pub directory: PathBuf,
}

/// Runs commands in containers, each call in a fresh one.
pub struct ContainerSandbox {
    inner: Arc<Inner>,
}

struct Inner {
    settings: ContainerSettings,
    engines: Engines,
    live: Arc<Live>,
    /// Where runs go on.
    home: Handle,
    /// Begins the names of our containers, and of no other process's.
    prefix: String,
    /// Says whose they are, also after a crash.
    label: String,
    /// What was made ready, by digest.
    programs: RwLock<HashMap<Digest, Arc<ContainerProgram>>>,
    /// Whether there is any.
    has_programs: AtomicBool,
    /// Which image a program runs in, as it was found.
    found: Mutex<HashMap<Digest, String>>,
}

impl ContainerSandbox {
    /// Looks for nothing yet, but for what a dead host left. Must be called on a tokio runtime.
    pub fn new(settings: ContainerSettings) -> Self {
        let engines = Engines::new(settings.policy.clone());
        let owner = Digest::of(settings.directory.as_os_str().as_encoded_bytes()).hex();
        let process = uuid::Uuid::new_v4().simple().to_string();
        let inner = Inner {
            engines,
            live: Arc::default(),
            home: Handle::current(),
            prefix: format!("skillvisor-{}-", &process[..12]),
            label: format!("skillvisor={}", &owner[..32]),
            programs: RwLock::default(),
            has_programs: AtomicBool::new(false),
            found: Mutex::default(),
            settings,
        };
        let inner = Arc::new(inner);
        leftovers::clear(&inner);
        Self { inner }
    }

    /// Whether a digest is that of a command that was made ready here. Costs nothing where there is none.
    pub(super) fn has(&self, digest: Digest) -> bool {
        self.inner.has_programs.load(Ordering::Relaxed) && self.inner.programs.read().contains_key(&digest)
    }

    /// Takes note of a command, so that it can run.
    pub(super) fn know(&self, digest: Digest, program: &Arc<ContainerProgram>) {
        self.inner.programs.write().insert(digest, Arc::clone(program));
        self.inner.has_programs.store(true, Ordering::Relaxed);
    }

    /// Forgets a command that no skill needs any more.
    pub(super) fn forget(&self, digest: Digest) {
        if self.has(digest) {
            self.inner.programs.write().remove(&digest);
            self.inner.found.lock().remove(&digest);
        }
    }

    /// Whether a command could run now.
    ///
    /// # Errors
    ///
    /// `image_not_allowed`, and `unavailable` with the reason and what to do.
    pub(super) async fn look(&self, digest: Digest, program: &ContainerProgram) -> Result<(), Error> {
        self.inner.image(digest, program).await.map(drop)
    }

    /// A run that can begin, of a command that is known.
    ///
    /// # Errors
    ///
    /// `internal` for one that is not.
    pub(super) fn ready(&self, call: SandboxCall) -> Result<Box<dyn ReadyRun>, Error> {
        let program = self.inner.programs.read().get(&call.digest).map(Arc::clone);
        let program = program.ok_or_else(|| Error::internal("a container skill was not made ready"))?;
        Ok(Box::new(run::ContainerRun::new(Arc::clone(&self.inner), program, call)))
    }

    /// Runs what operators and embedders name themselves.
    pub fn runner(&self) -> SandboxRunner {
        SandboxRunner::new(Arc::clone(&self.inner))
    }
}

impl Inner {
    fn policy(&self) -> &ContainerPolicy {
        &self.settings.policy
    }

    /// The engine and the id of the image that a command runs in.
    ///
    /// # Errors
    ///
    /// `image_not_allowed`, and `unavailable` with the reason and what to do.
    async fn image(&self, digest: Digest, program: &ContainerProgram) -> Result<(Arc<Engine>, String), Error> {
        self.policy().require_allowed(&program.image)?;
        let engine = self.engines.get().await?;
        let known = self.found.lock().get(&digest).cloned();
        if let Some(id) = known {
            return Ok((engine, id));
        }
        let name = program.id.clone().unwrap_or_else(|| program.image.whole());
        let found = self.find(&engine, &name).await?;
        let id = found.ok_or_else(|| absent(&program.image, program.id.is_some()))?;
        self.found.lock().insert(digest, id.clone());
        Ok((engine, id))
    }

    /// The id of an image that is there.
    async fn find(&self, engine: &Engine, name: &str) -> Result<Option<String>, Error> {
        images::find(&engine.client, name).await.inspect_err(|_| self.engines.doubt())
    }

    /// Something went wrong with the engine, or with an image: it is looked for again.
    fn doubt(&self, digest: Digest) {
        self.engines.doubt();
        self.found.lock().remove(&digest);
    }

    /// A private directory of its own for one run, and the file with what it may ask the system.
    fn directory(&self, name: &str) -> std::io::Result<(RunDirectory, PathBuf)> {
        let base = &self.settings.directory;
        files::create_private_directory(base)?;
        let seccomp = base.join(SECCOMP_FILE);
        if std::fs::read(&seccomp).map_or(true, |bytes| bytes != SECCOMP.as_bytes()) {
            let unfinished = base.join(format!("{name}.json"));
            files::write_durably(&unfinished, SECCOMP.as_bytes())?;
            std::fs::rename(unfinished, &seccomp)?;
        }
        let own = RunDirectory(base.join(name));
        files::create_private_directory(&own.0)?;
        Ok((own, seccomp))
    }
}

/// What to say where an image is not there.
fn absent(image: &ImageRef, had: bool) -> Error {
    let again = if had && !image.is_pinned() {
        ", and if its tag means another image by now, register another version"
    } else {
        ""
    };
    let detail = format!("the image {image} is not on this host; `skillvisor images pull {image}` fetches it{again}");
    Error { retry_after_s: None, ..Error::new(Code::Unavailable, detail) }
}

/// A directory that goes with its run.
struct RunDirectory(PathBuf);

impl RunDirectory {
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
