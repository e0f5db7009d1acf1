//! By what a guest is called: one text, values of the types it declares, or what a program or a
//! server is given.

use serde::{Deserialize, Serialize};

/// How a guest is called (SPEC §4).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Shape {
    /// By `run` of the world `skillvisor:skill/skill`: JSON text in, JSON text out.
    #[default]
    Skill,
    /// By its own exports, with values of their types.
    Typed(Vec<TypedExport>),
    /// As a program, by the export of this name, a `wasi:cli/run`: JSON on stdin, the result on stdout.
    Command(String),
    /// As a server, by the export of this name, a `wasi:http/incoming-handler`: JSON in a request,
    /// the result in the response.
    Http(String),
    /// The same, by a `wasi:http/handler` of WASI 0.3.
    AsyncHttp(String),
    /// As a program that is no component but a core module for WASI preview 1.
    Module,
}

/// An exported function that JSON can be turned into a call of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TypedExport {
    /// Its name in the skill.
    pub(crate) name: String,
    /// The exported interface it is in; none for a function of the world itself.
    pub(crate) instance: Option<String>,
    /// Its name there.
    pub(crate) export: String,
    /// What goes in, in order.
    pub(crate) params: Vec<Field>,
    /// What comes out, if anything does.
    pub(crate) result: Option<WitType>,
}

/// A parameter of a function, or a field of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) ty: WitType,
}

/// A case of a variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) ty: Option<WitType>,
}

/// A type of the component model whose values can be JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum WitType {
    Bool,
    S8,
    U8,
    S16,
    U16,
    S32,
    U32,
    S64,
    U64,
    F32,
    F64,
    Char,
    String,
    /// `list<u8>`.
    Bytes,
    List(Box<WitType>),
    /// A list of so many.
    Array(Box<WitType>, u32),
    Tuple(Vec<WitType>),
    Record(Vec<Field>),
    Variant(Vec<Case>),
    Enum(Vec<String>),
    Flags(Vec<String>),
    Option(Box<WitType>),
    Result {
        ok: Option<Box<WitType>>,
        err: Option<Box<WitType>>,
    },
}

impl WitType {
    /// Whether one of its values is written `null`: an option of it needs another way to say that
    /// there is one.
    pub(crate) fn admits_null(&self) -> bool {
        matches!(self, Self::Option(_))
    }
}
