//! A look into a component or a core module: may it run here, and what is in it?
//!
//! Reads types only; nothing is compiled. Runs inside the worker, since it reads strangers' bytes.

use semver::{Version, VersionReq};
use wasmparser::component_types::{ComponentDefinedType, ComponentEntityType, ComponentFuncTypeId, ComponentValType};
use wasmparser::types::{Types, TypesRef};
use wasmparser::{ComponentTypeRef, Encoding, Parser, Payload, PrimitiveValType, Validator, WasmFeatures};

use crate::model::{Function, Schemas, plain};
use crate::sandbox::Inspection;
use crate::sandbox::shape::Shape;

use super::{module, typed, weight, worlds};

/// Name of the function that a skill exports.
pub(in crate::sandbox::wasm) const RUN: &str = "run";

/// Longest text taken from a component's metadata, in bytes.
pub(super) const MAX_TEXT: usize = 1024;
/// Most imports that are listed.
pub(super) const MAX_IMPORTS: usize = 1000;

/// What every guest may import, with the versions that fit.
const OFFERED: &[(&str, &str, &[&str])] = &[
    (
        "wasi:cli",
        "^0.2",
        &[
            "environment",
            "exit",
            "stdin",
            "stdout",
            "stderr",
            "terminal-input",
            "terminal-output",
            "terminal-stdin",
            "terminal-stdout",
            "terminal-stderr",
        ],
    ),
    (
        "wasi:cli",
        "^0.3",
        &[
            "environment",
            "exit",
            "types",
            "stdin",
            "stdout",
            "stderr",
            "terminal-input",
            "terminal-output",
            "terminal-stdin",
            "terminal-stdout",
            "terminal-stderr",
        ],
    ),
    ("wasi:clocks", "^0.3", &["types", "monotonic-clock", "system-clock"]),
    ("wasi:random", "^0.3", &["random", "insecure", "insecure-seed"]),
    ("wasi:filesystem", "^0.3", &["types", "preopens"]),
    ("wasi:sockets", "^0.3", &["types", "ip-name-lookup"]),
    ("wasi:io", "^0.2", &["error", "poll", "streams"]),
    ("wasi:clocks", "^0.2", &["monotonic-clock", "wall-clock"]),
    ("wasi:random", "^0.2", &["random", "insecure", "insecure-seed"]),
    ("wasi:filesystem", "^0.2", &["types", "preopens"]),
    (
        "wasi:sockets",
        "^0.2",
        &["network", "instance-network", "tcp", "tcp-create-socket", "udp", "udp-create-socket", "ip-name-lookup"],
    ),
    ("wasi:http", "^0.2", &["types", "outgoing-handler"]),
    ("wasi:http", "^0.3", &["types", "client"]),
    ("skillvisor:skill", "^0.1", &["types", "context", "progress", "skills", "additions"]),
];

/// What every guest may import beside them, by its whole name: drafts have no versions that fit.
const OFFERED_DRAFTS: &[&str] = &[
    "wasi:config/store@0.2.0-draft",
    "wasi:config/store@0.2.0-rc.1",
    "wasi:keyvalue/atomics@0.2.0-draft",
    "wasi:keyvalue/atomics@0.2.0-draft2",
    "wasi:keyvalue/batch@0.2.0-draft",
    "wasi:keyvalue/batch@0.2.0-draft2",
    "wasi:keyvalue/store@0.2.0-draft",
    "wasi:keyvalue/store@0.2.0-draft2",
    "wasi:logging/logging",
    "wasi:logging/logging@0.1.0-draft",
];

/// What was seen while walking through the bytes.
#[derive(Default)]
struct Seen {
    /// Whether it is a core module.
    module: bool,
    imports: Vec<String>,
    exports: Vec<String>,
    memory_bytes: u64,
}

