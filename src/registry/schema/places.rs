//! The text of a schema: how much there is, and where each part stands.

use std::collections::HashMap;
use std::io;

use serde_json::Value;

use crate::model::Error;

use super::{MAX_DEPTH, MAX_POINTER_BYTES, MAX_TEXT_BYTES, MAX_VALUES, join, refuse};

/// Where each object and boolean of a schema stands, by its address.
///
/// An address says which part is meant, whichever reference led to it. It is compared, never
/// followed, and the schema is borrowed for as long as the addresses are in use.
pub(super) struct Places<'s> {
    schema: &'s Value,
    pointers: HashMap<usize, String>,
}

impl<'s> Places<'s> {
    /// Looks through `schema`.
    ///
    /// # Errors
    ///
    /// `invalid_manifest` if it is too large or too deep.
    pub(super) fn of(schema: &'s Value) -> Result<Self, Error> {
        let mut pointers = HashMap::new();
        let (mut values, mut bytes) = (0, 0);
        let mut open = vec![(schema, String::new(), 0)];
        while let Some((value, pointer, depth)) = open.pop() {
            values += 1;
            bytes += pointer.len();
            if depth > MAX_DEPTH {
                return Err(refuse("", format!("the schema is nested deeper than {MAX_DEPTH} levels")));
            }
            if values > MAX_VALUES {
                return Err(refuse("", format!("the schema has more than {MAX_VALUES} values")));
            }
            if bytes > MAX_POINTER_BYTES {
                return Err(refuse("", "the schema has long member names with much below them; shorten them"));
            }
            match value {
                Value::Array(items) => {
                    let below = items.iter().enumerate();
                    open.extend(below.map(|(index, item)| (item, join(&pointer, &index.to_string()), depth + 1)));
                }
                Value::Object(members) => {
                    open.extend(members.iter().map(|(name, member)| (member, join(&pointer, name), depth + 1)));
                    pointers.insert(address(value), pointer);
                }
                Value::Bool(_) => drop(pointers.insert(address(value), pointer)),
                _ => {}
            }
        }
        text_fits(schema)?;
        Ok(Self { schema, pointers })
    }

    /// The whole schema.
    pub(super) fn schema(&self) -> &'s Value {
        self.schema
    }

    /// Where `part` stands, if it is a part of this schema and not of a draft's.
    pub(super) fn pointer(&self, part: &Value) -> Option<&str> {
        self.pointers.get(&address(part)).map(String::as_str)
    }
}

/// What tells two parts of one schema apart.
pub(super) fn address(part: &Value) -> usize {
    std::ptr::from_ref(part).addr()
}

/// How many values there are in `value`, itself among them. `value` is not deeper than a schema.
pub(super) fn values_in(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(values_in).sum::<u64>(),
        Value::Object(members) => 1 + members.values().map(values_in).sum::<u64>(),
        _ => 1,
    }
}

fn text_fits(schema: &Value) -> Result<(), Error> {
    /// Writes nowhere, and fails when the text would be too long.
    struct Room(usize);
    impl io::Write for Room {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    serde_json::to_writer(Room(MAX_TEXT_BYTES), schema)
        .map_err(|_| refuse("", format!("the schema is larger than {MAX_TEXT_BYTES} bytes")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_part_is_found_by_its_address() {
        let schema = json!({ "properties": { "a/b": { "items": true } } });
        let places = Places::of(&schema).unwrap();
        assert_eq!(places.pointer(&schema["properties"]["a/b"]), Some("/properties/a~1b"));
        assert_eq!(places.pointer(&schema["properties"]["a/b"]["items"]), Some("/properties/a~1b/items"));
        assert_eq!(places.pointer(&json!({})), None);
    }

    #[test]
    fn text_depth_values_and_paths_are_bounded() {
        let deep = |levels| (0..levels).fold(json!(true), |inner, _| json!({ "not": inner }));
        assert!(Places::of(&deep(MAX_DEPTH)).is_ok());
        assert!(Places::of(&deep(MAX_DEPTH + 1)).is_err());
        let many = json!({ "enum": vec![0; MAX_VALUES - 2] });
        assert!(Places::of(&many).is_ok());
        assert!(Places::of(&json!({ "enum": vec![0; MAX_VALUES - 1] })).is_err());
        assert!(Places::of(&json!({ "title": "x".repeat(MAX_TEXT_BYTES - 12) })).is_ok());
        assert!(Places::of(&json!({ "title": "x".repeat(MAX_TEXT_BYTES - 11) })).is_err());
        let mut below_a_long_name = serde_json::Map::new();
        below_a_long_name.insert("x".repeat(100_000), json!({ "enum": vec![0; 100] }));
        let error = Places::of(&Value::Object(below_a_long_name)).err().unwrap();
        assert!(error.detail.contains("long member names"), "{error:?}");
    }
}
