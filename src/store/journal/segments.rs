//! The two files of the journal, which are written in turns, and over and over: their blocks are
//! never new, so that a sync writes nothing but what was appended. They are written past the page
//! cache, in whole blocks, where the file system can do that: it takes half as long, and a third
//! of the processor time.
//!
//! A file begins with a block that has [`MAGIC`], its turn and a check sum. Each record has its
//! length, its number and a check sum that covers the turn too: what an earlier turn left behind the
//! last record is none. What is written together ends with zeros up to a whole block.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::files;

use super::record::Record;

/// The files in the data directory.
pub(crate) const FILE_NAMES: [&str; 2] = ["skillvisor.journal-0", "skillvisor.journal-1"];

/// Bytes of each.
pub(super) const SEGMENT: usize = 4 << 20;

const MAGIC: [u8; 8] = *b"SVJRNL\0\x01";
/// What is written is a multiple of this, at a multiple of this in the file and in memory: the
/// largest block that disks have.
const BLOCK: usize = 4096;
const HEAD: usize = BLOCK;
/// Bytes of it that say something.
const SAID: usize = 28;
const FRAME: usize = 16;

/// The files, and where the next record goes.
pub(super) struct Segments {
    files: [Segment; 2],
    /// Which one is written.
    now: usize,
    /// Where in it.
    at: usize,
    turn: Turn,
    buffer: Buffer,
}

/// One way through a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    /// Later ones have larger numbers.
    generation: u64,
    /// By chance for each start: one that died in the middle of a turn may have written blocks of a
    /// generation that the next one counts to again.
    start: u64,
}

struct Segment {
    file: File,
    /// The number of the last record in it.
    last: u64,
}

/// What was found in the files.
#[derive(Default)]
pub(super) struct Found {
    /// The records with their numbers, in their order.
    pub(super) records: Vec<(u64, Record)>,
    /// The newest turn.
    turn: Turn,
}

impl Segments {
    /// Opens the files in `dir`, and makes what is not there.
    ///
    /// # Errors
    ///
    /// As the system gives them.
    pub(super) fn open(dir: &Path) -> io::Result<(Self, Found)> {
        let paths = FILE_NAMES.map(|name| dir.join(name));
        let (first, second) = (open(&paths[0])?, open(&paths[1])?);
        files::sync_directory(dir)?;
        let mut parts = [read(&first)?, read(&second)?];
        parts.sort_by_key(|part| part.turn);
        let mut found = Found::default();
        for part in parts {
            found.turn = part.turn;
            found.records.extend(part.records);
        }
        let files = [past_the_cache(&paths[0], first)?, past_the_cache(&paths[1], second)?];
        let files = files.map(|file| Segment { file, last: 0 });
        let mut start = [0; 8];
        getrandom::fill(&mut start).map_err(io::Error::other)?;
        let turn = Turn { start: u64::from_le_bytes(start), ..found.turn };
        // The first append goes over to the other file.
        let segments = Self { files, now: 1, at: SEGMENT, turn, buffer: Buffer::default() };
        Ok((segments, found))
    }

    /// The number of the last record in the file that will be overwritten if `bytes` more come,
    /// if one will.
    pub(super) fn will_overwrite(&self, bytes: usize) -> Option<u64> {
        (self.at + bytes.next_multiple_of(BLOCK) > SEGMENT).then(|| self.files[1 - self.now].last)
    }

    /// Appends records, of which the first gets the number `first`, and waits until they are on
    /// the disk. After an error they may be there or not: their numbers must not be used again, and
    /// the next ones go to another turn.
    ///
    /// # Errors
    ///
    /// As the system gives them.
    pub(super) fn append<'a>(
        &mut self,
        first: u64,
        records: impl Iterator<Item = &'a Record> + Clone,
    ) -> io::Result<()> {
        let turns = self.will_overwrite(framed(records.clone().map(Record::len))).is_some();
        let (now, at) = if turns { (1 - self.now, 0) } else { (self.now, self.at) };
        self.turn.generation += u64::from(turns);
        self.buffer.clear();
        if turns {
            self.buffer.add(&head(self.turn));
            self.buffer.fill();
        }
        let mut number = first;
        for record in records {
            frame(&mut self.buffer, self.turn, number, record.bytes());
            number += 1;
        }
        self.buffer.fill();
        // Until it is known to be there, no more goes behind it.
        self.at = SEGMENT;
        let bytes = self.buffer.bytes();
        let segment = &mut self.files[now];
        segment.file.write_all_at(bytes, at as u64)?;
        segment.file.sync_data()?;
        segment.last = number.saturating_sub(1);
        (self.now, self.at) = (now, at + bytes.len());
        Ok(())
    }
}

