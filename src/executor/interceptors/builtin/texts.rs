//! Changing the texts in a JSON text and nothing around them: numbers keep every digit.

use std::borrow::Cow;

/// `json`, which is JSON, with each text in it (names of members too) as `change` gives it; nothing if none
/// changes.
pub(super) fn changed(json: &str, mut change: impl FnMut(&str) -> Option<String>) -> Option<String> {
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    let bytes = json.as_bytes();
    while let Some(begin) = bytes[at..].iter().position(|byte| *byte == b'"').map(|found| at + found) {
        let end = end_of_text(bytes, begin)?;
        let literal = &json[begin..end];
        at = end;
        let text: Cow<'_, str> = if literal.contains('\\') {
            Cow::Owned(serde_json::from_str(literal).ok()?)
        } else {
            Cow::Borrowed(&literal[1..literal.len() - 1])
        };
        if let Some(new) = change(&text) {
            out.push_str(&json[copied..begin]);
            out.push_str(&serde_json::to_string(&new).unwrap_or_default());
            copied = end;
        }
    }
    if copied == 0 {
        return None;
    }
    out.push_str(&json[copied..]);
    Some(out)
}

/// Where the text that begins here ends, behind its last quote.
fn end_of_text(bytes: &[u8], begin: usize) -> Option<usize> {
    let mut at = begin + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn texts_change_however_they_are_written_and_numbers_do_not() {
        let json = r#"{"secret":123456789012345678901234567890, "a":["\u0073ecret","s\"ecret", "x"]}"#;
        let new = changed(json, |text| text.contains("secret").then(|| text.replace("secret", "\"")));
        let expected = r#"{"\"":123456789012345678901234567890, "a":["\"","s\"ecret", "x"]}"#;
        assert_eq!(new.as_deref(), Some(expected));
        assert_eq!(changed(json, |_| None), None);
    }

    proptest! {
        #[test]
        fn what_is_json_stays_json(text in ".{0,20}", key in ".{0,20}", marker in "[a-c\"\\\\]") {
            let value = serde_json::json!({ key: [text, 1.5, null], "b": { "c": "abc" } });
            let json = value.to_string();
            let new = changed(&json, |text| text.contains(&marker).then(|| text.replace(&marker, "\"\\\n")));
            prop_assert!(new.is_none_or(|new| serde_json::from_str::<Value>(&new).is_ok()));
        }
    }
}
