//! The functions of `wasi:filesystem/types`.

use std::fs::{File, FileTimes};
use std::io;
use std::time::{Duration, SystemTime};

use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, ErrorCode, Filesize, HostDescriptor,
    HostDirectoryEntryStream, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult, ReaddirIterator};

use crate::model::Access;
use crate::workspace::{Alone, How, RelPath};

use super::open::{Asked, Fd};
use super::stream::{FileStream, Target};
use super::{FilesView, MAX_LISTINGS};

impl FilesView<'_> {
    /// Changes something below a descriptor, alone.
    async fn change<W>(&mut self, fd: &Fd, path: &str, verb: &str, work: W) -> FsResult<()>
    where
        W: FnOnce(&Alone<'_>, &File, &RelPath) -> io::Result<()> + Send + 'static,
    {
        let directory = self.directory(fd)?;
        let path = self.changing(path, verb)?;
        Ok(self.files.space()?.alone(move |alone| work(alone, &directory, &path)).await?)
    }

    /// Opens what was asked for, and puts it into the table.
    async fn open(&mut self, asked: Asked) -> FsResult<Fd> {
        let found = match asked {
            Asked::Open(found) => found,
            Asked::Allowed(opening) => {
                let opened = opening.open().await?;
                self.descriptor(opened)?
            }
        };
        Ok(self.table.push(found)?)
    }
}

impl types::Host for FilesView<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        self.plain().convert_error_code(error)
    }

    fn filesystem_error_code(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>> {
        self.plain().filesystem_error_code(error)
    }
}

