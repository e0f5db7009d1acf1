//! The functions of `wasi:filesystem` 0.3: what 0.2 may, and nothing else.
//!
//! What changes anything, and what takes a path, goes the way of `host`; only how a guest waits
//! for it is another.

use std::fs::{File, FileTimes};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;
use wasmtime::AsContextMut;
use wasmtime::component::{Access as StoreAccess, Accessor, FutureReader, Linker, Resource, StreamReader};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemCtxView};
use wasmtime_wasi::p3::bindings::filesystem::{preopens, types};
use wasmtime_wasi::p3::filesystem::{FilesystemError, FilesystemResult};

use self::types::{
    Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, ErrorCode, Filesize, HostDescriptor,
    HostDescriptorWithStore, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};

use crate::model::Access;
use crate::workspace::{Alone, How, Kind, RelPath};

use super::super::state::State;
use super::open::{Asked, Fd};
use super::stream::Target;
use super::streams::{Ended, Entries, Sink};
use super::{Files, FilesView, MAX_LISTINGS};

type Store = Accessor<State, Files>;
type Result<T> = FilesystemResult<T>;
type End = FutureReader<std::result::Result<(), ErrorCode>>;
type Library = WasiFilesystem;

/// Puts ours in place of WASI's own.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    types::add_to_linker::<State, Files>(linker, State::files)?;
    preopens::add_to_linker::<State, Files>(linker, State::files)
}

/// WASI's own code, which has no directory to begin with.
fn plain(state: &mut State) -> WasiFilesystemCtxView<'_> {
    WasiFilesystemCtxView { ctx: &mut state.files.plain, table: &mut state.table }
}

fn library(store: &Store) -> Accessor<State, Library> {
    store.with_getter::<Library>(plain)
}

/// Asks for something, while the guest's resources are at hand.
fn ask<T>(store: &Store, what: impl FnOnce(&mut FilesView<'_>) -> io::Result<T>) -> Result<T> {
    Ok(store.with(|mut store| what(&mut store.get()))?)
}

/// Changes something below a descriptor, alone.
async fn change<W>(store: &Store, fd: &Fd, (path, verb): (&str, &str), work: W) -> Result<()>
where
    W: FnOnce(&Alone<'_>, &File, &RelPath) -> io::Result<()> + Send + 'static,
{
    let (space, directory, path) = ask(store, |files| {
        let directory = files.directory(fd)?;
        let path = files.changing(path, verb)?;
        Ok((files.files.space()?, directory, path))
    })?;
    Ok(space.alone(move |alone| work(alone, &directory, &path)).await?)
}

/// Opens what was asked for, and puts it into the table.
async fn open(store: &Store, asked: Asked) -> Result<Fd> {
    let found = match asked {
        Asked::Open(found) => found,
        Asked::Allowed(opening) => {
            let opened = opening.open().await?;
            ask(store, |files| files.descriptor(opened))?
        }
    };
    Ok(store.with(|mut store| store.get().table.push(found))?)
}

/// Lets the guest go on with something that it only looks at, and takes it away again.
async fn close<T>(store: &Store, found: Fd, looked: Result<T>) -> Result<T> {
    store.with(|mut store| store.get().table.delete(found))?;
    looked
}

impl types::Host for FilesView<'_> {
    fn convert_error_code(&mut self, error: FilesystemError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }
}

impl HostDescriptor for FilesView<'_> {
    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        self.table.delete(fd)?;
        Ok(())
    }
}

impl preopens::Host for FilesView<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Fd, String)>> {
        self.mounted()
    }
}

/// Writes a stream of the guest's to a file, from a place on or at its end.
fn write(
    mut store: StoreAccess<'_, State, Files>,
    fd: &Fd,
    mut data: StreamReader<u8>,
    at: Option<Filesize>,
) -> wasmtime::Result<End> {
    let (sender, receiver) = oneshot::channel();
    match store.get().target(fd) {
        Ok(target) => data.pipe(&mut store, Sink::new(target, at, Ended::new(sender)))?,
        Err(error) => {
            data.close(&mut store)?;
            // Its other end is in the future below.
            let _ = sender.send(Err(error.into()));
        }
    }
    FutureReader::new(&mut store, receiver)
}

/// The entries of a directory, as they will be read.
fn entries(files: &mut FilesView<'_>, fd: &Fd, ended: Ended) -> io::Result<Entries> {
    let directory = files.directory(fd)?;
    let streamed = files.files.streamed.get_or_insert_default();
    if Arc::strong_count(streamed) > MAX_LISTINGS {
        return Err(rustix::io::Errno::NOMEM.into());
    }
    let counted = Arc::clone(streamed);
    let space = if files.files.access() == Access::None { None } else { Some(files.files.space()?) };
    let reading = async move {
        // Who was given nothing sees an empty directory.
        let Some(space) = space else { return Ok(Vec::new()) };
        let root = RelPath::parse(".")?;
        let listing = space.alone(move |alone| alone.list(&directory, &root, None, usize::MAX)).await?;
        let entry = |entry: crate::workspace::Entry| DirectoryEntry { type_: kind(entry.kind), name: entry.name };
        Ok(listing.entries.into_iter().map(entry).collect())
    };
    Ok(Entries::new(reading, ended, counted))
}