/// Bytes that begin at a block of memory.
#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// How many there are.
    length: usize,
}

impl Buffer {
    fn clear(&mut self) {
        self.length = 0;
    }

    fn add(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        if self.start() + end > self.bytes.len() {
            self.grow(end);
        }
        let start = self.start() + self.length;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        self.length = end;
    }

    /// Adds zeros up to a whole block.
    fn fill(&mut self) {
        const ZEROS: [u8; BLOCK] = [0; BLOCK];
        self.add(&ZEROS[..self.length.next_multiple_of(BLOCK) - self.length]);
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start()..self.start() + self.length]
    }

    fn start(&self) -> usize {
        // The address of an empty vector is none.
        if self.bytes.is_empty() { 0 } else { self.bytes.as_ptr().align_offset(BLOCK) }
    }

    /// Makes room for `end` bytes, at another address.
    fn grow(&mut self, end: usize) {
        let mut grown = Self { bytes: vec![0; 2 * end.next_multiple_of(BLOCK) + BLOCK], length: self.length };
        let start = grown.start();
        grown.bytes[start..start + self.length].copy_from_slice(self.bytes());
        *self = grown;
    }
}

/// How many bytes records of these lengths take.
pub(super) fn framed(lengths: impl Iterator<Item = usize>) -> usize {
    lengths.map(|length| length + FRAME).sum()
}

fn open(path: &Path) -> io::Result<File> {
    files::make_private(path, true)?;
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    if file.metadata()?.len() < SEGMENT as u64 {
        // Written, and not only set aside, which the first sync of each block would have to note.
        file.write_all_at(&vec![0; SEGMENT], 0)?;
        file.sync_all()?;
    }
    Ok(file)
}

/// The same file for writing past the page cache, or as it is.
fn past_the_cache(path: &Path, file: File) -> io::Result<File> {
    let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap_or_default();
    match OpenOptions::new().write(true).custom_flags(direct).open(path) {
        Ok(direct) => Ok(direct),
        // A file system in memory cannot.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(file),
        Err(error) => Err(error),
    }
}

fn head(turn: Turn) -> [u8; SAID] {
    let mut head = [0; SAID];
    head[..8].copy_from_slice(&MAGIC);
    head[8..16].copy_from_slice(&turn.generation.to_le_bytes());
    head[16..24].copy_from_slice(&turn.start.to_le_bytes());
    let sum = crc32fast::hash(&head[..24]);
    head[24..].copy_from_slice(&sum.to_le_bytes());
    head
}

fn frame(buffer: &mut Buffer, turn: Turn, number: u64, bytes: &[u8]) {
    // Records are far below 4 GiB.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    buffer.add(&length.to_le_bytes());
    buffer.add(&number.to_le_bytes());
    buffer.add(&sum(turn, number, bytes).to_le_bytes());
    buffer.add(bytes);
}

fn sum(turn: Turn, number: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&turn.generation.to_le_bytes());
    hasher.update(&turn.start.to_le_bytes());
    hasher.update(&number.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

fn read(file: &File) -> io::Result<Found> {
    let mut bytes = Vec::with_capacity(SEGMENT);
    // Not longer than this version writes them.
    file.take(SEGMENT as u64).read_to_end(&mut bytes)?;
    Ok(found(&bytes))
}

fn found(bytes: &[u8]) -> Found {
    let mut found = Found::default();
    let Some(said) = bytes.first_chunk::<SAID>() else { return found };
    let number = |from: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&said[from..from + 8]);
        u64::from_le_bytes(bytes)
    };
    let turn = Turn { generation: number(8), start: number(16) };
    if *said != head(turn) {
        return found;
    }
    found.turn = turn;
    let mut at = HEAD;
    loop {
        match bytes.get(at..).and_then(|rest| next(rest, turn)) {
            Some((number, record)) => {
                at += FRAME + record.len();
                found.records.push((number, record));
            }
            // What was written together ends before a whole block.
            None if !at.is_multiple_of(BLOCK) => at = at.next_multiple_of(BLOCK),
            None => return found,
        }
    }
}

