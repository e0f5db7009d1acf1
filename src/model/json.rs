//! JSON as it comes from outside: read strictly, kept as it was written.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Code, Error};

/// Deepest nesting of arrays and objects that is read.
pub const MAX_JSON_DEPTH: u32 = 64;

/// The text of a JSON value.
///
/// Two readers of one text must not see two values, or a check by one says nothing about
/// the other: an object that has a key twice is refused, and so is a number that does not
/// fit a double. The text is kept, so that large integers reach the guest without loss, and
/// nothing else is: as a tree, a value can take sixty times the room of its text.
#[derive(Clone, Debug)]
pub struct StrictJson(Box<RawValue>);

impl StrictJson {
    /// Reads `text`.
    ///
    /// # Errors
    ///
    /// `malformed` with line and column: not JSON, a key twice in one object, a number
    /// that is not finite as a double, or nesting deeper than [`MAX_JSON_DEPTH`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let raw = serde_json::from_str(text).map_err(|error| malformed(&error))?;
        // Of the whole text: a raw value has lost the lines before it.
        require_strict(text)?;
        Ok(Self(raw))
    }

    /// Reads a value whose text is already known to be JSON.
    ///
    /// # Errors
    ///
    /// As [`StrictJson::parse`].
    pub fn from_raw(text: Box<RawValue>) -> Result<Self, Error> {
        require_strict(text.get())?;
        Ok(Self(text))
    }

    /// The text as it was written.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// The value, built anew.
    pub fn to_value(&self) -> Value {
        // The text was read before, so that this does not fail.
        serde_json::from_str(self.text()).unwrap_or_default()
    }
}

impl Default for StrictJson {
    /// The empty object.
    fn default() -> Self {
        Self::from(Value::Object(Map::new()))
    }
}

impl From<Value> for StrictJson {
    fn from(value: Value) -> Self {
        Self(RawValue::from_string(value.to_string()).unwrap_or_default())
    }
}

/// For `deserialize_with`: reads a struct from an object only. serde by itself would also take
/// an array for the fields in their order, which no description of the API says.
pub fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Object<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_map(Object(PhantomData))
}

/// Reads `text` as one strict value, where its text is kept elsewhere.
///
/// # Errors
///
/// As [`StrictJson::parse`].
pub fn strict_value(text: &str) -> Result<Value, Error> {
    require_strict(text)?;
    serde_json::from_str(text).map_err(|error| malformed(&error))
}

fn require_strict(text: &str) -> Result<(), Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    Strict { depth: 0 }.deserialize(&mut reader).map_err(|error| malformed(&error))?;
    reader.end().map_err(|error| malformed(&error))
}

fn malformed(error: &serde_json::Error) -> Error {
    Error::new(Code::Malformed, format!("not readable as JSON: {error}"))
}

/// Looks at a value that lies `depth` levels deep, and builds nothing of it: as a tree, a value
/// can take sixty times the room of its text.
#[derive(Clone, Copy)]
struct Strict {
    depth: u32,
}

impl Strict {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= MAX_JSON_DEPTH {
            return Err(E::custom(format!("nested deeper than {MAX_JSON_DEPTH} levels")));
        }
        Ok(Self { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        if value.is_finite() { Ok(()) } else { Err(E::custom("number out of range")) }
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let inner = self.deeper()?;
        while items.next_element_seed(inner)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let inner = self.deeper()?;
        let mut keys = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            if !keys.insert(key) {
                return Err(A::Error::custom("an object has the same key twice"));
            }
            entries.next_value_seed(inner)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_as_written() {
        let text = r#"{"big": 123456789012345678901234567890, "x": [1.50, null]}"#;
        assert_eq!(StrictJson::parse(text).unwrap().text(), text);
    }

    #[test]
    fn bombs_are_refused() {
        let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
        let very_deep = "[".repeat(100_000);
        for bad in [
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"[{"b":{"c":1,"c":1}}]"#,
            "1e999",
            "-1e999",
            "{",
            "",
            "nul",
            "1 2",
            "\"\u{1}\"",
            &deep,
            &very_deep,
        ] {
            let error = StrictJson::parse(bad).unwrap_err();
            assert_eq!(error.code, Code::Malformed, "{bad:.40}");
        }
        let fits = format!("{}{}", "[".repeat(64), "]".repeat(64));
        assert!(StrictJson::parse(&fits).is_ok());
    }
}
