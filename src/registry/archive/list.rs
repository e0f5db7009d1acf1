//! What an archive says of its files, read strictly (APPNOTE 6.3.10, sections 4.3 and 4.4).
//!
//! Whoever reads a zip elsewhere must find the same in it: the file begins with its first entry and
//! ends with its end, entries lie one behind the other, and list and entries say the same. So an entry
//! cannot be counted twice, nothing is hidden in between, and no size is believed that does not fit.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::model::{Error, quotable};

use super::again::{Sizes, require_same_name, zip64_sizes};
use super::names::{require_distinct, require_plain};
use super::{malformed, too_large};

/// Most files and folders.
const MAX_ENTRIES: u16 = 1000;
/// Most bytes of the list of them.
const MAX_LIST: u32 = 1 << 20;
/// A file of more than `FREE` bytes is at most `MAX_RATIO` times as large as it is compressed.
const MAX_RATIO: u64 = 200;
const FREE: u64 = 1 << 20;

/// Bytes of the records without what follows in them.
const END: usize = 22;
const LISTED: usize = 46;
const LOCAL: usize = 30;
/// Bits of an entry's flags: encrypted in one of three ways; sizes that follow the content.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
const SIZES_FOLLOW: u16 = 1 << 3;
/// That the name is UTF-8: a reader who goes by it finds another name where it is not set.
const UTF8: u16 = 1 << 11;
/// What stands for "see elsewhere" where a number does not fit.
const ELSEWHERE: u32 = u32::MAX;

/// A file or folder of an archive.
#[derive(Debug)]
pub(super) struct Entry {
    /// Its name, with its folders.
    pub(super) name: String,
    /// Where its content begins in the archive.
    pub(super) start: u64,
    /// How many bytes that is in the archive.
    pub(super) compressed: u64,
    /// How many bytes it is expanded.
    pub(super) size: u64,
    /// Checksum of what is expanded.
    pub(super) crc: u32,
    pub(super) method: Method,
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Stored,
    Deflated,
}

impl Entry {
    pub(super) fn is_folder(&self) -> bool {
        self.name.ends_with('/')
    }
}

/// The files and folders of an archive, of which one may have `most` bytes and all together twice
/// that.
pub(super) fn entries(file: &File, most: u64) -> Result<Vec<Entry>, Error> {
    let length = file.metadata().map_err(Error::internal)?.len();
    let end = End::find(file, length)?;
    let list = read(file, end.list_start, end.list_bytes as usize)?;
    let (mut rest, mut found) = (Record(&list), Vec::new());
    for _ in 0..end.entries {
        let listed = Listed::take(&mut rest)?;
        let (local, start) = listed.local(file)?;
        let next = start.saturating_add(listed.compressed.into());
        let follows = (listed.flags & SIZES_FOLLOW != 0).then(|| listed.sizes());
        found.push((Place { local, next, follows }, listed.into_entry(start)?));
    }
    if !rest.0.is_empty() {
        return Err(malformed("its list has more files than its end says"));
    }
    require_gapless(file, found.iter().map(|(place, _)| place), end.list_start)?;
    let entries: Vec<Entry> = found.into_iter().map(|(_, entry)| entry).collect();
    require_distinct(&entries)?;
    let total: u64 = entries.iter().map(|entry| entry.size).sum();
    if total > most.saturating_mul(2) {
        return Err(too_large(format!("it expands to more than twice {most} bytes (setting upload.max_bytes)")));
    }
    Ok(entries)
}

/// Where an entry is in the archive.
struct Place {
    /// Where its header is.
    local: u64,
    /// Where its content ends.
    next: u64,
    /// What must come once more behind that, if it does.
    follows: Option<Sizes>,
}

/// Refuses entries that share bytes, bytes that are no entry's, and sizes behind an entry that are
/// not its own.
fn require_gapless<'a>(file: &File, places: impl Iterator<Item = &'a Place>, list_start: u64) -> Result<(), Error> {
    let mut places: Vec<_> = places.collect();
    places.sort_by_key(|place| place.local);
    let unfit = || malformed("its files overlap, or it has bytes that belong to none");
    if places.first().map_or(list_start, |place| place.local) != 0 {
        return Err(unfit());
    }
    let starts = places.iter().skip(1).map(|place| place.local).chain([list_start]);
    for (place, start) in places.iter().zip(starts) {
        match (start.checked_sub(place.next), &place.follows) {
            (Some(0), None) => {}
            (Some(between @ (12 | 16 | 20 | 24)), Some(sizes)) => {
                if !sizes.are(&read(file, place.next, between as usize)?) {
                    return Err(malformed("its list says something else of a file than what follows it"));
                }
            }
            _ => return Err(unfit()),
        }
    }
    Ok(())
}

