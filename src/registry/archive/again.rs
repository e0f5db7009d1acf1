//! What an archive says of a file a second time: in extra fields, and behind its content.
//!
//! Another reader may go by these and not by the list, so they must say the same (APPNOTE 6.3.10,
//! sections 4.3.9, 4.5.3 and 4.6.9).

use flate2::Crc;

use crate::model::{Error, quotable};

use super::list::{Record, cut};
use super::malformed;

/// The extra fields of sizes that do not fit elsewhere, and of a name in UTF-8.
const ZIP64: u16 = 0x0001;
const NAME: u16 = 0x7075;

/// What a list says of a file's content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) crc: u32,
    pub(super) compressed: u32,
    pub(super) size: u32,
}

impl Sizes {
    /// Whether `behind`, of 12, 16, 20 or 24 bytes, says the same, with a signature or without.
    pub(super) fn are(self, behind: &[u8]) -> bool {
        let Self { crc, compressed, size } = self;
        let is_long = behind.len() >= 20;
        let numbers = [compressed, size].map(|number| u64::from(number).to_le_bytes());
        let numbers = numbers.iter().flat_map(|bytes| if is_long { &bytes[..] } else { &bytes[..4] });
        let signature: &[u8] = if matches!(behind.len(), 16 | 24) { b"PK\x07\x08" } else { b"" };
        behind.iter().eq(signature.iter().chain(&crc.to_le_bytes()).chain(numbers))
    }
}

/// Refuses extra fields that name the file otherwise than `name`.
pub(super) fn require_same_name(extra: &[u8], name: &[u8]) -> Result<(), Error> {
    let mut crc = Crc::new();
    crc.update(name);
    for (kind, content) in fields(extra)? {
        // A version, the checksum of the name that it stands for, and the name.
        let is_same = || content.len() > 5 && content[1..5] == crc.sum().to_le_bytes() && content[5..] == *name;
        if kind == NAME && !is_same() {
            let name = String::from_utf8_lossy(name);
            return Err(malformed(format!("{:?} has another name in its extra fields", quotable(&name))));
        }
    }
    Ok(())
}

/// The size of a file and its size in the archive, if an extra field has them. One field with both, or
/// none: of several, and of a part, readers make different things.
pub(super) fn zip64_sizes(extra: &[u8]) -> Result<Option<[u64; 2]>, Error> {
    let fields = fields(extra)?;
    let mut found = fields.into_iter().filter(|(kind, _)| *kind == ZIP64);
    let number = |content: &[u8], at| content.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    match (found.next(), found.next()) {
        (None, _) => Ok(None),
        (Some((_, content)), None) => match (number(content, 0), number(content, 8)) {
            (Some(size), Some(compressed)) => Ok(Some([size, compressed])),
            _ => Err(malformed("it has an extra field of sizes without them")),
        },
        _ => Err(malformed("it has two extra fields of sizes for one file")),
    }
}

/// The fields, each with its kind. Zeros may fill up what is too short for one.
fn fields(extra: &[u8]) -> Result<Vec<(u16, &[u8])>, Error> {
    let (mut rest, mut found) = (extra, Vec::new());
    while rest.len() >= 4 {
        let record = Record(rest);
        let (kind, length) = (record.u16(0)?, usize::from(record.u16(2)?));
        found.push((kind, record.bytes(4, length)?));
        rest = rest.get(4 + length..).ok_or_else(cut)?;
    }
    if rest.iter().any(|byte| *byte != 0) {
        return Err(malformed("it has an extra field that ends too early"));
    }
    Ok(found)
}