/// Looks into `bytes`.
///
/// # Errors
///
/// Why it cannot run here, in a sentence for the uploader.
pub(super) fn inspect(bytes: &[u8]) -> Result<Inspection, String> {
    if !bytes.starts_with(b"\0asm") {
        return Err("it is not WebAssembly: the first four bytes are not \\0asm".into());
    }
    let seen = walk(bytes)?;
    let kind = if seen.module { "module" } else { "component" };
    let valid = |features| Validator::new_with_features(features).validate_all(bytes);
    // What is valid without async functions has none.
    let (types, concurrent) = match valid(features() - WasmFeatures::CM_ASYNC) {
        Ok(types) => (types, false),
        Err(_) => (
            valid(features())
                .map_err(|error| format!("it is not a valid {kind}: {}", plain(&error.to_string(), MAX_TEXT)))?,
            true,
        ),
    };
    weight::require_light(bytes)?;
    if seen.module {
        let imports = module::look(types.as_ref())?;
        return Ok(describe(bytes, Seen { imports, ..seen }, Found::alone(Shape::Module)));
    }
    let unknown: Vec<_> = seen.imports.iter().filter(|name| !is_offered(name)).cloned().collect();
    if !unknown.is_empty() {
        return Err(format!("it imports what this host does not have: {}", unknown.join(", ")));
    }
    refuse_two_ages(&seen.imports)?;
    let found = entries(&types, &seen.exports)?;
    let concurrent = concurrent || seen.imports.iter().any(|name| name.starts_with("wasi:") && name.contains("@0.3."));
    Ok(Inspection { concurrent, ..describe(bytes, seen, found) })
}

/// Refuses what imports files, or requests, of two ages. The host has the same things behind both: a
/// component could take one of the one age for one of the other, past what only the other checks.
fn refuse_two_ages(imports: &[String]) -> Result<(), String> {
    for (package, what) in [("wasi:filesystem/", "files"), ("wasi:http/", "requests")] {
        let of = |age: &str| imports.iter().find(|name| name.starts_with(package) && name.contains(age));
        if let (Some(old), Some(new)) = (of("@0.2."), of("@0.3.")) {
            return Err(format!("it imports {what} of two ages, which this host does not mix: {old}, {new}"));
        }
    }
    Ok(())
}

/// The proposals that are on: what the engine's settings say, minus threads and 64-bit memories.
fn features() -> WasmFeatures {
    WasmFeatures::default() - WasmFeatures::THREADS - WasmFeatures::MEMORY64 - WasmFeatures::CUSTOM_PAGE_SIZES
}

/// Reads the outer layer: what it is, and the names it imports and exports.
fn walk(bytes: &[u8]) -> Result<Seen, String> {
    let mut seen = Seen::default();
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(|error| format!("it cannot be read: {}", plain(&error.to_string(), MAX_TEXT)))?;
        match payload {
            Payload::Version { encoding, .. } => {
                seen.module |= depth == 0 && encoding == Encoding::Module;
                depth += 1;
            }
            Payload::End(_) => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section.into_iter().take(MAX_IMPORTS) {
                    let import = import.map_err(|error| error.to_string())?;
                    // A type that is imported names what an interface brings; it asks for nothing.
                    if !matches!(import.ty, ComponentTypeRef::Type(_)) {
                        seen.imports.push(plain(import.name.name, MAX_TEXT));
                    }
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section.into_iter().take(MAX_IMPORTS) {
                    let export = export.map_err(|error| error.to_string())?;
                    seen.exports.push(plain(export.name.name, MAX_TEXT));
                }
            }
            Payload::MemorySection(section) => {
                for memory in section {
                    let memory = memory.map_err(|error| error.to_string())?;
                    seen.memory_bytes = seen.memory_bytes.saturating_add(memory.initial.saturating_mul(65_536));
                }
            }
            _ => {}
        }
    }
    Ok(seen)
}