/// The record at the end of an archive.
struct End {
    entries: u16,
    list_start: u64,
    list_bytes: u32,
}

impl End {
    /// Finds the record behind which there is its comment and nothing else.
    fn find(file: &File, length: u64) -> Result<Self, Error> {
        let bytes = length.min((END + usize::from(u16::MAX)) as u64) as usize;
        let tail = read(file, length - bytes as u64, bytes)?;
        let is_end = |at: &usize| {
            let record = Record(&tail[*at..]);
            record.0.starts_with(b"PK\x05\x06")
                && record.u16(20).is_ok_and(|comment| END + usize::from(comment) == tail.len() - at)
        };
        let last = tail.len().checked_sub(END);
        let at = last.and_then(|last| (0..=last).rev().find(is_end));
        let at = at.ok_or_else(|| malformed("it does not end as a zip ends"))?;
        let record = Record(&tail[at..]);
        let (entries, list_bytes, list_start) = (record.u16(10)?, record.u32(12)?, record.u32(16)?);
        if entries == u16::MAX || list_bytes == ELSEWHERE || list_start == ELSEWHERE {
            return Err(malformed("it is written as zip64, which nothing of its size needs"));
        }
        if record.u16(4)? != 0 || record.u16(6)? != 0 || record.u16(8)? != entries {
            return Err(malformed("it is one of several parts"));
        }
        if entries > MAX_ENTRIES || list_bytes > MAX_LIST {
            return Err(too_large(format!("it has more than {MAX_ENTRIES} files, or names that are too long")));
        }
        let list_start = u64::from(list_start);
        if list_start + u64::from(list_bytes) != length - (tail.len() - at) as u64 {
            return Err(malformed("its list of files is not where its end says"));
        }
        Ok(Self { entries, list_start, list_bytes })
    }
}

/// An entry as the list has it.
struct Listed {
    flags: u16,
    method: u16,
    crc: u32,
    compressed: u32,
    size: u32,
    attributes: u32,
    local: u32,
    name: String,
}

impl Listed {
    /// Reads the first of `rest`, and leaves the others there.
    fn take(rest: &mut Record<'_>) -> Result<Self, Error> {
        let record = Record(rest.0);
        record.require(b"PK\x01\x02")?;
        let [name, extra, comment] = [record.u16(28)?, record.u16(30)?, record.u16(32)?].map(usize::from);
        let name = record.bytes(LISTED, name)?;
        require_same_name(record.bytes(LISTED + name.len(), extra)?, name)?;
        rest.0 = rest.0.get(LISTED + name.len() + extra + comment..).ok_or_else(cut)?;
        let name = String::from_utf8(name.to_vec()).map_err(|_| malformed("it has a name that is not UTF-8"))?;
        require_plain(&name)?;
        let listed = Self {
            flags: record.u16(8)?,
            method: record.u16(10)?,
            crc: record.u32(16)?,
            compressed: record.u32(20)?,
            size: record.u32(24)?,
            attributes: record.u32(38)?,
            local: record.u32(42)?,
            name,
        };
        if record.u16(34)? != 0 {
            return Err(malformed("it is one of several parts"));
        }
        Ok(listed)
    }

    fn sizes(&self) -> Sizes {
        Sizes { crc: self.crc, compressed: self.compressed, size: self.size }
    }

