//! A disk as a power cut may leave it: what was synced is certain, all else is not.
//!
//! Stricter than most file systems: a name is certain only once its directory was synced, and
//! what was not synced may be there in any choice of sectors and names.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;

use super::recording::{Call, Handle, Recording};
use crate::campaign::Random;

/// What becomes of what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsynced {
    /// All of it is lost.
    Lost,
    /// All of it is there, as after the death of the program alone.
    Kept,
    /// Each change is there in this many of 100 cases; a write may be there in part, by
    /// sectors of this many bytes.
    Torn { percent: usize, sector: u64 },
}

/// Which syncs do nothing: to show that the checks would notice.
pub(super) type Ignored = fn(&str) -> bool;

type Id = usize;

/// A file or directory, whatever names it has.
struct Object {
    path: String,
    directory: bool,
    changes: Vec<Change>,
    /// How many of the changes are certain.
    synced: usize,
}

#[derive(Clone)]
enum Change {
    Write {
        offset: u64,
        bytes: Range<usize>,
    },
    Truncate(u64),
    /// Names of a directory, all at once: what each is from now on.
    Names(Vec<(String, Option<Id>)>),
}

/// The directory as the program saw it, with what of it is certain.
pub(super) struct Disk<'a> {
    recording: &'a Recording,
    objects: Vec<Object>,
    open: HashMap<Handle, Id>,
    syncing: HashMap<(Handle, u64), usize>,
    ignored: Ignored,
}

const CREATE: u32 = 0o100;
const TRUNCATE: u32 = 0o1000;

impl<'a> Disk<'a> {
    /// The disk after the first `cut` calls.
    pub(super) fn after(recording: &'a Recording, cut: usize, ignored: Ignored) -> Self {
        let root = Object { path: String::new(), directory: true, changes: Vec::new(), synced: 0 };
        let mut disk = Self { recording, objects: vec![root], open: HashMap::new(), syncing: HashMap::new(), ignored };
        for call in &recording.calls[..cut] {
            disk.apply(call);
        }
        disk
    }

    fn apply(&mut self, call: &Call) {
        match call {
            Call::Open { file, path, flags } => self.open(*file, path, *flags),
            Call::Close { file } => drop(self.open.remove(file)),
            Call::Write { file, offset, bytes } => {
                self.change(*file, Change::Write { offset: *offset, bytes: bytes.clone() });
            }
            Call::Truncate { file, length } => self.change(*file, Change::Truncate(*length)),
            Call::SyncBegin { file, thread } => {
                let changes = self.objects[self.open[file]].changes.len();
                self.syncing.insert((*file, *thread), changes);
            }
            Call::SyncEnd { file, thread } => {
                let certain = self.syncing.remove(&(*file, *thread)).unwrap();
                let object = &mut self.objects[self.open[file]];
                if !(self.ignored)(&object.path) {
                    object.synced = object.synced.max(certain);
                }
            }
            Call::MakeDirectory { path } => drop(self.create(path, true)),
            Call::Unlink { path } | Call::RemoveDirectory { path } => self.name(path, None),
            Call::Link { from, to } => self.name(to, Some(self.find(from).unwrap())),
            Call::Rename { from, to } => self.rename(from, to),
            Call::Note(_) => {}
        }
    }

    fn open(&mut self, file: Handle, path: &str, flags: u32) {
        let id = match self.find(path) {
            Some(id) => id,
            None if flags & CREATE != 0 => self.create(path, false),
            None => panic!("{path} was opened, but never made"),
        };
        if flags & TRUNCATE != 0 {
            self.objects[id].changes.push(Change::Truncate(0));
        }
        self.open.insert(file, id);
    }

    fn change(&mut self, file: Handle, change: Change) {
        self.objects[self.open[&file]].changes.push(change);
    }

    fn create(&mut self, path: &str, directory: bool) -> Id {
        self.objects.push(Object { path: path.to_owned(), directory, changes: Vec::new(), synced: 0 });
        let id = self.objects.len() - 1;
        self.name(path, Some(id));
        id
    }

