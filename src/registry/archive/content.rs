//! What one file of an archive expands to.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;

use flate2::Crc;
use flate2::bufread::DeflateDecoder;

use crate::model::{Error, quotable};

use super::list::{Entry, Method};
use super::malformed;

/// How many bytes are expanded at a time.
const CHUNK: usize = 64 << 10;

/// Expands `entry`, and hands it to `take` chunk by chunk for as long as that says yes.
///
/// # Errors
///
/// `malformed` where it is not exactly what the archive's list says: never more than that many bytes
/// are handed on.
pub(super) fn expand(file: &File, entry: &Entry, take: impl FnMut(Vec<u8>) -> bool) -> Result<(), Error> {
    let raw = BufReader::with_capacity(CHUNK, Stretch { file, at: entry.start, left: entry.compressed });
    let (rest, whole) = match entry.method {
        Method::Stored => copy(raw, entry, take)?,
        Method::Deflated => {
            let (decoder, whole) = copy(DeflateDecoder::new(raw), entry, take)?;
            (decoder.into_inner(), whole)
        }
    };
    if whole && !is_empty(rest).map_err(|error| damaged(entry, &error))? {
        return Err(malformed(format!("{:?} has more than its content", quotable(&entry.name))));
    }
    Ok(())
}

fn is_empty(mut reader: impl BufRead) -> io::Result<bool> {
    Ok(reader.fill_buf()?.is_empty())
}

/// Reads to the end, and gives the reader back and whether that was reached.
fn copy<R: Read>(mut reader: R, entry: &Entry, mut take: impl FnMut(Vec<u8>) -> bool) -> Result<(R, bool), Error> {
    let (mut crc, mut left) = (Crc::new(), entry.size);
    loop {
        let mut chunk = vec![0; CHUNK];
        let bytes = reader.read(&mut chunk).map_err(|error| damaged(entry, &error))?;
        if bytes == 0 {
            break;
        }
        chunk.truncate(bytes);
        let rest = left.checked_sub(bytes as u64);
        left = rest.ok_or_else(|| malformed(format!("{:?} is larger than its list says", quotable(&entry.name))))?;
        crc.update(&chunk);
        if !take(chunk) {
            return Ok((reader, false));
        }
    }
    if left > 0 {
        return Err(malformed(format!("{:?} is smaller than its list says", quotable(&entry.name))));
    }
    if crc.sum() != entry.crc {
        return Err(malformed(format!("{:?} has another checksum than its list says", quotable(&entry.name))));
    }
    Ok((reader, true))
}

/// Damage is the archive's; what the disk cannot read is ours.
fn damaged(entry: &Entry, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            malformed(format!("{:?} cannot be expanded", quotable(&entry.name)))
        }
        kind => Error::internal(io::Error::from(kind)),
    }
}

/// The bytes of one entry.
struct Stretch<'a> {
    file: &'a File,
    at: u64,
    left: u64,
}

impl Read for Stretch<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.file.read_at(&mut buffer[..most], self.at)?;
        if read == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += read as u64;
        self.left -= read as u64;
        Ok(read)
    }
}
