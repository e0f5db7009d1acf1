//! Where in a text of JSON a pointer leads.

use std::collections::HashMap;

use serde_json::value::RawValue;

/// The line, from 1, in which the value begins that `pointer` (RFC 6901) leads to; of what is
/// not there, the line of the last value on the way. Nothing for what is not JSON.
pub(super) fn line_of(text: &str, pointer: &str) -> Option<usize> {
    let mut value: &RawValue = serde_json::from_str(text).ok()?;
    for word in pointer.split('/').skip(1) {
        let Some(next) = inside(value, &word.replace("~1", "/").replace("~0", "~")) else { break };
        value = next;
    }
    // A raw value is a piece of the text itself.
    let before = value.get().as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    Some(text.get(..before)?.matches('\n').count() + 1)
}

/// The member or the element of this name.
fn inside<'a>(value: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    match serde_json::from_str::<HashMap<String, &RawValue>>(value.get()) {
        Ok(members) => members.get(name).copied(),
        Err(_) => serde_json::from_str::<Vec<&RawValue>>(value.get()).ok()?.get(name.parse::<usize>().ok()?).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_leads_to_the_line_where_its_value_begins() {
        let text = "\n\n{\n  \"a\": 1,\n  \"b/c\": [\n    { \"~\": 1 },\n    {\n      \"é\": \"x\"\n    }\n  ]\n}\n";
        for (pointer, line) in [
            ("", 3),
            ("/a", 4),
            ("/b~1c", 5),
            ("/b~1c/0/~0", 6),
            ("/b~1c/1", 7),
            ("/b~1c/1/é", 8),
            ("/none", 3),
            ("/b~1c/9/x", 5),
            ("/a/x", 4),
        ] {
            assert_eq!(line_of(text, pointer), Some(line), "{pointer}");
        }
        assert_eq!(line_of("{", "/a"), None);
    }
}
