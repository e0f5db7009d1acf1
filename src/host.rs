//! A whole host without a face: everything is built here, once.

mod library;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::access::Access;
use crate::executor::{AdmissionSettings, Executor};
use crate::files;
use crate::model::{Clock, Code, Error};
use crate::registry::Registry;
use crate::sandbox::{CompileSettings, SandboxProvider, WasmSandbox, WasmSettings};
use crate::store::Store;

/// The file with the first admin key's secret, for the local command line.
pub const ADMIN_KEY_FILE: &str = "admin.key";
/// The file that is locked while a host uses the directory.
pub const LOCK_FILE: &str = "lock";

/// What is said of a directory that another host uses.
const LOCKED: &str = "the data directory is locked: another skillvisor uses it";

/// Whether [`Host::open`] failed because another host uses the directory.
pub fn is_locked(error: &Error) -> bool {
    error.code == Code::Unavailable && error.detail == LOCKED
}

/// How a host is built.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// The one directory with everything the host keeps.
    pub data_dir: PathBuf,
    /// Secret of the first admin key; a new one is made if there is none.
    pub admin_key: Option<String>,
    /// How many executions may run and wait.
    pub admission: AdmissionSettings,
    /// How components are compiled.
    pub compile: CompileSettings,
    /// The time of day.
    pub clock: Clock,
}

impl HostOptions {
    /// The defaults, with everything in `data_dir` and `program` to compile components:
    /// what [`compile_worker`](crate::compile_worker) gives at the start of `main`, or the path
    /// of a `skillvisor` of this version. With any other program nothing can be registered:
    /// the host says `unavailable`, and never compiles in its own process.
    pub fn new(data_dir: impl Into<PathBuf>, program: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            admin_key: None,
            admission: AdmissionSettings {
                concurrency_host: 256,
                concurrency_per_owner: 128,
                queue_host: 4096,
                queue_per_owner: 1024,
            },
            compile: CompileSettings {
                program: program.into(),
                memory_mb: 2048,
                timeout: Duration::from_secs(120),
                workers: 2,
            },
            clock: Clock::System,
        }
    }
}

/// A running host. Dropping the last clone gives the data directory free.
#[derive(Clone)]
pub struct Host {
    /// Keys.
    pub access: Arc<Access>,
    /// Skills.
    pub(crate) registry: Arc<Registry>,
    /// Runs.
    pub(crate) executor: Arc<Executor>,
    /// What is remembered.
    pub(crate) store: Store,
    /// The directory for unfinished files.
    pub(crate) temporary: PathBuf,
    _lock: Arc<File>,
}

impl Host {
    /// Opens the data directory, ends what a dead host left open, and loads the skills.
    ///
    /// # Errors
    ///
    /// `unavailable` if another host uses the directory or somebody else may write it.
    pub async fn open(options: HostOptions) -> Result<Self, Error> {
        // Compile workers have another working directory. A program without a folder is
        // looked for in PATH.
        let dir = std::path::absolute(options.data_dir).map_err(Error::internal)?;
        let mut compile = options.compile;
        if compile.program.components().count() > 1 {
            compile.program = std::path::absolute(compile.program).map_err(Error::internal)?;
        }
        let lock = lock(&dir)?;
        let temporary = dir.join("tmp");
        // Whatever lies there is unfinished work of a host that is gone.
        let _ = std::fs::remove_dir_all(&temporary);
        let blobs = dir.join("blobs");
        for directory in [&temporary, &blobs] {
            files::create_private_directory(directory).map_err(Error::internal)?;
        }
        let store = Store::open(&dir)?;
        let interrupted = store.interrupt_open_executions(options.clock.now_ms()).await?;
        if interrupted > 0 {
            tracing::warn!(executions = interrupted, "Executions that a dead host left open were closed");
        }
        let access = Arc::new(Access::open(store.clone(), options.clock.clone()).await?);
        if !access.has_admin() {
            first_admin(&access, &dir, options.admin_key).await?;
        }
        let instances = u32::try_from(options.admission.concurrency_host).unwrap_or(u32::MAX);
        let wasm = WasmSettings { cache: dir.join("cache"), temporary: temporary.clone(), instances, compile };
        let sandbox: Arc<dyn SandboxProvider> = Arc::new(WasmSandbox::new(wasm)?);
        let registry = Registry::open(store.clone(), Arc::clone(&sandbox), options.clock.clone(), blobs).await?;
        let executor = Executor::new(store.clone(), Arc::clone(&registry), sandbox, options.clock, options.admission);
        Ok(Self { access, registry, executor, store, temporary, _lock: Arc::new(lock) })
    }

    /// Writes out what is under way and closes the database.
    pub async fn close(&self) {
        self.store.close().await;
    }
}

/// Locks the data directory for this process, after making sure that it is ours alone.
fn lock(dir: &Path) -> Result<File, Error> {
    files::create_private_directory(dir).map_err(Error::internal)?;
    if let Some(why) = files::foreign_writers(dir).map_err(Error::internal)? {
        return Err(Error::new(Code::Unavailable, format!("the data directory is not safe to use: {why}")));
    }
    let path = dir.join(LOCK_FILE);
    let file = File::options().create(true).truncate(false).write(true).open(path).map_err(Error::internal)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| Error::new(Code::Unavailable, LOCKED))?;
    Ok(file)
}

/// Makes the first admin key. Its file comes before its row: a crash in between leaves a file
/// that the next start replaces, and never a key whose secret nobody knows.
async fn first_admin(access: &Access, dir: &Path, secret: Option<String>) -> Result<(), Error> {
    if let Some(secret) = secret {
        return access.create_first_admin(&secret).await;
    }
    let secret = crate::access::new_secret()?;
    let path = dir.join(ADMIN_KEY_FILE);
    let _ = std::fs::remove_file(&path);
    files::write_durably(&path, secret.as_bytes()).map_err(Error::internal)?;
    files::sync_directory(dir).map_err(Error::internal)?;
    access.create_first_admin(&secret).await
}
