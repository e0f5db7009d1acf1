//! Components that were not written for this host: what they export, as functions of a skill.
//!
//! - [`exports`] finds the functions, and leaves out what belongs to WASI or to a toolchain.
//! - [`names`] gives each of them a name that is unique in the skill.
//! - [`types`] reads their types, as far as a bound allows.
//! - [`schema`] writes the types as JSON Schemas.

mod exports;
mod names;
mod schema;
mod types;

#[cfg(test)]
mod tests;

use wasmparser::types::TypesRef;

use crate::model::{Function, Schemas, plain};
use crate::sandbox::shape::TypedExport;

use self::exports::Exported;
use self::types::Reader;

#[cfg(test)]
pub(in crate::sandbox::wasm) use self::schema::of as schema_of;

/// Most functions of one component that are listed.
const MAX_FUNCTIONS: usize = 256;
/// Most bytes that the schemas of one component may have, as compact JSON text.
const MAX_SCHEMA_BYTES: usize = 256 << 10;

/// Longest description of a function, in bytes.
const MAX_DESCRIPTION: usize = 512;

/// The functions of a component.
#[derive(Default)]
pub(super) struct Found {
    pub(super) functions: Vec<Function>,
    /// Those of them that can be called.
    pub(super) exports: Vec<TypedExport>,
    pub(super) warnings: Vec<String>,
}

/// Finds what can be called in a component that exports `names`, or nothing.
///
/// # Errors
///
/// Why none of the functions that it has can be called.
pub(super) fn find(types: TypesRef<'_>, names: &[String]) -> Result<Option<Found>, String> {
    let mut exported = exports::find(types, names);
    if exported.is_empty() {
        return Ok(None);
    }
    let mut found = Found::default();
    if exported.len() > MAX_FUNCTIONS {
        let all = exported.len();
        found.warnings.push(format!("it exports {all} functions; only the first {MAX_FUNCTIONS} are listed"));
        exported.truncate(MAX_FUNCTIONS);
    }
    let names = names::assign(&exported);
    let mut reader = Reader::new(types);
    let mut room = MAX_SCHEMA_BYTES;
    for (exported, name) in exported.into_iter().zip(names) {
        add(&mut found, &mut room, exported.describe(name), reader.function(&exported));
    }
    if found.exports.is_empty() {
        let reasons = found.functions.iter().take(10).map(|function| {
            let reason = function.reason.as_deref().unwrap_or_default();
            format!("`{}` {reason}", function.name)
        });
        return Err(format!("none of its functions can be called: {}", reasons.collect::<Vec<_>>().join("; ")));
    }
    Ok(Some(found))
}

/// Adds a function as one that can be called, or as one that cannot, with the reason.
fn add(found: &mut Found, room: &mut usize, (exported, function): (TypedExport, Function), read: types::Read) {
    let described = read.and_then(|(params, result)| {
        let schema = Schemas { input: Some(schema::input(&params)), output: Some(schema::output(result.as_ref())) };
        let bytes = [&schema.input, &schema.output].into_iter().flatten().map(|part| part.to_string().len()).sum();
        *room = room.checked_sub(bytes).ok_or_else(types::too_large)?;
        Ok((schema, TypedExport { params, result, ..exported }))
    });
    match described {
        Ok((schema, exported)) => {
            found.functions.push(Function { schema, ..function });
            found.exports.push(exported);
        }
        Err(reason) => found.functions.push(Function { callable: false, reason: Some(reason), ..function }),
    }
}

impl Exported {
    /// The function under its name, with nothing of its types yet.
    fn describe(&self, name: String) -> (TypedExport, Function) {
        let of = self.instance.as_ref().map(|instance| format!(" of `{instance}`")).unwrap_or_default();
        let function = Function {
            name: name.clone(),
            description: plain(&format!("`{}`{of}", self.name), MAX_DESCRIPTION),
            schema: Schemas::default(),
            callable: true,
            reason: None,
        };
        let (instance, export) = (self.instance.clone(), self.name.clone());
        (TypedExport { name, instance, export, params: Vec::new(), result: None }, function)
    }
}
