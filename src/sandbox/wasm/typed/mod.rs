//! Calls of functions by values of their types: JSON to values, the call, values to JSON.
//!
//! As a tree of [`Val`]s a value takes up to forty times the room of its JSON, so both ways are
//! bounded: arguments by `limits.memoryMb`, of which they are a part; what comes back by
//! [`host_call_bytes`], and its text by `limits.outputBytes` while it is written. Types are not
//! recursive, and no deeper than the compile worker allows: so are the values.

mod lift;
mod lower;

#[cfg(test)]
mod properties;

use std::collections::HashMap;

use serde_json::{Value, json};
use wasmtime::component::{Component, ComponentExportIndex, Instance, InstancePre, Val};
use wasmtime::{Store, format_err};

use crate::model::{Code, Error, FieldError, Limits, RunError, plain};
use crate::sandbox::shape::{Field, TypedExport, WitType};

use super::failures::output_too_large;
use super::idle::kept_or_fresh;
use super::run::{MAX_ERROR_MESSAGE, output_bytes};
use super::state::State;

/// Most bytes of the JSON of an error that a function gave; the audit keeps it.
const MAX_ERROR_VALUE: usize = 16 << 10;
/// Longest part of such an error in the message, in bytes.
const MAX_SHOWN: usize = 200;

/// A function that can be called.
pub(super) struct TypedFunction {
    index: ComponentExportIndex,
    params: Vec<Field>,
    result: Option<WitType>,
}

impl TypedFunction {
    /// Refuses arguments that are no values of its types.
    ///
    /// # Errors
    ///
    /// `invalid_args`. What takes too much memory is left to the run.
    pub(super) fn takes(&self, args: &str, limits: &Limits) -> Result<(), Error> {
        let Err(error) = lower::arguments(args, &self.params, limits) else { return Ok(()) };
        if error.code != Code::InvalidArgs {
            return Ok(());
        }
        let what = error.detail.as_ref().map(|detail| &detail["errors"][0]);
        let told = |name: &str| what.and_then(|what| what[name].as_str()).unwrap_or_default();
        let field = FieldError::new(told("pointer"), told("detail"));
        Err(Error::fields(Code::InvalidArgs, error.message, vec![field]))
    }
}

/// The functions that `exports` names, by their names in the skill.
///
/// # Errors
///
/// The name of one that the component has not.
pub(super) fn functions(
    component: &Component,
    exports: Vec<TypedExport>,
) -> Result<HashMap<String, TypedFunction>, String> {
    let functions = exports.into_iter().map(|exported| {
        let index = find(component, &exported).ok_or_else(|| exported.name.clone())?;
        let TypedExport { name, params, result, .. } = exported;
        Ok((name, TypedFunction { index, params, result }))
    });
    functions.collect()
}

fn find(component: &Component, exported: &TypedExport) -> Option<ComponentExportIndex> {
    let instance = match &exported.instance {
        Some(name) => Some(component.get_export_index(None, name.as_str())?),
        None => None,
    };
    component.get_export_index(instance.as_ref(), exported.export.as_str())
}

/// How many bytes a guest may hand over as values in one call: each byte of JSON stands for at
/// most one [`Val`] (the dearest is `list<u8>`, where four bytes stand for three), and all of
/// them are a part of what the run may have.
pub(super) fn host_call_bytes(limits: &Limits) -> usize {
    let memory = usize::try_from(limits.memory_mb << 20).unwrap_or(usize::MAX >> 1);
    output_bytes(limits).saturating_mul(size_of::<Val>()).min(memory)
}

/// Calls `function` in an instance that was kept, or in a fresh one, with `args`, an object by
/// parameter name.
pub(super) async fn call(
    store: &mut Store<State>,
    (instance, kept): (&InstancePre<State>, &mut Option<Instance>),
    function: &TypedFunction,
    (args, limits): (&str, &Limits),
) -> wasmtime::Result<Result<String, RunError>> {
    let params = match lower::arguments(args, &function.params, limits) {
        Ok(params) => params,
        Err(error) => return Ok(Err(error)),
    };
    let instance = kept_or_fresh(store, instance, kept).await?;
    let export = instance.get_func(&mut *store, function.index);
    let export = export.ok_or_else(|| format_err!("the component has lost a function"))?;
    let mut results = vec![Val::Bool(false); usize::from(function.result.is_some())];
    // This tells the guest too that its results were read (`post-return`).
    export.call_async(&mut *store, &params, &mut results).await?;
    drop(params);
    answer(function.result.as_ref(), results.first(), limits)
}

/// What a function gave, as the text of the output or as the error that it is.
fn answer(ty: Option<&WitType>, val: Option<&Val>, limits: &Limits) -> wasmtime::Result<Result<String, RunError>> {
    let most = output_bytes(limits);
    let written = match (ty, val) {
        (Some(WitType::Result { err, .. }), Some(Val::Result(Err(val)))) => {
            return Ok(Err(skill_error(err.as_deref(), val.as_deref())?));
        }
        (Some(WitType::Result { ok, .. }), Some(Val::Result(Ok(val)))) => {
            lift::payload(val.as_deref(), ok.as_deref(), most)
        }
        (ty, val) => lift::payload(val, ty, most),
    };
    match written {
        Ok(text) => Ok(Ok(text)),
        Err(lift::Failure::TooLarge) => Ok(Err(output_too_large(limits))),
        Err(lift::Failure::OtherType) => Err(other_type()),
    }
}

/// The failure of a function that says no, with what it says.
fn skill_error(ty: Option<&WitType>, val: Option<&Val>) -> wasmtime::Result<RunError> {
    let text = match lift::payload(val, ty, MAX_ERROR_VALUE) {
        Ok(text) => text,
        Err(lift::Failure::TooLarge) => {
            let message = format!("the function gave an error of more than {MAX_ERROR_VALUE} bytes, which is left out");
            return Ok(RunError::new(Code::SkillError, message));
        }
        Err(lift::Failure::OtherType) => return Err(other_type()),
    };
    let message = match val {
        None => "the function gave an error".into(),
        Some(Val::String(said)) => plain(said, MAX_ERROR_MESSAGE),
        Some(_) => format!("the function gave an error: {}", plain(&text, MAX_SHOWN)),
    };
    let value: Value = serde_json::from_str(&text)?;
    Ok(RunError { code: Code::SkillError, message, detail: Some(json!({ "value": value })) })
}

fn other_type() -> wasmtime::Error {
    format_err!("the component gave a value of another type than it declares")
}