/// The first record in `bytes`, if there is a whole one of this turn.
fn next(bytes: &[u8], turn: Turn) -> Option<(u64, Record)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let (kept, rest) = rest.split_first_chunk::<4>()?;
    let body = rest.get(..u32::from_le_bytes(*length) as usize)?;
    let number = u64::from_le_bytes(*number);
    let whole = u32::from_le_bytes(*kept) == sum(turn, number, body);
    Record::read(body).filter(|_| whole).map(|record| (number, record))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ExecutionId;
    use crate::store::journal::record::Step;
    use proptest::prelude::*;

    fn record(bytes: usize) -> Record {
        Record::new(Step::Open, ExecutionId::generate(), |values| {
            values.group(1);
            values.push(vec![7_u8; bytes])
        })
        .unwrap()
    }

    fn numbers(dir: &Path) -> Vec<u64> {
        Segments::open(dir).unwrap().1.records.iter().map(|(number, _)| *number).collect()
    }

    #[test]
    fn what_was_appended_is_found_in_its_order_and_the_last_two_turns_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let (mut segments, found) = Segments::open(dir.path()).unwrap();
        assert!(found.records.is_empty());
        let mut begun = Vec::new();
        let mut number = 1;
        while begun.len() < 5 {
            let records = [record(50_000), record(1)];
            if segments.will_overwrite(framed(records.iter().map(Record::len))).is_some() {
                begun.push(number);
            }
            segments.append(number, records.iter()).unwrap();
            number += 2;
        }
        assert_eq!(numbers(dir.path()), (begun[3]..number).collect::<Vec<_>>());
    }

    #[test]
    fn after_a_new_start_what_was_left_of_an_old_turn_is_not_found() {
        let dir = tempfile::tempdir().unwrap();
        for start in [1, 100] {
            let (mut segments, _) = Segments::open(dir.path()).unwrap();
            let count = if start == 1 { 20 } else { 1 };
            for number in start..start + count {
                segments.append(number, [record(10)].iter()).unwrap();
            }
        }
        // The second start wrote over the first record of the first one.
        assert_eq!(numbers(dir.path()), [100]);
    }

    #[test]
    fn what_could_not_be_written_is_followed_by_a_turn_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let (mut segments, _) = Segments::open(dir.path()).unwrap();
        segments.append(1, [record(10), record(10)].iter()).unwrap();
        // In the middle of a file, and then where a turn begins.
        for (refused, next, found) in [(3, 5, &[1, 2, 5][..]), (6, 7, &[5, 7])] {
            let (now, turn) = (segments.now, segments.turn);
            let at = if refused == 3 { now } else { 1 - now };
            if at != now {
                segments.at = SEGMENT;
            }
            let read_only = File::open(dir.path().join(FILE_NAMES[at])).unwrap();
            let writable = std::mem::replace(&mut segments.files[at].file, read_only);
            assert!(segments.append(refused, [record(10), record(10)].iter()).is_err());
            segments.files[at].file = writable;
            segments.append(next, [record(10)].iter()).unwrap();
            assert!(segments.now != now && segments.turn > turn);
            assert_eq!(numbers(dir.path()), found);
        }
    }

    proptest! {
        #[test]
        fn a_damaged_file_gives_the_records_before_the_damage(at in HEAD..HEAD + 3000_usize, to in any::<u8>()) {
            let mut buffer = Buffer::default();
            let turn = Turn { generation: 3, start: 5 };
            buffer.add(&head(turn));
            buffer.fill();
            let mut ends = Vec::new();
            for number in 0..20 {
                frame(&mut buffer, turn, number, record(100).bytes());
                ends.push(buffer.length);
            }
            let mut bytes = buffer.bytes().to_vec();
            prop_assume!(at < bytes.len() && bytes[at] != to);
            bytes[at] = to;
            let whole = ends.iter().filter(|end| **end <= at).count() as u64;
            let found = found(&bytes).records.iter().map(|(number, _)| *number).collect::<Vec<_>>();
            prop_assert_eq!(found, (0..whole).collect::<Vec<_>>());
        }
    }
}
