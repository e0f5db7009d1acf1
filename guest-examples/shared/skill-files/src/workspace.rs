//! The workspace, over `wasi:filesystem` itself: its words for what went wrong are more than those of
//! a standard library.

use std::time::{Duration, UNIX_EPOCH};

use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, ErrorCode, OpenFlags, PathFlags,
    filesystem_error_code,
};
use wasip2::io::streams::StreamError;
use wasip2::random::random::get_random_u64;

use crate::{FilePath, MAX_BYTES, Refusal};

/// Most bytes that the host takes in one piece for the end of a file.
const PIECE: usize = 4096;

/// What something in the workspace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// Something else, which is left alone.
    Other,
}

impl Kind {
    fn of(kind: DescriptorType) -> Self {
        match kind {
            DescriptorType::RegularFile => Self::File,
            DescriptorType::Directory => Self::Folder,
            _ => Self::Other,
        }
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Folder => "directory",
            Self::Other => "other",
        }
    }
}

/// What is known of something.
#[derive(Clone, Debug)]
pub struct Stat {
    /// What it is.
    pub kind: Kind,
    /// Its bytes.
    pub size: u64,
    /// When it was changed, as RFC 3339.
    pub modified_at: Option<String>,
}

/// Something in a folder.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name there.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// In the place of what is there.
    Replace,
    /// Only if nothing is there.
    New,
    /// Behind what is there.
    Append,
}

/// The files of the caller's owner.
pub struct Workspace {
    root: Descriptor,
}

impl Workspace {
    /// Opens it.
    pub fn open() -> Result<Self, Refusal> {
        let mut all = get_directories().into_iter();
        let found = all.find(|(_, path)| path == "/workspace");
        let (root, _) =
            found.ok_or_else(|| Refusal::new("denied", "this host gives no workspace"))?;
        Ok(Self { root })
    }

    fn open_at(
        &self,
        path: &FilePath,
        flags: OpenFlags,
        mode: DescriptorFlags,
    ) -> Result<Descriptor, Refusal> {
        let opened = self
            .root
            .open_at(PathFlags::empty(), path.as_str(), flags, mode);
        opened.map_err(|error| Refusal::of(path.as_str(), error))
    }

    /// What is known of something.
    pub fn stat(&self, path: &FilePath) -> Result<Stat, Refusal> {
        let stat = if path.as_str().is_empty() {
            self.root.stat()
        } else {
            self.root.stat_at(PathFlags::empty(), path.as_str())
        };
        stat.map(of_stat)
            .map_err(|error| Refusal::of(path.as_str(), error))
    }

    /// At most so many bytes of a file from a place on.
    pub fn read(&self, path: &FilePath, offset: u64, most: u64) -> Result<Vec<u8>, Refusal> {
        let file = self.open_at(path, OpenFlags::empty(), DescriptorFlags::READ)?;
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < most {
            let read = bytes.len() as u64;
            let (piece, end) = file
                .read(most - read, offset.saturating_add(read))
                .map_err(|error| Refusal::of(path.as_str(), error))?;
            let is_over = end || piece.is_empty();
            bytes.extend(piece);
            if is_over {
                break;
            }
        }
        bytes.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        Ok(bytes)
    }

    /// Writes a file, and makes the folders above it.
    pub fn write(&self, path: &FilePath, bytes: &[u8], way: Way) -> Result<(), Refusal> {
        for folder in path.folders() {
            match self.root.create_directory_at(folder) {
                Ok(()) | Err(ErrorCode::Exist) => {}
                Err(error) => return Err(Refusal::of(folder, error)),
            }
        }
        match way {
            Way::Replace => self.replace(path, bytes),
            Way::New => self.create(path, bytes),
            Way::Append => self.append(path, bytes),
        }
    }

    /// Writes beside it and puts that in its place: whoever reads sees the old or the new.
    fn replace(&self, path: &FilePath, bytes: &[u8]) -> Result<(), Refusal> {
        if self.stat(path).is_ok_and(|stat| stat.kind != Kind::File) {
            return Err(Refusal::of(path.as_str(), ErrorCode::IsDirectory));
        }
        let beside = path
            .parent()
            .join(&format!(".part-{:016x}", get_random_u64()));
        self.create(&beside, bytes).map_err(|no| Refusal {
            message: no.message.replace(beside.as_str(), path.as_str()),
            ..no
        })?;
        let moved = self
            .root
            .rename_at(beside.as_str(), &self.root, path.as_str());
        moved.map_err(|error| {
            let _ = self.root.unlink_file_at(beside.as_str());
            Refusal::of(path.as_str(), error)
        })
    }

