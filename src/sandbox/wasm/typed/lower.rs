//! From the JSON of arguments to values.
//!
//! The text is read once, straight into values; a tree of JSON in between would take sixty times
//! its room. Messages name the rule and not the value, which may be secret.

mod parts;

use std::cell::{Cell, RefCell};
use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::json;
use serde_json::value::RawValue;
use wasmtime::component::Val;

use crate::model::{Code, Limits, RunError};
use crate::sandbox::shape::{Case, Field, WitType};

use self::parts::{Fields, OneOf, Payload};

/// The largest whole number that a float is sure to mean.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// Base64 with or without `=` at its end.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Reads `text`, an object with a member for each parameter, options aside.
///
/// # Errors
///
/// `invalid_args` with a JSON pointer to the first value that does not fit; `out_of_memory`
/// where the values take more than `limits.memoryMb`.
pub(super) fn arguments(text: &str, params: &[Field], limits: &Limits) -> Result<Vec<Val>, RunError> {
    let room = usize::try_from(limits.memory_mb << 20).unwrap_or(usize::MAX);
    let reading = Reading { path: RefCell::default(), room: Cell::new(Some(room)) };
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = Fields { fields: params, reading: &reading }.deserialize(&mut reader);
    read.map(|fields| fields.into_iter().map(|(_, val)| val).collect()).map_err(|error| reading.failure(&error, limits))
}

/// Where the reader is, and how much it may still take.
struct Reading<'a> {
    path: RefCell<Vec<Step<'a>>>,
    /// Bytes that are left; none once there were too few.
    room: Cell<Option<usize>>,
}

/// One step into a value.
enum Step<'a> {
    Name(&'a str),
    Item(usize),
}

impl<'a> Reading<'a> {
    /// Goes one step down for as long as `read` takes. After an error the path stays where it
    /// was, for [`Reading::pointer`].
    fn at<T, E>(&self, step: Step<'a>, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.path.borrow_mut().push(step);
        let value = read()?;
        self.path.borrow_mut().pop();
        Ok(value)
    }

    fn take<E: Error>(&self, bytes: usize) -> Result<(), E> {
        let left = self.room.get().and_then(|room| room.checked_sub(bytes));
        self.room.set(left);
        left.map(drop).ok_or_else(|| E::custom("takes too much memory"))
    }

    fn failure(&self, error: &serde_json::Error, limits: &Limits) -> RunError {
        if self.room.get().is_none() {
            let message = format!("the arguments take more than {} MiB of memory (limits.memoryMb)", limits.memory_mb);
            return RunError::new(Code::OutOfMemory, message);
        }
        let text = error.to_string();
        // What the library says of a value of another type quotes the value.
        let text = match text.rsplit_once(", expected ") {
            Some((_, expected)) if text.starts_with("invalid type: ") => format!("expected {expected}"),
            _ => text,
        };
        let what = text.split(" at line ").next().unwrap_or_default();
        let pointer = self.pointer();
        RunError {
            code: Code::InvalidArgs,
            message: format!("the arguments do not fit the function at {pointer:?}: {what}"),
            detail: Some(json!({ "errors": [{ "pointer": pointer, "detail": what }] })),
        }
    }

    fn pointer(&self) -> String {
        let steps = self.path.borrow();
        let steps = steps.iter().map(|step| match step {
            Step::Name(name) => format!("/{name}"),
            Step::Item(at) => format!("/{at}"),
        });
        steps.collect()
    }
}