    fn rename(&mut self, from: &str, to: &str) {
        let id = self.find(from).unwrap();
        let ((old, old_name), (new, new_name)) = (split(from), split(to));
        if old == new {
            let names = vec![(old_name.to_owned(), None), (new_name.to_owned(), Some(id))];
            let parent = self.find(old).unwrap();
            self.objects[parent].changes.push(Change::Names(names));
        } else {
            // Two directories, synced each for itself: one may tell of the move and the other not.
            self.name(to, Some(id));
            self.name(from, None);
        }
        to.clone_into(&mut self.objects[id].path);
    }

    fn name(&mut self, path: &str, id: Option<Id>) {
        let (parent, name) = split(path);
        let parent = self.find(parent).unwrap_or_else(|| panic!("{path} has no directory"));
        self.objects[parent].changes.push(Change::Names(vec![(name.to_owned(), id)]));
    }

    /// What a path is now, for the program.
    fn find(&self, path: &str) -> Option<Id> {
        path.split('/').filter(|name| !name.is_empty()).try_fold(0, |directory, name| {
            let changes = self.objects[directory].changes.iter().rev();
            let names = changes.filter_map(|change| if let Change::Names(names) = change { Some(names) } else { None });
            names.flat_map(|names| names.iter().rev()).find(|(known, _)| known == name)?.1
        })
    }

    /// Writes the directory as the power cut left it to `to`.
    pub(super) fn rebuild(&self, to: &Path, unsynced: Unsynced, random: &mut Random) {
        self.rebuild_directory(0, to, unsynced, random);
    }

    fn rebuild_directory(&self, id: Id, to: &Path, unsynced: Unsynced, random: &mut Random) {
        let mut names = BTreeMap::new();
        let object = &self.objects[id];
        for (place, change) in object.changes.iter().enumerate() {
            let Change::Names(changed) = change else { continue };
            let stays = place < object.synced || unsynced.keeps(random);
            if stays {
                names.extend(changed.iter().map(|(name, id)| (name, *id)));
            }
        }
        for (name, id) in names {
            let Some(id) = id else { continue };
            let path = to.join(name);
            if self.objects[id].directory {
                private_directory(&path);
                self.rebuild_directory(id, &path, unsynced, random);
            } else {
                private_file(&path, &self.content(&self.objects[id], unsynced, random));
            }
        }
    }

    fn content(&self, object: &Object, unsynced: Unsynced, random: &mut Random) -> Vec<u8> {
        let mut content = Vec::new();
        for (place, change) in object.changes.iter().enumerate() {
            let stays = place < object.synced || unsynced.keeps(random);
            match (change, unsynced) {
                (Change::Write { offset, bytes }, _) if stays => {
                    put(&mut content, *offset, self.recording.slice(bytes));
                }
                (Change::Write { offset, bytes }, Unsynced::Torn { sector, .. }) => {
                    for (offset, bytes) in sectors(*offset, self.recording.slice(bytes), sector) {
                        if random.chance(30) {
                            put(&mut content, offset, bytes);
                        }
                    }
                }
                (Change::Truncate(length), _) if stays => content.resize(usize::try_from(*length).unwrap(), 0),
                _ => {}
            }
        }
        content
    }
}

impl Unsynced {
    /// Whether one change that was not synced is there.
    fn keeps(self, random: &mut Random) -> bool {
        match self {
            Self::Lost => false,
            Self::Kept => true,
            Self::Torn { percent, .. } => random.chance(percent),
        }
    }
}

/// The pieces of a write that lie in one sector each.
fn sectors(offset: u64, bytes: &[u8], sector: u64) -> Vec<(u64, &[u8])> {
    let (mut pieces, mut at, mut rest) = (Vec::new(), offset, bytes);
    while !rest.is_empty() {
        let room = usize::try_from(sector - at % sector).unwrap().min(rest.len());
        let (piece, after) = rest.split_at(room);
        pieces.push((at, piece));
        (at, rest) = (at + room as u64, after);
    }
    pieces
}

fn put(content: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let start = usize::try_from(offset).unwrap();
    let end = start + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[start..end].copy_from_slice(bytes);
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn private_directory(path: &Path) {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().mode(0o700).create(path).unwrap();
}

fn private_file(path: &Path, bytes: &[u8]) {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::File::options().create_new(true).write(true).mode(0o600).open(path).unwrap();
    file.write_all(bytes).unwrap();
}
