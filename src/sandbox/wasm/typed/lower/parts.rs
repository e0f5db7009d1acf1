//! The parts of objects: their members, the names that may be there, payloads.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use wasmtime::component::Val;

use crate::sandbox::shape::{Case, Field, WitType};

use super::{One, Reading, Step};

/// Reads an object with a member for each field; options may be absent.
pub(super) struct Fields<'a> {
    pub(super) fields: &'a [Field],
    pub(super) reading: &'a Reading<'a>,
}

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = Vec<(String, Val)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Vec<(String, Val)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self { fields, reading } = self;
        let mut found: Vec<Option<Val>> = fields.iter().map(|_| None).collect();
        while let Some(at) = map.next_key_seed(OneOf(fields))? {
            let Some((at, field)) = at.and_then(|at| Some((at, fields.get(at)?))) else {
                return Err(A::Error::custom("has a member that is not in the type"));
            };
            let seed = One { ty: &field.ty, reading };
            found[at] = Some(reading.at(Step::Name(&field.name), || map.next_value_seed(seed))?);
        }
        let mut read = Vec::with_capacity(fields.len());
        for (field, val) in fields.iter().zip(found) {
            reading.take(size_of::<Val>() + field.name.len())?;
            let val = match (val, &field.ty) {
                (Some(val), _) => val,
                (None, WitType::Option(_)) => Val::Option(None),
                (None, _) => reading.at(Step::Name(&field.name), || Err(A::Error::custom("is missing")))?,
            };
            read.push((field.name.clone(), val));
        }
        Ok(read)
    }
}

/// Reads the payload of a case: `null` or nothing where it has none.
pub(super) struct Payload<'a> {
    pub(super) ty: Option<&'a WitType>,
    pub(super) reading: &'a Reading<'a>,
}

impl<'de> DeserializeSeed<'de> for Payload<'_> {
    type Value = Option<Box<Val>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        match self.ty {
            Some(ty) => One { ty, reading: self.reading }.deserialize(deserializer).map(Box::new).map(Some),
            None => deserializer.deserialize_any(Nothing).map(|()| None),
        }
    }
}

/// Reads `null`.
struct Nothing;

impl Visitor<'_> for Nothing {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("null")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Which of some names a text is.
pub(super) struct OneOf<'a, N>(pub(super) &'a [N]);

/// What has a name.
pub(super) trait Named {
    fn name(&self) -> &str;
}

impl Named for &str {
    fn name(&self) -> &str {
        self
    }
}

impl Named for String {
    fn name(&self) -> &str {
        self
    }
}

impl Named for Field {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for Case {
    fn name(&self) -> &str {
        &self.name
    }
}

impl<'de, N: Named> DeserializeSeed<'de> for OneOf<'_, N> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<N: Named> Visitor<'_> for OneOf<'_, N> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Option<usize>, E> {
        Ok(self.0.iter().position(|named| named.name() == text))
    }
}
