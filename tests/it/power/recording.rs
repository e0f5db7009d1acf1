//! What `recorder.c` wrote down, read back.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;

/// Bytes in front of each record: kind, process, file, two lengths, flags, offset.
const HEADER: usize = 32;

/// A file that is open, in a process.
pub(super) type Handle = (u32, i32);

/// One call that succeeded.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Open {
        file: Handle,
        path: String,
        flags: u32,
    },
    Write {
        file: Handle,
        offset: u64,
        bytes: Range<usize>,
    },
    Truncate {
        file: Handle,
        length: u64,
    },
    SyncBegin {
        file: Handle,
        thread: u64,
    },
    SyncEnd {
        file: Handle,
        thread: u64,
    },
    Rename {
        from: String,
        to: String,
    },
    Unlink {
        path: String,
    },
    MakeDirectory {
        path: String,
    },
    RemoveDirectory {
        path: String,
    },
    Close {
        file: Handle,
    },
    Link {
        from: String,
        to: String,
    },
    /// The test's own note: what the client knows now, as JSON.
    Note(String),
}

/// The kind of a note, next to those in `recorder.c`.
const NOTE: u32 = 13;

/// All calls of a run, in their order.
pub(super) struct Recording {
    bytes: Vec<u8>,
    pub(super) calls: Vec<Call>,
}

impl Recording {
    /// Reads the file at `log`; paths become relative to `root`.
    ///
    /// Panics if the recorder saw what it cannot record.
    pub(super) fn read(log: &Path, root: &Path) -> Self {
        let bytes = std::fs::read(log).unwrap();
        let (mut calls, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let word = |place: usize| u32::from_le_bytes(bytes[at + place..at + place + 4].try_into().unwrap());
            let first = at + HEADER..at + HEADER + word(12) as usize;
            let second = first.end..first.end + word(16) as usize;
            let header = Header {
                kind: word(0),
                file: (word(4), word(8).cast_signed()),
                flags: word(20),
                offset: u64::from_le_bytes(bytes[at + 24..at + 32].try_into().unwrap()),
            };
            at = second.end;
            let text = |range: &Range<usize>| String::from_utf8(bytes[range.clone()].to_vec()).unwrap();
            let path = |range: &Range<usize>| {
                let path = text(range);
                let path = Path::new(&path).strip_prefix(root).expect("a path below the root");
                path.to_str().unwrap().to_owned()
            };
            calls.push(match header.kind {
                2 => Call::Write { file: header.file, offset: header.offset, bytes: first },
                12 => panic!("the recorder cannot follow: {}", text(&first)),
                NOTE => Call::Note(text(&first)),
                _ => header.call(|| path(&first), || path(&second)),
            });
        }
        Self { bytes, calls }
    }

    /// Whether the write-ahead log was begun anew while the database was open: what it held is
    /// written over then, and must be in the database for certain.
    pub(super) fn emptied_the_log(&self) -> bool {
        let (mut logs, mut begun) = (HashSet::new(), 0);
        for call in &self.calls {
            match call {
                Call::Open { file, path, .. } if path.ends_with("-wal") => drop(logs.insert(*file)),
                Call::Close { file } => drop(logs.remove(file)),
                Call::Write { file, offset: 0, .. } if logs.contains(file) => begun += 1,
                _ => {}
            }
        }
        // Once for each life of the server it is new.
        begun > 2
    }

    /// Bytes that were written.
    pub(super) fn slice(&self, range: &Range<usize>) -> &[u8] {
        &self.bytes[range.clone()]
    }
}

struct Header {
    kind: u32,
    file: Handle,
    flags: u32,
    offset: u64,
}

impl Header {
    fn call(&self, first: impl Fn() -> String, second: impl Fn() -> String) -> Call {
        let (file, offset) = (self.file, self.offset);
        match self.kind {
            1 => Call::Open { file, path: first(), flags: self.flags },
            3 => Call::Truncate { file, length: offset },
            4 => Call::SyncBegin { file, thread: offset },
            5 => Call::SyncEnd { file, thread: offset },
            6 => Call::Rename { from: first(), to: second() },
            7 => Call::Unlink { path: first() },
            8 => Call::MakeDirectory { path: first() },
            9 => Call::RemoveDirectory { path: first() },
            10 => Call::Close { file },
            11 => Call::Link { from: first(), to: second() },
            other => panic!("a record of kind {other}"),
        }
    }
}

/// A note as a record, to be appended in one write.
pub(super) fn note(text: &str) -> Vec<u8> {
    let mut record = Vec::with_capacity(HEADER + text.len());
    let length = u32::try_from(text.len()).unwrap();
    for word in [NOTE, 0, 0, length, 0, 0, 0, 0] {
        record.extend_from_slice(&word.to_le_bytes());
    }
    record.extend_from_slice(text.as_bytes());
    record
}