/// Whether the host has an interface of this name, in a version that fits.
fn is_offered(import: &str) -> bool {
    if OFFERED_DRAFTS.contains(&import) {
        return true;
    }
    let (path, version) = import.split_once('@').unwrap_or((import, ""));
    let Some((package, interface)) = path.split_once('/') else { return false };
    OFFERED.iter().any(|(name, range, interfaces)| {
        let fits = || Some(VersionReq::parse(range).ok()?.matches(&Version::parse(version).ok()?));
        *name == package && interfaces.contains(&interface) && fits() == Some(true)
    })
}

/// How something is called, and by what.
struct Found {
    shape: Shape,
    /// None where there is one way to call it.
    functions: Option<Vec<Function>>,
    warnings: Vec<String>,
}

impl Found {
    fn alone(shape: Shape) -> Self {
        Self { shape, functions: None, warnings: Vec::new() }
    }
}

/// How a component is called: the first of the ways that fits (SPEC §4).
///
/// # Errors
///
/// Why there is nothing to call.
fn entries(types: &Types, exports: &[String]) -> Result<Found, String> {
    let types = types.as_ref();
    let found = match types.component_item_for_export(RUN).map(|item| item.ty) {
        Some(ComponentEntityType::Func(id)) => is_run(types, id),
        _ => false,
    };
    if found {
        return Ok(Found::alone(Shape::Skill));
    }
    let uncallable = match typed::find(types, exports) {
        Ok(Some(typed::Found { functions, exports, warnings })) => {
            return Ok(Found { shape: Shape::Typed(exports), functions: Some(functions), warnings });
        }
        Ok(None) => None,
        Err(reason) => Some(reason),
    };
    if let Some(shape) = worlds::find(types, exports) {
        return Ok(Found::alone(shape));
    }
    if let Some(reason) = uncallable {
        return Err(reason);
    }
    let exported = if exports.is_empty() { "nothing".to_owned() } else { exports.join(", ") };
    Err(format!(
        "it does not export `run: func(args: string) -> result<string, skill-error>` of the world \
         skillvisor:skill/skill, nor any other function, nor `wasi:cli/run` of version \
         0.2 or 0.3, nor `wasi:http/incoming-handler` of version 0.2, nor `wasi:http/handler` of \
         version 0.3; it exports {exported}"
    ))
}

fn is_run(types: TypesRef<'_>, id: ComponentFuncTypeId) -> bool {
    let function = &types[id];
    let [(_, argument)] = &*function.params else { return false };
    let Some(ComponentValType::Type(result)) = &function.result else { return false };
    let ComponentDefinedType::Result { ok: Some(ok), err: Some(ComponentValType::Type(error)), .. } = &types[*result]
    else {
        return false;
    };
    let ComponentDefinedType::Record(error) = &types[*error] else { return false };
    let fields = error.fields.iter().map(|(name, kind)| (name.as_str(), is_string(types, kind)));
    !function.async_
        && is_string(types, argument)
        && is_string(types, ok)
        && fields.eq([("code", true), ("message", true)])
}

fn is_string(types: TypesRef<'_>, kind: &ComponentValType) -> bool {
    let string = PrimitiveValType::String;
    match kind {
        ComponentValType::Primitive(kind) => *kind == string,
        ComponentValType::Type(id) => {
            matches!(&types[*id], ComponentDefinedType::Primitive(kind) if *kind == string)
        }
    }
}

