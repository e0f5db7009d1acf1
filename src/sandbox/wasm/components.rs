//! Compiled code: where it lies, and what of it is loaded.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use wasmtime::component::{Component, ComponentExportIndex, InstancePre, Linker};
use wasmtime::{Engine, Module, Store};

use crate::files;
use crate::model::{Code, Digest, Error};
use crate::sandbox::Inspection;
use crate::sandbox::shape::Shape;

use super::compile::{RUN, reason};
use super::state::State;
use super::threads::Lumps;
use super::typed::{self, TypedFunction};

/// A component that can be instantiated at once.
pub(super) struct Loaded {
    pub(super) entry: Entry,
    /// Linear memories of one instance.
    pub(super) memories: u32,
    /// Whether its runs hold threads for long.
    pub(super) lumps: Arc<Lumps>,
    forgotten: AtomicBool,
}

impl Loaded {
    /// Whether the component was forgotten since: its runs go on, and nothing of them is kept.
    pub(super) fn is_forgotten(&self) -> bool {
        self.forgotten.load(Ordering::Relaxed)
    }
}

/// What is made an instance of, and where that is entered.
pub(super) enum Entry {
    /// At its `run`, JSON text in and out.
    Run(InstancePre<State>, ComponentExportIndex),
    /// At the function of this name.
    Typed(InstancePre<State>, HashMap<String, TypedFunction>),
    /// At the `run` of its `wasi:cli/run`.
    Command(InstancePre<State>, ComponentExportIndex),
    /// At the `handle` of its `wasi:http/incoming-handler`.
    Http(InstancePre<State>, ComponentExportIndex),
    /// At the `handle` of its `wasi:http/handler` of WASI 0.3.
    AsyncHttp(InstancePre<State>, ComponentExportIndex),
    /// At the `_start` of a core module.
    Module(wasmtime::InstancePre<State>),
}

impl Entry {
    /// Whether what it prints is its output.
    pub(super) fn is_program(&self) -> bool {
        matches!(self, Self::Command(..) | Self::Module(_))
    }

    /// Makes an instance and calls nothing.
    pub(super) async fn instantiate(&self, store: &mut Store<State>) -> wasmtime::Result<()> {
        match self {
            Self::Run(instance, _)
            | Self::Typed(instance, _)
            | Self::Command(instance, _)
            | Self::Http(instance, _)
            | Self::AsyncHttp(instance, _) => instance.instantiate_async(store).await.map(drop),
            Self::Module(instance) => instance.instantiate_async(store).await.map(drop),
        }
    }
}

/// The compiled components of one engine configuration.
pub(super) struct Components {
    engine: Engine,
    linker: Linker<State>,
    modules: wasmtime::Linker<State>,
    directory: PathBuf,
    /// The same directory, open since it was looked at: what is loaded comes out of this one,
    /// whatever lies at its path by then.
    opened: File,
    loaded: Mutex<HashMap<Digest, Arc<Loaded>>>,
}

impl Components {
    /// Opens the directory with the code for this engine, which nobody else may write.
    ///
    /// # Errors
    ///
    /// `unavailable` if somebody else could put code there.
    pub(super) fn open(
        engine: Engine,
        (linker, modules): (Linker<State>, wasmtime::Linker<State>),
        directory: PathBuf,
    ) -> Result<Self, Error> {
        files::create_private_directory(&directory).map_err(Error::internal)?;
        let opened = File::open(&directory).map_err(Error::internal)?;
        let above = directory.parent().unwrap_or(&directory);
        for directory in [above, &directory] {
            if let Some(why) = files::foreign_writers(directory).map_err(Error::internal)? {
                let detail = format!("the code cache is not safe to load from: {why}; remove `cache`, it is made anew");
                return Err(Error::new(Code::Unavailable, detail));
            }
        }
        Ok(Self { engine, linker, modules, directory, opened, loaded: Mutex::default() })
    }

    /// Whether the component's code is there. What others could have written is not: it is
    /// made anew.
    pub(super) fn has_code(&self, digest: Digest) -> bool {
        self.code(digest).is_ok()
    }

    fn code(&self, digest: Digest) -> io::Result<File> {
        files::open_own(&self.opened, &name(digest, "cwasm"))
    }

    fn file(&self, digest: Digest, kind: &str) -> PathBuf {
        self.directory.join(name(digest, kind))
    }

    /// What was found in the component, if its code is there too.
    pub(super) fn inspection(&self, digest: Digest) -> Option<Inspection> {
        if !self.has_code(digest) {
            return None;
        }
        self.notes(digest)
    }

    pub(super) fn notes(&self, digest: Digest) -> Option<Inspection> {
        let notes = std::fs::read(self.file(digest, "json")).ok()?;
        serde_json::from_slice(&notes).ok()
    }

    /// The component, if it is in memory.
    pub(super) fn loaded(&self, digest: Digest) -> Option<Arc<Loaded>> {
        self.loaded.lock().get(&digest).cloned()
    }

