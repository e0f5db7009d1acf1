//! The copy of arguments and outputs that the audit keeps: short, and without what looks secret.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use serde_json::Value;

use super::clip;

/// What stands in place of a value that looks secret.
pub const REDACTED: &str = "[redacted]";

/// Parts of member names whose values are left out.
const SECRET_NAMES: &[&str] = &[
    "password",
    "passwd",
    "secret",
    "token",
    "authorization",
    "api_key",
    "apikey",
    "api-key",
    "credential",
    "private_key",
    "privatekey",
    "cookie",
];

/// `text`, which is JSON, without the values of members whose names look secret, and cut at
/// `max_bytes`. What is cut is no longer JSON.
pub fn redacted_copy(text: &str, max_bytes: usize) -> String {
    let mut copy = if has_secret_name(text) { redacted(text) } else { text.to_owned() };
    clip(&mut copy, max_bytes);
    copy
}

/// Finds all of [`SECRET_NAMES`] at once: this runs twice in every execution.
static SECRET_WORDS: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::builder().ascii_case_insensitive(true).build(SECRET_NAMES).ok());

/// Whether any secret-looking word occurs at all; most texts have none and are copied as they are.
fn has_secret_name(text: &str) -> bool {
    // An escape could spell a name another way.
    text.contains("\\u") || contains_secret_word(text)
}

/// Whether `text` contains a secret-looking word, in any case.
fn contains_secret_word(text: &str) -> bool {
    SECRET_WORDS.as_ref().is_none_or(|words| words.is_match(text))
}

fn redacted(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(mut value) => {
            hide(&mut value);
            value.to_string()
        }
        Err(_) => REDACTED.to_owned(),
    }
}

fn hide(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, inner) in members {
                if contains_secret_word(name) {
                    *inner = Value::from(REDACTED);
                } else {
                    hide(inner);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_looking_members_are_left_out_at_any_depth_and_spelling() {
        let text = r#"{"a":[{"Api_Key":"k","ok":1}],"pass\u0077ord":{"x":1}}"#;
        let copy = redacted_copy(text, 1000);
        assert_eq!(copy, r#"{"a":[{"Api_Key":"[redacted]","ok":1}],"password":"[redacted]"}"#);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(redacted_copy("\"ééé\"", 4), "\"é");
        assert_eq!(redacted_copy("\"abc\"", 5), "\"abc\"");
    }
}
