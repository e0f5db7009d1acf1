//! Bodies that come compressed. What they unpack to is bounded as what comes is.

use std::io::Read;

use flate2::read::{MultiGzDecoder, ZlibDecoder};

use crate::Refusal;

/// At most `most` bytes of what a body is, and whether there are more. `cut` says that the body
/// itself was cut.
pub(crate) fn unpack(
    bytes: Vec<u8>,
    coding: &str,
    most: usize,
    cut: bool,
) -> Result<(Vec<u8>, bool), Refusal> {
    match coding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok((bytes, cut)),
        "gzip" | "x-gzip" => read(MultiGzDecoder::new(bytes.as_slice()), most, cut),
        "deflate" => read(ZlibDecoder::new(bytes.as_slice()), most, cut),
        other => {
            let why = format!("the answer is compressed in a way that is not known: `{other}`");
            Err(Refusal::new("bad-encoding", why))
        }
    }
}

fn read(decoder: impl Read, most: usize, cut: bool) -> Result<(Vec<u8>, bool), Refusal> {
    let mut unpacked = Vec::new();
    let end = decoder.take(most as u64 + 1).read_to_end(&mut unpacked);
    let more = unpacked.len() > most;
    unpacked.truncate(most);
    match end {
        // What is missing at the end of a body that was cut is no surprise.
        Err(_) if !cut => Err(Refusal::new(
            "bad-encoding",
            "the answer says that it is compressed, and cannot be unpacked",
        )),
        _ => Ok((unpacked, more || cut)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn what_unpacks_to_more_is_cut() {
        let bomb = gzip(&vec![0; 50 << 20]);
        assert!(bomb.len() < 100 << 10);
        let (bytes, more) = unpack(bomb, "GZIP", 1000, false).unwrap();
        assert_eq!((bytes.len(), more), (1000, true));
        assert_eq!(
            unpack(gzip(b"hello"), "gzip", 5, false),
            Ok((b"hello".to_vec(), false))
        );
    }

    #[test]
    fn what_is_not_what_it_says_is_refused_unless_it_was_cut() {
        let whole = gzip(b"hello, hello, hello");
        let half = whole[..whole.len() - 9].to_vec();
        assert_eq!(
            unpack(half.clone(), "gzip", 99, false).unwrap_err().code,
            "bad-encoding"
        );
        assert!(unpack(half, "gzip", 99, true).unwrap().1);
        assert!(unpack(b"plain".to_vec(), "gzip", 99, false).is_err());
        assert!(unpack(b"plain".to_vec(), "br", 99, false).is_err());
        assert_eq!(
            unpack(b"plain".to_vec(), "", 99, false),
            Ok((b"plain".to_vec(), false))
        );
    }
}
