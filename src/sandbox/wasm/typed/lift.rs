//! From values to JSON.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use wasmtime::component::Val;

use crate::sandbox::shape::{Case, Field, WitType};

/// Why there is no JSON.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It would be longer than it may be.
    TooLarge,
    /// The value is not of the type.
    OtherType,
}

/// The JSON of a value, `null` where there is none, of at most `most` bytes.
pub(super) fn payload(val: Option<&Val>, ty: Option<&WitType>, most: usize) -> Result<String, Failure> {
    let mut out = Text { bytes: Vec::new(), most };
    out.payload(val, ty).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => Failure::OtherType,
        _ => Failure::TooLarge,
    })?;
    String::from_utf8(out.bytes).map_err(|_| Failure::OtherType)
}

/// A text that does not grow beyond `most` bytes.
struct Text {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.most - self.bytes.len() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn other_type<T>() -> io::Result<T> {
    Err(io::ErrorKind::InvalidData.into())
}

impl Text {
    fn payload(&mut self, val: Option<&Val>, ty: Option<&WitType>) -> io::Result<()> {
        match (val, ty) {
            (Some(val), Some(ty)) => self.value(val, ty),
            (None, None) => self.write_all(b"null"),
            _ => other_type(),
        }
    }

    fn value(&mut self, val: &Val, ty: &WitType) -> io::Result<()> {
        match (val, ty) {
            (Val::Bool(value), WitType::Bool) => self.json(value),
            (Val::S8(value), WitType::S8) => self.json(value),
            (Val::U8(value), WitType::U8) => self.json(value),
            (Val::S16(value), WitType::S16) => self.json(value),
            (Val::U16(value), WitType::U16) => self.json(value),
            (Val::S32(value), WitType::S32) => self.json(value),
            (Val::U32(value), WitType::U32) => self.json(value),
            (Val::S64(value), WitType::S64) => self.json(value),
            (Val::U64(value), WitType::U64) => self.json(value),
            (Val::Float32(value), WitType::F32) => self.single(*value),
            (Val::Float64(value), WitType::F64) => self.double(*value),
            (Val::Char(value), WitType::Char) => self.json(value),
            (Val::String(value), WitType::String) => self.json(value),
            (Val::List(items), WitType::Bytes) => self.bytes(items),
            (Val::List(items), WitType::List(element)) => self.items(items.iter().map(|item| (item, &**element))),
            (Val::FixedLengthList(items), WitType::Array(element, _)) => {
                self.items(items.iter().map(|item| (item, &**element)))
            }
            (Val::Tuple(items), WitType::Tuple(types)) if items.len() == types.len() => {
                self.items(items.iter().zip(types))
            }
            (Val::Record(values), WitType::Record(fields)) if values.len() == fields.len() => {
                self.record(values, fields)
            }
            (Val::Variant(name, payload), WitType::Variant(cases)) => self.variant(name, payload.as_deref(), cases),
            (Val::Enum(name), WitType::Enum(_)) => self.json(name),
            (Val::Flags(names), WitType::Flags(_)) => self.json(names),
            (Val::Option(None), WitType::Option(_)) => self.write_all(b"null"),
            (Val::Option(Some(val)), WitType::Option(inner)) if inner.admits_null() => {
                self.only("some", Some(val), Some(inner))
            }
            (Val::Option(Some(val)), WitType::Option(inner)) => self.value(val, inner),
            (Val::Result(Ok(val)), WitType::Result { ok, .. }) => self.only("ok", val.as_deref(), ok.as_deref()),
            (Val::Result(Err(val)), WitType::Result { err, .. }) => self.only("err", val.as_deref(), err.as_deref()),
            _ => other_type(),
        }
    }

    fn json<T: serde::Serialize + ?Sized>(&mut self, value: &T) -> io::Result<()> {
        serde_json::to_writer(self, value).map_err(io::Error::from)
    }

    fn double(&mut self, value: f64) -> io::Result<()> {
        match special(value) {
            Some(name) => self.json(name),
            None => self.json(&value),
        }
    }

    /// The shortest text that is read back as the same 32-bit float, also by way of a 64-bit one.
    fn single(&mut self, value: f32) -> io::Result<()> {
        let wide = f64::from(value);
        if special(wide).is_some() {
            return self.double(wide);
        }
        let is_same = |text: &String| text.parse::<f64>().is_ok_and(|read| (read as f32).to_bits() == value.to_bits());
        match serde_json::to_string(&value).ok().filter(is_same) {
            Some(text) => self.write_all(text.as_bytes()),
            None => self.json(&wide),
        }
    }

    fn bytes(&mut self, items: &[Val]) -> io::Result<()> {
        let bytes: Option<Vec<u8>> =
            items.iter().map(|item| if let Val::U8(byte) = item { Some(*byte) } else { None }).collect();
        let Some(bytes) = bytes else { return other_type() };
        if bytes.len() > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.write_all(b"\"")?;
        self.write_all(STANDARD.encode(bytes).as_bytes())?;
        self.write_all(b"\"")
    }

    fn items<'a>(&mut self, items: impl Iterator<Item = (&'a Val, &'a WitType)>) -> io::Result<()> {
        self.write_all(b"[")?;
        for (at, (val, ty)) in items.enumerate() {
            if at > 0 {
                self.write_all(b",")?;
            }
            self.value(val, ty)?;
        }
        self.write_all(b"]")
    }

    fn record(&mut self, values: &[(String, Val)], fields: &[Field]) -> io::Result<()> {
        self.write_all(b"{")?;
        for (at, ((_, val), field)) in values.iter().zip(fields).enumerate() {
            if at > 0 {
                self.write_all(b",")?;
            }
            self.json(&field.name)?;
            self.write_all(b":")?;
            self.value(val, &field.ty)?;
        }
        self.write_all(b"}")
    }

    fn variant(&mut self, name: &str, payload: Option<&Val>, cases: &[Case]) -> io::Result<()> {
        let Some(case) = cases.iter().find(|case| case.name == name) else { return other_type() };
        self.write_all(b"{\"tag\":")?;
        self.json(name)?;
        if case.ty.is_some() {
            self.write_all(b",\"val\":")?;
            self.payload(payload, case.ty.as_ref())?;
        }
        self.write_all(b"}")
    }

    /// An object with one member.
    fn only(&mut self, name: &str, val: Option<&Val>, ty: Option<&WitType>) -> io::Result<()> {
        self.write_all(b"{")?;
        self.json(name)?;
        self.write_all(b":")?;
        self.payload(val, ty)?;
        self.write_all(b"}")
    }
}

/// The word for a float that JSON has no number for.
fn special(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value.is_infinite() {
        Some(if value > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        None
    }
}