fn describe(bytes: &[u8], seen: Seen, found: Found) -> Inspection {
    let metadata = wasm_metadata::Payload::from_binary(bytes).ok();
    let metadata = metadata.as_ref().map(wasm_metadata::Payload::metadata);
    let text = |value: Option<String>| value.map(|value| plain(&value, MAX_TEXT));
    let description = text(metadata.and_then(|m| m.description.as_ref()).map(ToString::to_string));
    let run = || Function {
        name: RUN.into(),
        description: description.clone().unwrap_or_default(),
        schema: Schemas::default(),
        callable: true,
        reason: None,
    };
    Inspection {
        name: text(metadata.and_then(|m| m.name.clone())),
        version: text(metadata.and_then(|m| m.version.as_ref()).map(ToString::to_string)),
        functions: found.functions.unwrap_or_else(|| vec![run()]),
        description,
        imports: seen.imports,
        minimum_memory_bytes: seen.memory_bytes,
        warnings: found.warnings,
        concurrent: false,
        shape: found.shape,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(text: &str) -> Result<Inspection, String> {
        inspect(&wat::parse_str(text).unwrap())
    }

    #[test]
    fn what_is_no_component_is_named_for_what_it_is() {
        assert!(inspect(b"").unwrap_err().contains("not WebAssembly"));
        assert!(inspect(b"\0asm\x0d\0\x01").unwrap_err().contains("cannot be read"));
        assert!(look("(component)").unwrap_err().contains("it exports nothing"));
    }

    #[test]
    fn unknown_imports_are_all_named() {
        let error = look(
            r#"(component (import "a:b/c@1.0.0" (instance)) (import "wasi:io/poll@0.2.3" (instance))
               (import "wasi:io/poll@0.3.0" (instance)) (import "d" (func)))"#,
        )
        .unwrap_err();
        assert!(error.ends_with("a:b/c@1.0.0, wasi:io/poll@0.3.0, d"), "{error}");
    }

    #[test]
    fn what_needs_async_functions_is_told_apart_and_http_of_that_age_is_asked_and_not_imported_as_a_handler() {
        let with = |import: &str| {
            look(&format!(
                r#"(component {import} (core module $m (func (export "f"))) (core instance $i (instantiate $m))
                   (func (export "f") (canon lift (core func $i "f"))))"#
            ))
        };
        let concurrent = |import: &str| with(import).unwrap().concurrent;
        assert!(!concurrent(r#"(import "wasi:io/poll@0.2.3" (instance))"#));
        assert!(concurrent(r#"(import "wasi:random/random@0.3.0" (instance))"#));
        assert!(concurrent(r#"(import "wasi:io/poll@0.2.3" (instance)) (type (stream u8))"#));
        assert!(concurrent(r#"(import "wasi:http/client@0.3.0" (instance))"#));
        let error = with(r#"(import "wasi:http/handler@0.3.0" (instance))"#).unwrap_err();
        assert!(error.ends_with("wasi:http/handler@0.3.0"), "{error}");
    }

    #[test]
    fn files_and_requests_of_two_ages_are_refused_whichever_interfaces_they_are_of() {
        let with = |imports: &str| {
            look(&format!(
                r#"(component {imports} (core module $m (func (export "f"))) (core instance $i (instantiate $m))
                   (func (export "f") (canon lift (core func $i "f"))))"#
            ))
        };
        let import = |name: &str| format!(r#"(import "wasi:{name}" (instance))"#);
        for (what, old, new) in [
            (
                "files",
                ["filesystem/types@0.2.12", "filesystem/preopens@0.2.0"],
                ["filesystem/types@0.3.0", "filesystem/preopens@0.3.0"],
            ),
            (
                "requests",
                ["http/types@0.2.12", "http/outgoing-handler@0.2.0"],
                ["http/types@0.3.0", "http/client@0.3.0"],
            ),
        ] {
            for old in old {
                assert!(with(&import(old)).is_ok());
                for new in new {
                    assert!(with(&import(new)).is_ok());
                    let error = with(&(import(old) + &import(new))).unwrap_err();
                    assert!(error.contains(&format!("{what} of two ages")), "{error}");
                }
            }
        }
        // Files of the one age and requests of the other do not meet.
        assert!(with(&(import("filesystem/types@0.2.12") + &import("http/client@0.3.0"))).is_ok());
    }

    #[test]
    fn a_run_of_another_type_is_not_taken_for_ours() {
        let found = look(
            r#"(component (core module $m (func (export "f"))) (core instance $i (instantiate $m))
               (func (export "run") (canon lift (core func $i "f"))))"#,
        )
        .unwrap();
        assert!(matches!(found.shape, Shape::Typed(_)), "{found:?}");
    }
}
