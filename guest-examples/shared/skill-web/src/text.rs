//! Text from bytes, in the charset that their sender meant.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// Bytes of a page in which it may say its own charset (HTML standard, 13.2.3.2).
const PRESCAN: usize = 1024;

/// A body as text.
#[derive(Debug, PartialEq, Eq)]
pub struct Text {
    /// The text; what cannot be read in the charset is U+FFFD.
    pub text: String,
    /// The charset, by its name in the Encoding standard.
    pub charset: &'static str,
}

/// Reads bytes as text: a byte order mark counts first, then the content type, then what the page
/// itself says, then whether they are UTF-8.
pub fn decode(bytes: &[u8], content_type: &str) -> Text {
    let said = parameter(content_type).or_else(|| in_page(bytes, content_type));
    let encoding = said
        .and_then(|label| Encoding::for_label(label.as_bytes()))
        .unwrap_or_else(|| guess(bytes));
    let (text, used, _) = encoding.decode(bytes);
    Text {
        text: text.into_owned(),
        charset: used.name(),
    }
}

/// Bytes that were cut may end within a character.
fn guess(bytes: &[u8]) -> &'static Encoding {
    match std::str::from_utf8(bytes) {
        Ok(_) => UTF_8,
        Err(error) if error.error_len().is_none() => UTF_8,
        Err(_) => WINDOWS_1252,
    }
}

fn parameter(content_type: &str) -> Option<String> {
    let mut parts = content_type.split(';').skip(1);
    parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let is_it = name.trim().eq_ignore_ascii_case("charset");
        is_it.then(|| value.trim().trim_matches(['"', '\'']).to_owned())
    })
}

fn in_page(bytes: &[u8], content_type: &str) -> Option<String> {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    if !matches!(kind, "" | "text/html" | "application/xhtml+xml") {
        return None;
    }
    let start = bytes.get(..PRESCAN).unwrap_or(bytes);
    let start = String::from_utf8_lossy(start).to_ascii_lowercase();
    let mut metas = start.split("<meta").skip(1);
    metas.find_map(|meta| {
        let meta = meta.split('>').next()?;
        let (_, value) = meta.split_once("charset=")?;
        let value = value.trim_start_matches(['"', '\'', ' ']);
        let label = value.split(['"', '\'', ' ', ';', '/', '>']).next()?;
        // Whoever can be read up to here is no UTF-16 (HTML standard, 13.2.3.2).
        let is_wide = label.starts_with("utf-16");
        Some(if is_wide { "utf-8" } else { label }.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8], content_type: &str) -> (String, &'static str) {
        let Text { text, charset } = decode(bytes, content_type);
        (text, charset)
    }

    #[test]
    fn the_charset_is_what_is_said_or_what_fits() {
        let said = |text: &str, charset| (text.to_owned(), charset);
        assert_eq!(of("grün".as_bytes(), "text/plain"), said("grün", "UTF-8"));
        assert_eq!(of(b"gr\xfcn", "text/plain"), said("grün", "windows-1252"));
        assert_eq!(
            of(b"gr\xfcn", "text/html; Charset=\"ISO-8859-1\""),
            said("grün", "windows-1252")
        );
        assert_eq!(
            of(b"\x93\xfa\x96\x7b", "text/plain;charset=shift_jis"),
            said("日本", "Shift_JIS")
        );
        let page = b"<html><head><meta charset='koi8-r'></head>\xf0";
        assert!(of(page, "text/html").0.ends_with('П'));
        let page = b"<meta http-equiv=content-type content=\"text/html; charset=utf-16le\">a";
        assert_eq!(of(page, "text/html").1, "UTF-8");
        assert_eq!(
            of(b"\xef\xbb\xbfa", "text/plain;charset=latin1"),
            said("a", "UTF-8")
        );
    }

    #[test]
    fn a_charset_that_is_wrong_or_unknown_loses_no_more_than_it_must() {
        assert_eq!(of(b"a\xffb", "text/plain;charset=utf-8").0, "a\u{fffd}b");
        assert_eq!(of("ü".as_bytes(), "text/plain;charset=klingon").0, "ü");
        assert_eq!(
            of("aü".as_bytes().get(..2).unwrap(), "text/plain").1,
            "UTF-8"
        );
    }
}
