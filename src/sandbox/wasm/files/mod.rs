//! `wasi:filesystem` of guests: the owner's workspace as `/workspace`, as far as it is granted.
//!
//! What only looks at something that is open is WASI's own code. What takes a path, and what
//! changes anything, is ours: no link is followed, and every byte is counted before it is
//! there. Both ages of `wasi:filesystem` are so (`host`, `preview3`); another way to files (wasip1
//! without its adapter) has none.

mod denials;
mod host;
mod open;
mod preview3;
mod stream;
mod streams;

use std::io;
use std::sync::Arc;

use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi::filesystem::{Descriptor, Dir, WasiFilesystemCtx, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::{preopens, types};
use wasmtime_wasi::{FsPerms, OpenMode};

use crate::model::{Access, Denial};
use crate::sandbox::{RunContext, SandboxCall};
use crate::workspace::{Quota, Space, WorkspaceGrant, Workspaces};

use super::denials::Denials;
use super::state::State;

/// Where guests see the workspace.
const MOUNT: &str = "/workspace";
/// Directories that a guest may have under way of being listed. Each is in memory as a whole.
const MAX_LISTINGS: usize = 16;

/// The files of one guest.
pub(super) struct GuestFiles {
    grant: WorkspaceGrant,
    context: Arc<RunContext>,
    workspaces: Option<Arc<Workspaces>>,
    space: Option<Arc<Space>>,
    denials: Denials,
    listings: usize,
    /// Shared with each listing under way by 0.3, once there was one.
    streamed: Option<Arc<()>>,
    plain: WasiFilesystemCtx,
}

impl GuestFiles {
    /// What `call` may do. Nothing is opened before the guest asks.
    pub(super) fn new(call: &SandboxCall) -> Self {
        Self {
            grant: call.workspace,
            context: Arc::clone(&call.context),
            workspaces: call.workspaces.clone(),
            space: None,
            denials: Denials::default(),
            listings: 0,
            streamed: None,
            plain: WasiFilesystemCtx::default(),
        }
    }

    /// What was not given.
    pub(super) fn end(mut self) -> Vec<Denial> {
        self.denials.take()
    }

    /// Writes down that `what` was refused, which `wanted` would have allowed.
    fn note(&mut self, wanted: Access, what: &str) {
        if let Some(denial) = denials::denial(&self.grant, wanted, what, &self.context) {
            self.denials.note(denial);
        }
    }

    fn access(&self) -> Access {
        self.grant.access()
    }

    fn quota(&self) -> Quota {
        self.grant.quota
    }

    /// The owner's files.
    fn space(&mut self) -> io::Result<Arc<Space>> {
        if let Some(space) = &self.space {
            return Ok(Arc::clone(space));
        }
        let workspaces = self.workspaces.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let space = workspaces.of(&self.context.owner)?;
        self.space = Some(Arc::clone(&space));
        Ok(space)
    }

    /// What the guest sees as [`MOUNT`].
    fn mount(&mut self) -> io::Result<Option<Dir>> {
        let Some(workspaces) = self.workspaces.clone() else { return Ok(None) };
        let root = match self.access() {
            Access::None => workspaces.empty()?,
            _ => self.space()?.root().try_clone()?,
        };
        Ok(Some(self.directory(root)))
    }

    /// A directory, with the rights that were granted.
    fn directory(&self, file: std::fs::File) -> Dir {
        let (perms, mode) = match self.access() {
            Access::Write => (FsPerms::ReadWrite, OpenMode::READ | OpenMode::WRITE),
            _ => (FsPerms::ReadOnly, OpenMode::READ),
        };
        Dir::new(file, perms, mode, false)
    }
}

/// The files of one guest together with its resources.
pub(super) struct FilesView<'a> {
    pub(super) files: &'a mut GuestFiles,
    pub(super) table: &'a mut ResourceTable,
}

impl FilesView<'_> {
    /// WASI's own code, which has no directory to begin with.
    fn plain(&mut self) -> WasiFilesystemCtxView<'_> {
        WasiFilesystemCtxView { ctx: &mut self.files.plain, table: self.table }
    }
}

struct Files;

impl HasData for Files {
    type Data<'a> = FilesView<'a>;
}

/// Puts our `wasi:filesystem` in place of WASI's own.
///
/// # Errors
///
/// Only if the names are not those of the library.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    types::add_to_linker::<State, Files>(linker, State::files)?;
    preopens::add_to_linker::<State, Files>(linker, State::files)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// The same for `wasi:filesystem` 0.3.
///
/// # Errors
///
/// As above.
pub(super) fn add_preview3_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    preview3::link(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

impl FilesView<'_> {
    fn mounted(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let Some(directory) = self.files.mount()? else { return Ok(Vec::new()) };
        Ok(vec![(self.table.push(Descriptor::Dir(directory))?, MOUNT.to_owned())])
    }
}

impl preopens::Host for FilesView<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        self.mounted()
    }
}
