//! Components of WASI's own worlds: programs (`wasi:cli/run`) and servers (`wasi:http/incoming-handler`,
//! and `wasi:http/handler` of 0.3).

use semver::{Version, VersionReq};
use wasmparser::component_types::{ComponentDefinedType, ComponentEntityType, ComponentFuncType, ComponentValType};
use wasmparser::types::TypesRef;

use crate::sandbox::shape::Shape;

/// The versions that fit, and those in which what is called is async.
const VERSIONS: &str = "^0.2";
const ASYNC_VERSIONS: &str = "^0.3";

/// How a component that exports `names` is called, if it is of such a world.
pub(super) fn find(types: TypesRef<'_>, names: &[String]) -> Option<Shape> {
    let run = ("wasi:cli/run", "run");
    let is_command = |versions, is_async| {
        let fits = move |types: TypesRef<'_>, function: &ComponentFuncType| is_run(types, function, is_async);
        names.iter().find(|name| has(types, name, (run, versions), fits))
    };
    if let Some(name) = is_command(VERSIONS, false).or_else(|| is_command(ASYNC_VERSIONS, true)) {
        return Some(Shape::Command(name.clone()));
    }
    let handle = (("wasi:http/incoming-handler", "handle"), VERSIONS);
    let http = names.iter().find(|name| has(types, name, handle, is_handle));
    if let Some(name) = http {
        return Some(Shape::Http(name.clone()));
    }
    let handle = (("wasi:http/handler", "handle"), ASYNC_VERSIONS);
    let http = names.iter().find(|name| has(types, name, handle, is_async_handle));
    http.map(|name| Shape::AsyncHttp(name.clone()))
}

/// Whether the export `name` is this interface in a version that fits, with this function.
fn has(
    types: TypesRef<'_>,
    name: &str,
    ((interface, function), versions): ((&str, &str), &str),
    fits: impl Fn(TypesRef<'_>, &ComponentFuncType) -> bool,
) -> bool {
    let version = name.strip_prefix(interface).and_then(|rest| rest.strip_prefix('@'));
    let version = version.and_then(|version| Version::parse(version).ok());
    if !version.is_some_and(|version| VersionReq::parse(versions).is_ok_and(|range| range.matches(&version))) {
        return false;
    }
    let Some(ComponentEntityType::Instance(id)) = types.component_item_for_export(name).map(|item| item.ty) else {
        return false;
    };
    match types[id].exports.get(function).map(|item| item.ty) {
        Some(ComponentEntityType::Func(id)) => fits(types, &types[id]),
        _ => false,
    }
}

/// `func() -> result`, async or not.
fn is_run(types: TypesRef<'_>, function: &ComponentFuncType, is_async: bool) -> bool {
    let Some(ComponentValType::Type(result)) = &function.result else { return false };
    let plain = matches!(&types[*result], ComponentDefinedType::Result { ok: None, err: None, .. });
    plain && function.params.is_empty() && function.async_ == is_async
}

/// `func(request: own<incoming-request>, response-out: own<response-outparam>)`.
fn is_handle(types: TypesRef<'_>, function: &ComponentFuncType) -> bool {
    let params: Vec<_> = function.params.iter().map(|(_, kind)| is_own(types, kind)).collect();
    params == [true, true] && function.result.is_none() && !function.async_
}

/// `async func(request: own<request>) -> result<own<response>, error-code>`.
fn is_async_handle(types: TypesRef<'_>, function: &ComponentFuncType) -> bool {
    let Some(ComponentValType::Type(result)) = &function.result else { return false };
    let ComponentDefinedType::Result { ok: Some(ok), err: Some(_), .. } = &types[*result] else { return false };
    let params: Vec<_> = function.params.iter().map(|(_, kind)| is_own(types, kind)).collect();
    params == [true] && is_own(types, ok) && function.async_
}

fn is_own(types: TypesRef<'_>, kind: &ComponentValType) -> bool {
    matches!(kind, ComponentValType::Type(id) if matches!(types[*id], ComponentDefinedType::Own(_)))
}