fn kind(kind: Kind) -> DescriptorType {
    match kind {
        Kind::File => DescriptorType::RegularFile,
        Kind::Directory => DescriptorType::Directory,
        Kind::Other => DescriptorType::Other(None),
    }
}

impl HostDescriptorWithStore<State> for Files {
    fn read_via_stream(
        mut store: StoreAccess<'_, State, Self>,
        fd: Fd,
        offset: Filesize,
    ) -> wasmtime::Result<(StreamReader<u8>, End)> {
        Library::read_via_stream(StoreAccess::<State, Library>::new(store.as_context_mut(), plain), fd, offset)
    }

    fn write_via_stream(
        store: StoreAccess<'_, State, Self>,
        fd: Fd,
        data: StreamReader<u8>,
        offset: Filesize,
    ) -> wasmtime::Result<End> {
        write(store, &fd, data, Some(offset))
    }

    fn append_via_stream(store: StoreAccess<'_, State, Self>, fd: Fd, data: StreamReader<u8>) -> wasmtime::Result<End> {
        write(store, &fd, data, None)
    }

    fn read_directory(
        mut store: StoreAccess<'_, State, Self>,
        fd: Fd,
    ) -> wasmtime::Result<(StreamReader<DirectoryEntry>, End)> {
        let (sender, receiver) = oneshot::channel();
        let (refused, refusal) = oneshot::channel();
        let stream = match entries(&mut store.get(), &fd, Ended::new(sender)) {
            Ok(entries) => (StreamReader::new(&mut store, entries)?, receiver),
            Err(error) => {
                let _ = refused.send(Err(error.into()));
                (StreamReader::new(&mut store, std::iter::empty())?, refusal)
            }
        };
        Ok((stream.0, FutureReader::new(&mut store, stream.1)?))
    }

    async fn advise(store: &Store, fd: Fd, offset: Filesize, length: Filesize, advice: Advice) -> Result<()> {
        Library::advise(&library(store), fd, offset, length, advice).await
    }

    async fn sync_data(store: &Store, fd: Fd) -> Result<()> {
        Library::sync_data(&library(store), fd).await
    }

    async fn get_flags(store: &Store, fd: Fd) -> Result<DescriptorFlags> {
        Library::get_flags(&library(store), fd).await
    }

    async fn get_type(store: &Store, fd: Fd) -> Result<DescriptorType> {
        Library::get_type(&library(store), fd).await
    }

    async fn set_size(store: &Store, fd: Fd, size: Filesize) -> Result<()> {
        let Target { space, file, quota } = ask(store, |files| files.target(&fd))?;
        Ok(space.alone(move |alone| alone.set_size(&file, size, quota)).await?)
    }

    async fn set_times(store: &Store, fd: Fd, access: NewTimestamp, change: NewTimestamp) -> Result<()> {
        ask(store, |files| files.require(Access::Write, || "set the times of a file".to_owned()))?;
        Library::set_times(&library(store), fd, access, change).await
    }

    async fn sync(store: &Store, fd: Fd) -> Result<()> {
        Library::sync(&library(store), fd).await
    }

    async fn create_directory_at(store: &Store, fd: Fd, path: String) -> Result<()> {
        let quota = ask(store, |files| Ok(files.files.quota()))?;
        let make = move |alone: &Alone<'_>, from: &File, path: &RelPath| alone.create_directory(from, path, quota);
        change(store, &fd, (&path, "make the directory"), make).await
    }

    async fn stat(store: &Store, fd: Fd) -> Result<DescriptorStat> {
        Library::stat(&library(store), fd).await
    }

    async fn stat_at(store: &Store, fd: Fd, _follow: PathFlags, path: String) -> Result<DescriptorStat> {
        let found = open(store, ask(store, |files| files.ask_to_look(&fd, &path))?).await?;
        let looked = Library::stat(&library(store), Resource::new_borrow(found.rep())).await;
        close(store, found, looked).await
    }

    async fn set_times_at(
        store: &Store,
        fd: Fd,
        _follow: PathFlags,
        path: String,
        access: NewTimestamp,
        changed: NewTimestamp,
    ) -> Result<()> {
        let times = times(access, changed)?;
        let set = move |alone: &Alone<'_>, from: &File, path: &RelPath| alone.set_times(from, path, times);
        change(store, &fd, (&path, "set the times of"), set).await
    }

    async fn link_at(store: &Store, _: Fd, _: PathFlags, old: String, _: Fd, new: String) -> Result<()> {
        ask(store, |files| files.require(Access::Write, || format!("link {old} as {new}")))?;
        Err(ErrorCode::NotPermitted.into())
    }