    /// The component, from memory or from its code.
    ///
    /// # Errors
    ///
    /// `compiling` if its code is not there, `invalid_component` if it does not fit this host.
    pub(super) fn get(&self, digest: Digest) -> Result<Arc<Loaded>, Error> {
        if let Some(loaded) = self.loaded(digest) {
            return Ok(loaded);
        }
        let loaded = Arc::new(self.load(digest)?);
        // Of two that loaded it at one time one is there, so that it can be told when it is forgotten.
        Ok(Arc::clone(self.loaded.lock().entry(digest).or_insert(loaded)))
    }

    /// Forgets a component, but not its code.
    pub(super) fn forget(&self, digest: Digest) {
        if let Some(loaded) = self.loaded.lock().remove(&digest) {
            loaded.forgotten.store(true, Ordering::Relaxed);
        }
    }

    /// Removes all code, also that of other engines, but the code of these.
    ///
    /// # Errors
    ///
    /// As the system gives them.
    pub(super) fn forget_all_but(&self, digests: &HashSet<Digest>) -> io::Result<()> {
        let known: HashSet<String> = digests.iter().map(Digest::hex).collect();
        let Some(cache) = self.directory.parent() else { return Ok(()) };
        for engine in std::fs::read_dir(cache)? {
            let engine = engine?.path();
            if !engine.is_dir() {
                continue;
            }
            for file in std::fs::read_dir(engine)? {
                let file = file?.path();
                if file.file_stem().and_then(|stem| stem.to_str()).is_none_or(|stem| !known.contains(stem)) {
                    std::fs::remove_file(file)?;
                }
            }
        }
        Ok(())
    }

    fn load(&self, digest: Digest) -> Result<Loaded, Error> {
        let absent = |_| Error::new(Code::Compiling, "the skill is being compiled; try again soon");
        let file = self.code(digest).map_err(absent)?;
        // The engine wants a path; this one leads to the very file that was looked at.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        match self.notes(digest).unwrap_or_default().shape {
            Shape::Module => self.load_module(&path),
            shape => self.load_component(&path, shape),
        }
    }

    fn load_component(&self, path: &str, shape: Shape) -> Result<Loaded, Error> {
        #[expect(unsafe_code, reason = "the door through which components' code enters the process")]
        // SAFETY: the directory was checked to be ours alone when it was opened, the file is ours
        // alone, and only the compile workers' output is renamed into it, whole and synced.
        let component = unsafe { Component::deserialize_file(&self.engine, path) }.map_err(unfit)?;
        let instance = self.linker.instantiate_pre(&component).map_err(unfit)?;
        let entry = entry(&component, instance, shape)?;
        let memories = component.resources_required().map_or(0, |needs| needs.num_memories);
        Ok(Loaded { entry, memories, lumps: Arc::default(), forgotten: AtomicBool::new(false) })
    }

    fn load_module(&self, path: &str) -> Result<Loaded, Error> {
        #[expect(unsafe_code, reason = "the door through which modules' code enters the process")]
        // SAFETY: as for components.
        let module = unsafe { Module::deserialize_file(&self.engine, path) }.map_err(unfit)?;
        let entry = Entry::Module(self.modules.instantiate_pre(&module).map_err(unfit)?);
        let memories = module.resources_required().num_memories;
        Ok(Loaded { entry, memories, lumps: Arc::default(), forgotten: AtomicBool::new(false) })
    }
}

fn unfit(error: wasmtime::Error) -> Error {
    Error::new(Code::InvalidComponent, format!("it does not fit this host: {}", reason(&error)))
}

/// Where a component of this shape is entered.
fn entry(component: &Component, instance: InstancePre<State>, shape: Shape) -> Result<Entry, Error> {
    let missing = |name: String| Error::new(Code::InvalidComponent, format!("it exports no `{name}`"));
    let within = |interface: String, function| {
        let index = component.get_export_index(None, interface.as_str());
        let index = index.and_then(|index| component.get_export_index(Some(&index), function));
        index.ok_or_else(|| missing(interface))
    };
    match shape {
        Shape::Skill => {
            let run = component.get_export_index(None, RUN);
            run.map(|run| Entry::Run(instance, run)).ok_or_else(|| missing(RUN.to_owned()))
        }
        Shape::Typed(exports) => {
            let functions = typed::functions(component, exports).map_err(missing)?;
            Ok(Entry::Typed(instance, functions))
        }
        Shape::Command(interface) => Ok(Entry::Command(instance, within(interface, "run")?)),
        Shape::Http(interface) => Ok(Entry::Http(instance, within(interface, "handle")?)),
        Shape::AsyncHttp(interface) => Ok(Entry::AsyncHttp(instance, within(interface, "handle")?)),
        Shape::Module => Err(missing("component".to_owned())),
    }
}

fn name(digest: Digest, kind: &str) -> PathBuf {
    PathBuf::from(digest.hex()).with_extension(kind)
}
