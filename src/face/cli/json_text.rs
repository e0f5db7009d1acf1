//! JSON as text, laid out for people without a change to its values.

use std::fmt::Write as _;

use crate::model::steers;

/// Lays out a JSON text over lines.
///
/// Works on the text and not on a parsed value, so that every number stays as it was
/// written. What a terminal would obey is escaped.
pub(super) fn pretty(text: &str) -> String {
    let mut laid = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut rest = text.trim().chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => {
                laid.push('"');
                copy_string(&mut rest, &mut laid);
            }
            '{' | '[' => {
                laid.push(c);
                while rest.next_if(|c| c.is_whitespace()).is_some() {}
                if let Some(end) = rest.next_if(|c| matches!(c, '}' | ']')) {
                    laid.push(end);
                } else {
                    depth += 1;
                    new_line(depth, &mut laid);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(depth, &mut laid);
                laid.push(c);
            }
            ',' => {
                laid.push(',');
                new_line(depth, &mut laid);
            }
            ':' => laid.push_str(": "),
            c if c.is_whitespace() => {}
            c => laid.push(c),
        }
    }
    laid
}

/// Copies a string up to and with its closing quote.
fn copy_string(rest: &mut impl Iterator<Item = char>, laid: &mut String) {
    while let Some(c) = rest.next() {
        match c {
            '\\' => {
                laid.push('\\');
                laid.extend(rest.next());
            }
            '"' => {
                laid.push('"');
                return;
            }
            c if steers(c) => drop(write!(laid, "\\u{:04x}", u32::from(c))),
            c => laid.push(c),
        }
    }
}

fn new_line(depth: usize, laid: &mut String) {
    laid.push('\n');
    laid.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn values_stay_as_they_were_written() {
        let text = r#"{"big":123456789012345678901234567890,"x":[1.50,{}, [ ] ,null],"s":"a\"{b}: ,[\\"}"#;
        insta::assert_snapshot!(pretty(text), @r#"
        {
          "big": 123456789012345678901234567890,
          "x": [
            1.50,
            {},
            [],
            null
          ],
          "s": "a\"{b}: ,[\\"
        }
        "#);
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(pretty("\"a\u{9b}31m\u{202e}\""), r#""a\u009b31m\u202e""#);
    }

    proptest::proptest! {
        #[test]
        fn the_value_is_the_same(text in "[ -~\u{80}-\u{9f}é]{0,20}", number in proptest::num::i64::ANY) {
            let value = serde_json::json!({ "t": text, "n": [number, { &text: [] }] });
            let read: Value = serde_json::from_str(&pretty(&value.to_string())).unwrap();
            proptest::prop_assert_eq!(read, value);
        }
    }
}