/// Reads one value of a type.
#[derive(Clone, Copy)]
struct One<'a> {
    ty: &'a WitType,
    reading: &'a Reading<'a>,
}

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = Val;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Val, D::Error> {
        self.reading.take(size_of::<Val>())?;
        match self.ty {
            WitType::Option(_) => deserializer.deserialize_option(self),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for One<'_> {
    type Value = Val;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(expected(self.ty))
    }

    fn visit_none<E: Error>(self) -> Result<Val, E> {
        Ok(Val::Option(None))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Val, D::Error> {
        match self.ty {
            // The one member of an object, which `visit_map` reads.
            WitType::Option(inner) if inner.admits_null() => deserializer.deserialize_any(self),
            WitType::Option(inner) => {
                let inner = One { ty: inner, ..self }.deserialize(deserializer)?;
                Ok(Val::Option(Some(Box::new(inner))))
            }
            _ => Err(self.misfit()),
        }
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Val, E> {
        if *self.ty == WitType::Bool { Ok(Val::Bool(value)) } else { Err(self.misfit()) }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Val, E> {
        self.integer(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Val, E> {
        self.integer(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Val, E> {
        match self.ty {
            WitType::F64 => Ok(Val::Float64(value)),
            WitType::F32 => self.single(value),
            _ if value.fract() == 0.0 && value.abs() <= EXACT => self.integer(value as i128),
            _ => Err(self.misfit()),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Val, E> {
        match self.ty {
            WitType::String => {
                self.reading.take(text.len())?;
                Ok(Val::String(text.to_owned()))
            }
            WitType::Bytes => self.bytes(text),
            WitType::Enum(names) if names.iter().any(|name| name == text) => Ok(Val::Enum(text.to_owned())),
            WitType::Char => {
                let mut chars = text.chars();
                match (chars.next(), chars.next()) {
                    (Some(c), None) => Ok(Val::Char(c)),
                    _ => Err(self.misfit()),
                }
            }
            WitType::F32 => special(text).map_or_else(|| Err(self.misfit()), |value| self.single(value)),
            WitType::F64 => special(text).map(Val::Float64).ok_or_else(|| self.misfit()),
            _ => Err(self.misfit()),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Val, A::Error> {
        match self.ty {
            WitType::List(element) => self.list(items, element, usize::MAX).map(Val::List),
            WitType::Array(element, length) => {
                let most = usize::try_from(*length).unwrap_or(usize::MAX);
                let read = self.list(items, element, most)?;
                if read.len() < most { Err(self.misfit()) } else { Ok(Val::FixedLengthList(read)) }
            }
            WitType::Tuple(types) => {
                let mut read = Vec::with_capacity(types.len());
                for (at, ty) in types.iter().enumerate() {
                    let seed = One { ty, ..self };
                    let item = self.reading.at(Step::Item(at), || items.next_element_seed(seed))?;
                    read.push(item.ok_or_else(|| self.misfit())?);
                }
                if items.next_element::<IgnoredAny>()?.is_some() { Err(self.misfit()) } else { Ok(Val::Tuple(read)) }
            }
            WitType::Flags(names) => self.flags(items, names),
            _ => Err(self.misfit()),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Val, A::Error> {
        match self.ty {
            WitType::Record(fields) => Fields { fields, reading: self.reading }.visit_map(map).map(Val::Record),
            WitType::Variant(cases) => self.variant(cases, map),
            WitType::Result { ok, err } => {
                let is_ok = match map.next_key_seed(OneOf(&["ok", "err"]))?.flatten() {
                    Some(at) => at == 0,
                    None => return Err(self.misfit()),
                };
                let (name, ty) = if is_ok { ("ok", ok) } else { ("err", err) };
                let seed = Payload { ty: ty.as_deref(), reading: self.reading };
                let payload = self.reading.at(Step::Name(name), || map.next_value_seed(seed))?;
                self.end(map)?;
                Ok(Val::Result(if is_ok { Ok(payload) } else { Err(payload) }))
            }
            WitType::Option(inner) if inner.admits_null() => {
                if map.next_key_seed(OneOf(&["some"]))?.flatten().is_none() {
                    return Err(self.misfit());
                }
                let seed = One { ty: inner, ..self };
                let inner = self.reading.at(Step::Name("some"), || map.next_value_seed(seed))?;
                self.end(map)?;
                Ok(Val::Option(Some(Box::new(inner))))
            }
            _ => Err(self.misfit()),
        }
    }
}

impl<'a> One<'a> {
    fn misfit<E: Error>(self) -> E {
        E::custom(format_args!("expected {}", expected(self.ty)))
    }

    fn integer<E: Error>(self, value: i128) -> Result<Val, E> {
        let val = match self.ty {
            WitType::S8 => value.try_into().ok().map(Val::S8),
            WitType::U8 => value.try_into().ok().map(Val::U8),
            WitType::S16 => value.try_into().ok().map(Val::S16),
            WitType::U16 => value.try_into().ok().map(Val::U16),
            WitType::S32 => value.try_into().ok().map(Val::S32),
            WitType::U32 => value.try_into().ok().map(Val::U32),
            WitType::S64 => value.try_into().ok().map(Val::S64),
            WitType::U64 => value.try_into().ok().map(Val::U64),
            WitType::F64 => Some(Val::Float64(value as f64)),
            WitType::F32 => Some(Val::Float32(value as f32)),
            _ => None,
        };
        val.ok_or_else(|| self.misfit())
    }

    fn single<E: Error>(self, value: f64) -> Result<Val, E> {
        let single = value as f32;
        if value.is_finite() && single.is_infinite() { Err(self.misfit()) } else { Ok(Val::Float32(single)) }
    }

    fn bytes<E: Error>(self, text: &str) -> Result<Val, E> {
        self.reading.take(text.len().div_ceil(4) * 3 * size_of::<Val>())?;
        let bytes = BASE64.decode(text).map_err(|_| self.misfit())?;
        Ok(Val::List(bytes.into_iter().map(Val::U8).collect()))
    }

    fn list<'de, A: SeqAccess<'de>>(self, mut items: A, ty: &'a WitType, most: usize) -> Result<Vec<Val>, A::Error> {
        let mut read = Vec::new();
        while read.len() < most {
            let seed = One { ty, ..self };
            let Some(item) = self.reading.at(Step::Item(read.len()), || items.next_element_seed(seed))? else {
                return Ok(read);
            };
            read.push(item);
        }
        if items.next_element::<IgnoredAny>()?.is_some() { Err(self.misfit()) } else { Ok(read) }
    }

    fn flags<'de, A: SeqAccess<'de>>(self, mut items: A, names: &'a [String]) -> Result<Val, A::Error> {
        let mut is_set = vec![false; names.len()];
        for at in 0.. {
            let next = self.reading.at(Step::Item(at), || match items.next_element_seed(OneOf(names))? {
                None => Ok(None),
                Some(Some(flag)) if !is_set[flag] => Ok(Some(flag)),
                Some(_) => Err(A::Error::custom("expected each of the names of the flags at most once")),
            })?;
            let Some(flag) = next else { break };
            self.reading.take(size_of::<String>() + names[flag].len())?;
            is_set[flag] = true;
        }
        let set = names.iter().zip(is_set).filter(|(_, is_set)| *is_set);
        Ok(Val::Flags(set.map(|(name, _)| name.clone()).collect()))
    }

    /// Reads `{"tag": …, "val": …}`, in either order.
    fn variant<'de, A: MapAccess<'de>>(self, cases: &'a [Case], mut map: A) -> Result<Val, A::Error> {
        let mut case: Option<&Case> = None;
        let mut val: Option<Box<Val>> = None;
        let mut early: Option<Box<RawValue>> = None;
        let mut has_val = false;
        while let Some(key) = map.next_key_seed(OneOf(&["tag", "val"]))? {
            match (key, case) {
                (Some(0), _) => {
                    let found = self.reading.at(Step::Name("tag"), || {
                        let found = map.next_value_seed(OneOf(cases))?.and_then(|at| cases.get(at));
                        found.ok_or_else(|| A::Error::custom("expected the name of a case"))
                    })?;
                    case = Some(found);
                }
                (Some(_), Some(case)) => {
                    let seed = Payload { ty: case.ty.as_ref(), reading: self.reading };
                    val = self.reading.at(Step::Name("val"), || map.next_value_seed(seed))?;
                    has_val = true;
                }
                // Of which type it is the tag will tell.
                (Some(_), None) => early = Some(map.next_value()?),
                (None, _) => return Err(self.misfit()),
            }
        }
        let case = case.ok_or_else(|| self.misfit())?;
        if let Some(text) = early {
            let seed = Payload { ty: case.ty.as_ref(), reading: self.reading };
            let mut reader = serde_json::Deserializer::from_str(text.get());
            val = self.reading.at(Step::Name("val"), || seed.deserialize(&mut reader)).map_err(A::Error::custom)?;
            has_val = true;
        }
        if case.ty.is_some() != has_val {
            return Err(self.misfit());
        }
        Ok(Val::Variant(case.name.clone(), val))
    }

    /// Refuses more members.
    fn end<'de, A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if map.next_key::<IgnoredAny>()?.is_some() { Err(self.misfit()) } else { Ok(()) }
    }
}

/// The floats that JSON has no number for.
fn special(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// What a value of the type looks like in JSON.
fn expected(ty: &WitType) -> &'static str {
    match ty {
        WitType::Bool => "true or false",
        WitType::S8 => "a whole number of 8 bits, with a sign",
        WitType::U8 => "a whole number of 8 bits",
        WitType::S16 => "a whole number of 16 bits, with a sign",
        WitType::U16 => "a whole number of 16 bits",
        WitType::S32 => "a whole number of 32 bits, with a sign",
        WitType::U32 => "a whole number of 32 bits",
        WitType::S64 => "a whole number of 64 bits, with a sign",
        WitType::U64 => "a whole number of 64 bits",
        WitType::F32 => "a number within 32 bits, \"NaN\", \"Infinity\" or \"-Infinity\"",
        WitType::F64 => "a number, \"NaN\", \"Infinity\" or \"-Infinity\"",
        WitType::Char => "a text of one character",
        WitType::String => "a text",
        WitType::Bytes => "a text in base64",
        WitType::List(_) => "an array",
        WitType::Array(..) | WitType::Tuple(_) => "an array of the length of the type",
        WitType::Record(_) => "an object with the fields of the record",
        WitType::Variant(_) => "an object with `tag`, and `val` where the case has a payload",
        WitType::Enum(_) => "one of the names of the enum",
        WitType::Flags(_) => "an array of names of the flags",
        WitType::Option(inner) if inner.admits_null() => "null, or an object with `some` and nothing else",
        WitType::Option(_) => "null, or what the option is of",
        WitType::Result { .. } => "an object with `ok` or `err` and nothing else",
    }
}