    /// Where its header and its content begin, once the header says what the list says.
    fn local(&self, file: &File) -> Result<(u64, u64), Error> {
        let at = u64::from(self.local);
        let header = read(file, at, LOCAL)?;
        let header = Record(&header);
        header.require(b"PK\x03\x04")?;
        let (name, extra) = (usize::from(header.u16(26)?), usize::from(header.u16(28)?));
        let behind = read(file, at + LOCAL as u64, name + extra)?;
        let (its_name, extra_fields) = behind.split_at(name);
        let is_same = its_name == self.name.as_bytes()
            && header.u16(8)? == self.method
            && (header.u16(6)? ^ self.flags) & (ENCRYPTED | SIZES_FOLLOW | UTF8) == 0;
        if !is_same || !self.has_sizes(&header, extra_fields)? {
            return Err(malformed(format!("its list says something else of {:?} than the file", quotable(&self.name))));
        }
        require_same_name(extra_fields, self.name.as_bytes())?;
        Ok((at, at + (LOCAL + name + extra) as u64))
    }

    /// Whether its header has the sizes of the list; where they follow, it may also say nothing, here
    /// and in the extra field that a number which is elsewhere leads to.
    fn has_sizes(&self, header: &Record<'_>, extra: &[u8]) -> Result<bool, Error> {
        let [crc, compressed, size] = [header.u32(14)?, header.u32(18)?, header.u32(22)?];
        let follow = self.flags & SIZES_FOLLOW != 0;
        let is = |here: u32, listed: u32| here == listed || here == ELSEWHERE || (follow && here == 0);
        let zip64 = (compressed != ELSEWHERE && size != ELSEWHERE) || {
            let told = zip64_sizes(extra)?;
            told == Some([self.size.into(), self.compressed.into()]) || (follow && matches!(told, None | Some([0, 0])))
        };
        let crc = crc == self.crc || (follow && crc == 0);
        Ok(crc && is(compressed, self.compressed) && is(size, self.size) && zip64)
    }

    fn into_entry(self, start: u64) -> Result<Entry, Error> {
        let Self { flags, crc, attributes, name, .. } = self;
        let quoted = quotable(&name);
        if flags & ENCRYPTED != 0 {
            return Err(malformed(format!("{quoted:?} is encrypted")));
        }
        let (compressed, size) = (u64::from(self.compressed), u64::from(self.size));
        let method = match self.method {
            0 if compressed == size => Method::Stored,
            8 => Method::Deflated,
            _ => return Err(malformed(format!("{quoted:?} is compressed in another way than deflate"))),
        };
        // The high half is a mode of Unix, where it is one; nothing but files and folders has none of it.
        let is_odd = !matches!(attributes >> 16 & 0o170_000, 0 | 0o100_000 | 0o040_000);
        if is_odd {
            return Err(malformed(format!("{quoted:?} is a link or a device")));
        }
        if name.ends_with('/') && size > 0 {
            return Err(malformed(format!("{quoted:?} is a folder with content")));
        }
        if size > FREE && size / MAX_RATIO > compressed {
            return Err(too_large(format!("{quoted:?} is more than {MAX_RATIO} times as large as it is compressed")));
        }
        Ok(Entry { name, start, compressed, size, crc, method })
    }
}

/// Bytes with little-endian numbers in them.
pub(super) struct Record<'a>(pub(super) &'a [u8]);

impl<'a> Record<'a> {
    pub(super) fn bytes(&self, at: usize, length: usize) -> Result<&'a [u8], Error> {
        self.0.get(at..at + length).ok_or_else(cut)
    }

    pub(super) fn u16(&self, at: usize) -> Result<u16, Error> {
        self.0.get(at..).and_then(|rest| rest.first_chunk()).map(|bytes| u16::from_le_bytes(*bytes)).ok_or_else(cut)
    }

    pub(super) fn u32(&self, at: usize) -> Result<u32, Error> {
        self.0.get(at..).and_then(|rest| rest.first_chunk()).map(|bytes| u32::from_le_bytes(*bytes)).ok_or_else(cut)
    }

    fn require(&self, signature: &[u8]) -> Result<(), Error> {
        if self.0.starts_with(signature) { Ok(()) } else { Err(malformed("its list leads to what is no file")) }
    }
}

pub(super) fn cut() -> Error {
    malformed("it ends too early")
}

fn read(file: &File, at: u64, bytes: usize) -> Result<Vec<u8>, Error> {
    let mut read = vec![0; bytes];
    match file.read_exact_at(&mut read, at) {
        Ok(()) => Ok(read),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(cut()),
        Err(error) => Err(Error::internal(error)),
    }
}
