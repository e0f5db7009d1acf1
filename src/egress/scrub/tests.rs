use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use proptest::prelude::*;
use zeroize::Zeroizing;

use super::*;

/// With characters that each way of writing has to do something about.
const VALUE: &str = r#"s3cr~t/+?"&\%<k>:Zy-42=="#;

fn secret(text: &str) -> SecretValue {
    SecretValue::new(Zeroizing::new(text.to_owned())).unwrap()
}

fn scrub(text: &str) -> Scrub {
    Scrub::of(&[&secret(text)]).unwrap()
}

/// What comes through of pieces of a text, one after the other.
fn through<'a>(scrub: &Scrub, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let (mut scrubber, mut clean) = (scrub.begin(), Vec::new());
    for piece in pieces {
        clean.extend(scrubber.push(piece));
    }
    clean.extend(scrubber.end());
    clean
}

/// Every byte as `%XX`, where `which` says so.
fn percent(text: &str, mut which: impl FnMut(usize) -> bool) -> String {
    let mut encoded = String::new();
    for (at, byte) in text.bytes().enumerate() {
        // What would be read as an escape must be one.
        if which(at) || byte == b'%' {
            let _ = if at % 3 == 0 { write!(encoded, "%{byte:02x}") } else { write!(encoded, "%{byte:02X}") };
        } else {
            encoded.push(char::from(byte));
        }
    }
    encoded
}

fn folded(text: &str) -> String {
    let lines: Vec<_> = text.as_bytes().chunks(7).map(|line| std::str::from_utf8(line).unwrap()).collect();
    lines.join("\r\n")
}

/// The value as servers write it.
fn echoes(value: &str) -> Vec<String> {
    let json = serde_json::to_string(value).unwrap();
    let json = json.trim_matches('"').to_owned();
    let unicode: String = value.bytes().map(|byte| format!("\\u{byte:04x}")).collect();
    let html: String = value.bytes().map(|byte| format!("&#{byte};")).collect();
    let html_hex: String = value.bytes().map(|byte| format!("&#x{byte:X};")).collect();
    let mut echoes = vec![
        value.to_owned(),
        json.replace('/', "\\/"),
        json,
        unicode,
        html,
        html_hex,
        value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;"),
        percent(value, |_| true),
        percent(value, |_| false),
        percent(value, |at| at % 2 == 0),
        percent(&percent(value, |at| at % 3 == 0), |_| false),
        hex::encode(value),
        hex::encode_upper(value),
        folded(value),
    ];
    for before in ["", "a", "ab", "abc", "user:"] {
        for after in ["", "z", "zy"] {
            for base64 in [STANDARD, URL_SAFE].map(|engine| engine.encode(format!("{before}{value}{after}"))) {
                echoes.push(percent(&base64, |_| true));
                echoes.push(base64.replace('/', "\\/"));
                echoes.push(folded(&base64));
                echoes.push(base64);
            }
        }
    }
    echoes
}

/// What base64 must not be left of a value: its inner digits, at each place.
fn is_clean(clean: &[u8], value: &str) -> bool {
    let text = String::from_utf8_lossy(clean).replace(['\r', '\n', '\\'], "");
    let inner = |before: usize| {
        let encoded = STANDARD.encode(format!("{}{value}", &"ab"[..before]));
        encoded[4..encoded.len() - 4].to_owned()
    };
    let forms = [value.to_owned(), hex::encode(value), inner(0), inner(1), inner(2)];
    !forms.iter().any(|form| text.contains(form) || text.to_lowercase().contains(&form.to_lowercase()))
}

#[test]
fn every_form_is_hidden_wherever_the_text_is_cut_and_nothing_else_is() {
    let scrub = scrub(VALUE);
    for echo in echoes(VALUE) {
        let text = format!("before \\\\ {echo} % after &");
        let whole = scrub.whole(text.as_bytes());
        assert_eq!(whole.len(), text.len(), "{echo}");
        assert!(whole.starts_with(b"before \\\\ ") && whole.ends_with(b" % after &"), "{echo}");
        assert!(whole.contains(&HIDDEN), "{echo}");
        assert!(is_clean(&whole, VALUE), "{echo}: {}", String::from_utf8_lossy(&whole));
        for cut in 0..text.len() {
            let (one, other) = text.as_bytes().split_at(cut);
            assert_eq!(through(&scrub, [one, other]), whole, "{echo} cut at {cut}");
        }
        assert_eq!(through(&scrub, text.as_bytes().chunks(1)), whole, "{echo} byte by byte");
    }
}

#[test]
fn what_cannot_become_a_secret_is_given_on_at_once() {
    let scrub = scrub("0123456789");
    let mut scrubber = scrub.begin();
    assert_eq!(scrubber.push(b"data: hello 012"), b"data: hello ");
    assert_eq!((scrubber.held(), scrubber.push(b"345x".as_slice())), (3, b"012345x".to_vec()));
    assert_eq!(scrubber.push(b"%3"), b"");
    assert_eq!(scrubber.push(b"z"), b"%3z");
    assert_eq!(scrubber.push(b"%30%3123456789!"), b"**************!");
    assert_eq!((scrubber.held(), scrubber.end()), (0, Vec::new()));
}

#[test]
fn secrets_that_overlap_and_several_secrets_are_all_hidden() {
    let (one, other) = (secret("abcabcabc"), secret("cabxyzxyz"));
    let scrub = Scrub::of(&[&one, &other]).unwrap();
    assert_eq!(scrub.whole(b"-abcabcabcabc-"), b"-************-");
    assert_eq!(scrub.whole(b"-abcabcabxyzxyz-"), b"-abcab*********-");
    assert_eq!(scrub.whole(b"-abcabcabcabxyzxyz-"), b"-*****************-");
}

#[test]
fn header_fields_are_cleaned_and_one_whose_name_is_the_secret_goes() {
    let scrub = scrub("Token-12345");
    let mut fields = HeaderMap::new();
    fields.insert("x-token-12345-x", HeaderValue::from_static("a"));
    fields.insert("x-echo", HeaderValue::from_static("Bearer Token-12345"));
    fields.append("x-echo", HeaderValue::from_static("untouched"));
    scrub.fields(&mut fields);
    let left: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    assert_eq!(left, [("x-echo", "Bearer ***********"), ("x-echo", "untouched")]);
}

proptest! {
    #[test]
    fn any_text_keeps_its_length_and_all_that_is_no_secret(
        parts in proptest::collection::vec(prop_oneof!["[ -~]{0,20}", Just("0123456789".to_owned()), "[0-9%\\\\u&#;]{0,12}"], 0..8),
        sizes in proptest::collection::vec(1_usize..9, 1..20),
    ) {
        let scrub = scrub("0123456789");
        let text = parts.concat();
        let whole = scrub.whole(text.as_bytes());
        prop_assert_eq!(whole.len(), text.len());
        prop_assert!(!String::from_utf8_lossy(&whole).contains("0123456789"));
        for (clean, original) in whole.iter().zip(text.bytes()) {
            prop_assert!(*clean == original || *clean == HIDDEN);
        }
        let mut rest = text.as_bytes();
        let mut pieces = Vec::new();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*size).min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        prop_assert_eq!(through(&scrub, pieces), whole);
    }
}
