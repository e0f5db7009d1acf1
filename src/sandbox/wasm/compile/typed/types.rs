//! From the types of a component to types whose values can be JSON.

use wasmparser::PrimitiveValType;
use wasmparser::component_types::{ComponentDefinedType, ComponentDefinedTypeId, ComponentValType};
use wasmparser::types::TypesRef;

use crate::sandbox::shape::{Case, Field, WitType};

use super::exports::Exported;

/// Most types, each written out wherever it is used, of all functions of a component together:
/// a type that names another twice, and that one a third twice, doubles with each step.
const MAX_NODES: usize = 4_000;
/// Most bytes of the names in them.
const MAX_NAME_BYTES: usize = 128 << 10;
/// Deepest nesting of the schema of a function. The registry's bound is a little above it, and
/// whatever walks through values of the type calls itself at most so often.
const MAX_DEPTH: usize = 56;

/// What a function takes and gives, or why JSON cannot be that.
pub(super) type Read = Result<(Vec<Field>, Option<WitType>), String>;

/// Reads types, as far as the bounds allow.
pub(super) struct Reader<'a> {
    types: TypesRef<'a>,
    nodes: usize,
    name_bytes: usize,
}

/// The reason for what is beyond a bound.
pub(super) fn too_large() -> String {
    "has types that are too large to be written as a JSON Schema".into()
}

impl<'a> Reader<'a> {
    pub(super) fn new(types: TypesRef<'a>) -> Self {
        Self { types, nodes: MAX_NODES, name_bytes: MAX_NAME_BYTES }
    }

    /// Reads a function. One that is too large leaves room for those behind it.
    pub(super) fn function(&mut self, exported: &Exported) -> Read {
        let room = (self.nodes, self.name_bytes);
        let read = self.read(exported);
        if read.is_err() {
            (self.nodes, self.name_bytes) = room;
        }
        read
    }

    fn read(&mut self, exported: &Exported) -> Read {
        let types = self.types;
        let function = &types[exported.id];
        let params = function.params.iter().map(|(name, kind)| self.field(name.as_str(), kind, 2));
        let params = params.collect::<Result<_, String>>()?;
        let result = function.result.as_ref().map(|kind| self.value(kind, 0)).transpose()?;
        Ok((params, result))
    }

    fn field(&mut self, name: &str, kind: &ComponentValType, depth: usize) -> Result<Field, String> {
        Ok(Field { name: self.name(name)?, ty: self.value(kind, depth)? })
    }

    fn name(&mut self, name: &str) -> Result<String, String> {
        self.name_bytes = self.name_bytes.checked_sub(name.len()).ok_or_else(too_large)?;
        Ok(name.to_owned())
    }

    fn names<'n>(&mut self, names: impl Iterator<Item = &'n str>) -> Result<Vec<String>, String> {
        names
            .map(|name| {
                self.nodes = self.nodes.checked_sub(1).ok_or_else(too_large)?;
                self.name(name)
            })
            .collect()
    }

    /// Reads a type whose schema lies `depth` levels deep.
    fn value(&mut self, kind: &ComponentValType, depth: usize) -> Result<WitType, String> {
        self.nodes = self.nodes.checked_sub(1).ok_or_else(too_large)?;
        if depth > MAX_DEPTH {
            return Err("has types that are nested too deep for JSON".into());
        }
        match kind {
            ComponentValType::Primitive(kind) => primitive(*kind),
            ComponentValType::Type(id) => self.defined(*id, depth),
        }
    }

    fn defined(&mut self, id: ComponentDefinedTypeId, depth: usize) -> Result<WitType, String> {
        let types = self.types;
        Ok(match &types[id] {
            ComponentDefinedType::Primitive(kind) => primitive(*kind)?,
            ComponentDefinedType::Record(record) => {
                let fields = record.fields.iter().map(|(name, kind)| self.field(name.as_str(), kind, depth + 2));
                WitType::Record(fields.collect::<Result<_, String>>()?)
            }
            ComponentDefinedType::Variant(variant) => {
                let cases = variant.cases.iter().map(|(name, case)| {
                    let ty = case.ty.as_ref().map(|kind| self.value(kind, depth + 4)).transpose()?;
                    Ok(Case { name: self.name(name.as_str())?, ty })
                });
                WitType::Variant(cases.collect::<Result<_, String>>()?)
            }
            ComponentDefinedType::List { element, .. } => match self.value(element, depth + 1)? {
                WitType::U8 => WitType::Bytes,
                element => WitType::List(Box::new(element)),
            },
            ComponentDefinedType::FixedLengthList { element, length, .. } => {
                WitType::Array(Box::new(self.value(element, depth + 1)?), *length)
            }
            ComponentDefinedType::Tuple(tuple) => {
                let types = tuple.types.iter().map(|kind| self.value(kind, depth + 2));
                WitType::Tuple(types.collect::<Result<_, String>>()?)
            }
            ComponentDefinedType::Flags(names) => WitType::Flags(self.names(names.iter().map(|name| name.as_str()))?),
            ComponentDefinedType::Enum(names) => WitType::Enum(self.names(names.iter().map(|name| name.as_str()))?),
            ComponentDefinedType::Option { ty, .. } => WitType::Option(Box::new(self.value(ty, depth + 4)?)),
            ComponentDefinedType::Result { ok, err, .. } => WitType::Result {
                ok: ok.as_ref().map(|kind| self.value(kind, depth + 4)).transpose()?.map(Box::new),
                err: err.as_ref().map(|kind| self.value(kind, depth + 4)).transpose()?.map(Box::new),
            },
            ComponentDefinedType::Own(_) | ComponentDefinedType::Borrow(_) => {
                return Err(no_json("a handle to a resource"));
            }
            ComponentDefinedType::Future { .. } => return Err(no_json("a future")),
            ComponentDefinedType::Stream { .. } => return Err(no_json("a stream")),
            ComponentDefinedType::Map { .. } => return Err(no_json("a map")),
        })
    }
}

fn no_json(what: &str) -> String {
    format!("takes or gives {what}, which cannot be JSON")
}

fn primitive(kind: PrimitiveValType) -> Result<WitType, String> {
    Ok(match kind {
        PrimitiveValType::Bool => WitType::Bool,
        PrimitiveValType::S8 => WitType::S8,
        PrimitiveValType::U8 => WitType::U8,
        PrimitiveValType::S16 => WitType::S16,
        PrimitiveValType::U16 => WitType::U16,
        PrimitiveValType::S32 => WitType::S32,
        PrimitiveValType::U32 => WitType::U32,
        PrimitiveValType::S64 => WitType::S64,
        PrimitiveValType::U64 => WitType::U64,
        PrimitiveValType::F32 => WitType::F32,
        PrimitiveValType::F64 => WitType::F64,
        PrimitiveValType::Char => WitType::Char,
        PrimitiveValType::String => WitType::String,
        PrimitiveValType::ErrorContext => return Err(no_json("an error context")),
    })
}