impl HostDescriptor for FilesView<'_> {
    fn read_via_stream(&mut self, fd: Fd, offset: Filesize) -> FsResult<Resource<DynInputStream>> {
        self.plain().read_via_stream(fd, offset)
    }

    fn write_via_stream(&mut self, fd: Fd, offset: Filesize) -> FsResult<Resource<DynOutputStream>> {
        let stream: DynOutputStream = Box::new(FileStream::new(self.target(&fd)?, Some(offset)));
        Ok(self.table.push(stream)?)
    }

    fn append_via_stream(&mut self, fd: Fd) -> FsResult<Resource<DynOutputStream>> {
        let stream: DynOutputStream = Box::new(FileStream::new(self.target(&fd)?, None));
        Ok(self.table.push(stream)?)
    }

    async fn advise(&mut self, fd: Fd, offset: Filesize, length: Filesize, advice: Advice) -> FsResult<()> {
        self.plain().advise(fd, offset, length, advice).await
    }

    async fn sync_data(&mut self, fd: Fd) -> FsResult<()> {
        self.plain().sync_data(fd).await
    }

    async fn get_flags(&mut self, fd: Fd) -> FsResult<DescriptorFlags> {
        self.plain().get_flags(fd).await
    }

    async fn get_type(&mut self, fd: Fd) -> FsResult<DescriptorType> {
        self.plain().get_type(fd).await
    }

    async fn set_size(&mut self, fd: Fd, size: Filesize) -> FsResult<()> {
        let Target { space, file, quota } = self.target(&fd)?;
        Ok(space.alone(move |alone| alone.set_size(&file, size, quota)).await?)
    }

    async fn set_times(&mut self, fd: Fd, access: NewTimestamp, change: NewTimestamp) -> FsResult<()> {
        self.require(Access::Write, || "set the times of a file".to_owned())?;
        self.plain().set_times(fd, access, change).await
    }

    async fn read(&mut self, fd: Fd, length: Filesize, offset: Filesize) -> FsResult<(Vec<u8>, bool)> {
        self.plain().read(fd, length, offset).await
    }

    async fn write(&mut self, fd: Fd, buffer: Vec<u8>, offset: Filesize) -> FsResult<Filesize> {
        let length = buffer.len() as Filesize;
        self.target(&fd)?.write(buffer.into(), Some(offset)).await?;
        Ok(length)
    }

    async fn read_directory(&mut self, fd: Fd) -> FsResult<Resource<ReaddirIterator>> {
        if self.files.listings >= MAX_LISTINGS {
            return Err(ErrorCode::InsufficientMemory.into());
        }
        let listing = self.plain().read_directory(fd).await?;
        self.files.listings += 1;
        Ok(listing)
    }

    async fn sync(&mut self, fd: Fd) -> FsResult<()> {
        self.plain().sync(fd).await
    }

    async fn create_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        let quota = self.files.quota();
        let make = move |alone: &Alone<'_>, from: &File, path: &RelPath| alone.create_directory(from, path, quota);
        self.change(&fd, &path, "make the directory", make).await
    }

    async fn stat(&mut self, fd: Fd) -> FsResult<DescriptorStat> {
        self.plain().stat(fd).await
    }

    async fn stat_at(&mut self, fd: Fd, _follow: PathFlags, path: String) -> FsResult<DescriptorStat> {
        let asked = self.ask_to_look(&fd, &path)?;
        let found = self.open(asked).await?;
        let stat = self.plain().stat(Resource::new_borrow(found.rep())).await;
        self.table.delete(found)?;
        stat
    }

    async fn set_times_at(
        &mut self,
        fd: Fd,
        _follow: PathFlags,
        path: String,
        access: NewTimestamp,
        change: NewTimestamp,
    ) -> FsResult<()> {
        let times = times(access, change)?;
        let set = move |alone: &Alone<'_>, from: &File, path: &RelPath| alone.set_times(from, path, times);
        self.change(&fd, &path, "set the times of", set).await
    }

    async fn link_at(&mut self, _: Fd, _: PathFlags, old: String, _: Fd, new: String) -> FsResult<()> {
        self.require(Access::Write, || format!("link {old} as {new}"))?;
        Err(ErrorCode::NotPermitted.into())
    }

    async fn open_at(
        &mut self,
        fd: Fd,
        _follow: PathFlags,
        path: String,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Fd> {
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
        let asked = self.ask(&fd, &path, how)?;
        self.open(asked).await
    }

    async fn readlink_at(&mut self, _: Fd, path: String) -> FsResult<String> {
        // There are none, but those that an operator made, and these lead nowhere.
        RelPath::parse(&path)?;
        Err(ErrorCode::Invalid.into())
    }

    async fn remove_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        let remove = move |alone: &Alone<'_>, from: &File, path: &RelPath| alone.remove_directory(from, path);
        self.change(&fd, &path, "remove the directory", remove).await
    }

    async fn rename_at(&mut self, fd: Fd, old: String, new_fd: Fd, new: String) -> FsResult<()> {
        let to = self.directory(&new_fd)?;
        let new = self.changing(&new, "rename something to")?;
        let rename = move |alone: &Alone<'_>, from: &File, old: &RelPath| alone.rename((from, old), (&to, &new));
        self.change(&fd, &old, "rename", rename).await
    }

    async fn symlink_at(&mut self, _: Fd, target: String, path: String) -> FsResult<()> {
        self.require(Access::Write, || format!("link {path} to {target}"))?;
        Err(ErrorCode::NotPermitted.into())
    }

    async fn unlink_file_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        let remove = move |alone: &Alone<'_>, from: &File, path: &RelPath| alone.remove_file(from, path);
        self.change(&fd, &path, "remove", remove).await
    }

    async fn is_same_object(&mut self, a: Fd, b: Fd) -> wasmtime::Result<bool> {
        self.plain().is_same_object(a, b).await
    }

    async fn metadata_hash(&mut self, fd: Fd) -> FsResult<MetadataHashValue> {
        self.plain().metadata_hash(fd).await
    }

    async fn metadata_hash_at(&mut self, fd: Fd, _follow: PathFlags, path: String) -> FsResult<MetadataHashValue> {
        let asked = self.ask_to_look(&fd, &path)?;
        let found = self.open(asked).await?;
        let hash = self.plain().metadata_hash(Resource::new_borrow(found.rep())).await;
        self.table.delete(found)?;
        hash
    }

    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        HostDescriptor::drop(&mut self.plain(), fd)
    }
}

impl HostDirectoryEntryStream for FilesView<'_> {
    async fn read_directory_entry(&mut self, stream: Resource<ReaddirIterator>) -> FsResult<Option<DirectoryEntry>> {
        self.plain().read_directory_entry(stream).await
    }

    fn drop(&mut self, stream: Resource<ReaddirIterator>) -> wasmtime::Result<()> {
        self.files.listings = self.files.listings.saturating_sub(1);
        HostDirectoryEntryStream::drop(&mut self.plain(), stream)
    }
}

/// Times as they are set; those that are not to change are left out.
fn times(access: NewTimestamp, change: NewTimestamp) -> FsResult<FileTimes> {
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
fn time(time: NewTimestamp) -> FsResult<Option<SystemTime>> {
    Ok(match time {
        NewTimestamp::NoChange => None,
        NewTimestamp::Now => Some(SystemTime::now()),
        NewTimestamp::Timestamp(at) => {
            let nanoseconds = Duration::from_nanos(u64::from(at.nanoseconds));
            let since = Duration::from_secs(at.seconds).checked_add(nanoseconds);
            let at = since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
            Some(at.ok_or(ErrorCode::Overflow)?)
        }
    })
}
