//! What both ages of `wasi:filesystem` ask before anything is done: which file, and whether it may.

use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;
use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::{Descriptor, File as WasiFile};
use wasmtime_wasi::{FsPerms, OpenMode};

use crate::model::Access;
use crate::workspace::{How, Opened, Quota, RelPath, Space};

use super::FilesView;
use super::stream::Target;

pub(super) type Fd = Resource<Descriptor>;

/// What came of asking to open something.
pub(super) enum Asked {
    /// It is open.
    Open(Descriptor),
    /// It may be sought.
    Allowed(Opening),
}

/// Something that may be opened.
pub(super) struct Opening {
    space: Arc<Space>,
    directory: Arc<File>,
    path: RelPath,
    how: How,
    quota: Quota,
}

impl Opening {
    /// Opens it, when nobody else changes anything.
    pub(super) async fn open(self) -> io::Result<(Opened, How)> {
        let Self { space, directory, path, how, quota } = self;
        Ok((space.alone(move |alone| alone.open(&directory, &path, how, quota)).await?, how))
    }
}

impl FilesView<'_> {
    /// The open directory behind a descriptor.
    pub(super) fn directory(&self, fd: &Fd) -> io::Result<Arc<File>> {
        match self.table.get(fd).map_err(io::Error::other)? {
            Descriptor::Dir(directory) => Ok(Arc::clone(&directory.dir)),
            Descriptor::File(_) => Err(Errno::NOTDIR.into()),
        }
    }

    /// The open file behind a descriptor.
    fn file(&self, fd: &Fd) -> io::Result<Arc<File>> {
        match self.table.get(fd).map_err(io::Error::other)? {
            Descriptor::File(file) => Ok(Arc::clone(&file.file)),
            Descriptor::Dir(_) => Err(Errno::BADF.into()),
        }
    }

    /// Refuses, with a denial, unless so much is granted.
    pub(super) fn require(&mut self, wanted: Access, what: impl FnOnce() -> String) -> io::Result<()> {
        if self.files.access() >= wanted {
            return Ok(());
        }
        self.files.note(wanted, &what());
        Err(Errno::PERM.into())
    }

    /// What is written to through a descriptor.
    pub(super) fn target(&mut self, fd: &Fd) -> io::Result<Target> {
        let file = self.file(fd)?;
        self.require(Access::Write, || "write to a file".to_owned())?;
        Ok(Target { space: self.files.space()?, file, quota: self.files.quota() })
    }

    /// A path at which something is to be changed.
    pub(super) fn changing(&mut self, path: &str, verb: &str) -> io::Result<RelPath> {
        self.require(Access::Write, || format!("{verb} {path}"))?;
        RelPath::parse(path)
    }

    /// Asks to open something below a descriptor.
    pub(super) fn ask(&mut self, fd: &Fd, path: &str, how: How) -> io::Result<Asked> {
        let directory = self.directory(fd)?;
        let writes = how.write || how.create || how.exclusive || how.truncate;
        if writes {
            self.require(Access::Write, || format!("open {path} for writing"))?;
        }
        let parsed = RelPath::parse(path)?;
        if parsed.is_root() && !writes {
            return Ok(Asked::Open(Descriptor::Dir(self.files.directory(directory.try_clone()?))));
        }
        self.require(Access::Read, || format!("open {path}"))?;
        let (space, quota) = (self.files.space()?, self.files.quota());
        Ok(Asked::Allowed(Opening { space, directory, path: parsed, how, quota }))
    }

    /// Asks to open something only to look at it.
    pub(super) fn ask_to_look(&mut self, fd: &Fd, path: &str) -> io::Result<Asked> {
        if self.files.access() == Access::None && !RelPath::parse(path)?.is_root() {
            // The guest sees an empty directory.
            return Err(Errno::NOENT.into());
        }
        self.ask(fd, path, How { read: true, ..How::default() })
    }

    /// What was opened, as the guest has it.
    pub(super) fn descriptor(&self, (opened, how): (Opened, How)) -> io::Result<Descriptor> {
        Ok(match opened {
            Opened::Directory(directory) => Descriptor::Dir(self.files.directory(directory)),
            Opened::File(file) => Descriptor::File(self.wasi_file(file, how)?),
        })
    }

    fn wasi_file(&self, file: Arc<File>, how: How) -> io::Result<WasiFile> {
        let perms = if self.files.access() == Access::Write { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
        let mut mode = if how.write || how.truncate { OpenMode::WRITE } else { OpenMode::READ };
        if how.read {
            mode |= OpenMode::READ;
        }
        let mut made = WasiFile::new(file.try_clone()?, perms, mode, false);
        // The very one that is counted as open.
        made.file = file;
        Ok(made)
    }
}