    async fn open_at(
        store: &Store,
        fd: Fd,
        _follow: PathFlags,
        path: String,
        opening: OpenFlags,
        flags: DescriptorFlags,
    ) -> Result<Fd> {
        let how = how(opening, flags)?;
        open(store, ask(store, |files| files.ask(&fd, &path, how))?).await
    }

    async fn readlink_at(_: &Store, _: Fd, path: String) -> Result<String> {
        // There are none, but those that an operator made, and these lead nowhere.
        RelPath::parse(&path)?;
        Err(ErrorCode::Invalid.into())
    }

    async fn remove_directory_at(store: &Store, fd: Fd, path: String) -> Result<()> {
        let remove = move |alone: &Alone<'_>, from: &File, path: &RelPath| alone.remove_directory(from, path);
        change(store, &fd, (&path, "remove the directory"), remove).await
    }

    async fn rename_at(store: &Store, fd: Fd, old: String, new_fd: Fd, new: String) -> Result<()> {
        let (to, new) =
            ask(store, |files| Ok((files.directory(&new_fd)?, files.changing(&new, "rename something to")?)))?;
        let rename = move |alone: &Alone<'_>, from: &File, old: &RelPath| alone.rename((from, old), (&to, &new));
        change(store, &fd, (&old, "rename"), rename).await
    }

    async fn symlink_at(store: &Store, _: Fd, target: String, path: String) -> Result<()> {
        ask(store, |files| files.require(Access::Write, || format!("link {path} to {target}")))?;
        Err(ErrorCode::NotPermitted.into())
    }

    async fn unlink_file_at(store: &Store, fd: Fd, path: String) -> Result<()> {
        let remove = move |alone: &Alone<'_>, from: &File, path: &RelPath| alone.remove_file(from, path);
        change(store, &fd, (&path, "remove"), remove).await
    }

    async fn is_same_object(store: &Store, a: Fd, b: Fd) -> wasmtime::Result<bool> {
        Library::is_same_object(&library(store), a, b).await
    }

    async fn metadata_hash(store: &Store, fd: Fd) -> Result<MetadataHashValue> {
        Library::metadata_hash(&library(store), fd).await
    }

    async fn metadata_hash_at(store: &Store, fd: Fd, _follow: PathFlags, path: String) -> Result<MetadataHashValue> {
        let found = open(store, ask(store, |files| files.ask_to_look(&fd, &path))?).await?;
        let looked = Library::metadata_hash(&library(store), Resource::new_borrow(found.rep())).await;
        close(store, found, looked).await
    }
}

/// How a guest wants something opened.
fn how(open: OpenFlags, flags: DescriptorFlags) -> Result<How> {
    let synced = DescriptorFlags::FILE_INTEGRITY_SYNC
        | DescriptorFlags::DATA_INTEGRITY_SYNC
        | DescriptorFlags::REQUESTED_WRITE_SYNC;
    if flags.intersects(synced) {
        return Err(ErrorCode::Unsupported.into());
    }
    let how = How {
        read: flags.contains(DescriptorFlags::READ),
        write: flags.contains(DescriptorFlags::WRITE),
        create: open.contains(OpenFlags::CREATE),
        exclusive: open.contains(OpenFlags::EXCLUSIVE),
        truncate: open.contains(OpenFlags::TRUNCATE),
        directory: open.contains(OpenFlags::DIRECTORY),
    };
    if how.directory && (how.create || how.exclusive || how.truncate) {
        return Err(ErrorCode::Invalid.into());
    }
    Ok(how)
}

/// Times as they are set; those that are not to change are left out.
fn times(access: NewTimestamp, change: NewTimestamp) -> Result<FileTimes> {
    let mut times = FileTimes::new();
    if let Some(access) = time(access)? {
        times = times.set_accessed(access);
    }
    if let Some(change) = time(change)? {
        times = times.set_modified(change);
    }
    Ok(times)
}

#[expect(clippy::disallowed_methods, reason = "the time of the disk, which no test sets")]
fn time(time: NewTimestamp) -> Result<Option<SystemTime>> {
    Ok(match time {
        NewTimestamp::NoChange => None,
        NewTimestamp::Now => Some(SystemTime::now()),
        NewTimestamp::Timestamp(at) => {
            let seconds = Duration::from_secs(at.seconds.unsigned_abs());
            let epoch = SystemTime::UNIX_EPOCH;
            let at_second = if at.seconds < 0 { epoch.checked_sub(seconds) } else { epoch.checked_add(seconds) };
            let nanoseconds = Duration::from_nanos(u64::from(at.nanoseconds));
            let at = at_second.and_then(|at| at.checked_add(nanoseconds));
            Some(at.ok_or(ErrorCode::Overflow)?)
        }
    })
}