    fn create(&self, path: &FilePath, bytes: &[u8]) -> Result<(), Refusal> {
        let new = OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
        let file = self.open_at(path, new, DescriptorFlags::WRITE)?;
        let written = file.write(bytes, 0).and_then(|_| file.sync_data());
        drop(file);
        written.map_err(|error| {
            let _ = self.root.unlink_file_at(path.as_str());
            Refusal::of(path.as_str(), error)
        })
    }

    fn append(&self, path: &FilePath, bytes: &[u8]) -> Result<(), Refusal> {
        let file = self.open_at(path, OpenFlags::CREATE, DescriptorFlags::WRITE)?;
        let refused = |error| Refusal::of(path.as_str(), error);
        let stream = file.append_via_stream().map_err(refused)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            // As much at once as the host takes: one piece is written as a whole, or not at all.
            stream.subscribe().block();
            let room = stream.check_write().map_err(|error| broken(path, &error))?;
            let room = usize::try_from(room).unwrap_or(usize::MAX);
            let (piece, more) = rest.split_at(rest.len().min(room.max(1)));
            let written = if room == 0 {
                stream.blocking_write_and_flush(&piece[..piece.len().min(PIECE)])
            } else {
                stream.write(piece).and_then(|()| stream.blocking_flush())
            };
            written.map_err(|error| broken(path, &error))?;
            rest = more;
        }
        drop(stream);
        file.sync_data().map_err(refused)
    }

    /// What is in a folder, in no order.
    pub fn list(&self, path: &FilePath) -> Result<Vec<Entry>, Refusal> {
        let refused = |error| Refusal::of(path.as_str(), error);
        let opened;
        let folder = if path.as_str().is_empty() {
            &self.root
        } else {
            opened = self.open_at(path, OpenFlags::DIRECTORY, DescriptorFlags::READ)?;
            &opened
        };
        let entries = folder.read_directory().map_err(refused)?;
        let mut found = Vec::new();
        while let Some(entry) = entries.read_directory_entry().map_err(refused)? {
            found.push(Entry {
                name: entry.name,
                kind: Kind::of(entry.type_),
            });
        }
        Ok(found)
    }

    /// Removes a file.
    pub fn remove_file(&self, path: &FilePath) -> Result<(), Refusal> {
        let removed = self.root.unlink_file_at(path.as_str());
        removed.map_err(|error| Refusal::of(path.as_str(), error))
    }

    /// Removes a folder with nothing in it.
    pub fn remove_folder(&self, path: &FilePath) -> Result<(), Refusal> {
        let removed = self.root.remove_directory_at(path.as_str());
        removed.map_err(|error| Refusal::of(path.as_str(), error))
    }

    /// The bytes of a file that is small enough to be read at once.
    pub fn read_whole(&self, path: &FilePath, size: u64) -> Result<Vec<u8>, Refusal> {
        if size > MAX_BYTES {
            let why = format!(
                "`{}` has {size} bytes, more than the {MAX_BYTES} that are read at once; give `offset` and `length`",
                path.as_str()
            );
            return Err(Refusal::new("too-large", why));
        }
        self.read(path, 0, MAX_BYTES)
    }
}

fn of_stat(stat: DescriptorStat) -> Stat {
    let time = stat
        .data_modification_timestamp
        .and_then(|time| UNIX_EPOCH.checked_add(Duration::new(time.seconds, time.nanoseconds)));
    Stat {
        kind: Kind::of(stat.type_),
        size: stat.size,
        modified_at: time.map(|time| humantime::format_rfc3339_millis(time).to_string()),
    }
}

/// What broke a stream off, in the words of `wasi:filesystem` where it has them.
fn broken(path: &FilePath, error: &StreamError) -> Refusal {
    let code = match error {
        StreamError::LastOperationFailed(error) => filesystem_error_code(error),
        StreamError::Closed => None,
    };
    Refusal::of(path.as_str(), code.unwrap_or(ErrorCode::Io))
}
