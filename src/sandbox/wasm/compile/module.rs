//! Core modules: what they import and export.

use wasmparser::ValType;
use wasmparser::types::{EntityType, TypesRef};

use crate::model::plain;
use crate::sandbox::wasm::preview1::MODULE;

use super::inspect::{MAX_IMPORTS, MAX_TEXT};

/// Most foreign imports that a refusal names.
const MAX_NAMED: usize = 50;

/// All functions of WASI preview 1.
const OFFERED: &[&str] = &[
    "args_get",
    "args_sizes_get",
    "clock_res_get",
    "clock_time_get",
    "environ_get",
    "environ_sizes_get",
    "fd_advise",
    "fd_allocate",
    "fd_close",
    "fd_datasync",
    "fd_fdstat_get",
    "fd_fdstat_set_flags",
    "fd_fdstat_set_rights",
    "fd_filestat_get",
    "fd_filestat_set_size",
    "fd_filestat_set_times",
    "fd_pread",
    "fd_prestat_dir_name",
    "fd_prestat_get",
    "fd_pwrite",
    "fd_read",
    "fd_readdir",
    "fd_renumber",
    "fd_seek",
    "fd_sync",
    "fd_tell",
    "fd_write",
    "path_create_directory",
    "path_filestat_get",
    "path_filestat_set_times",
    "path_link",
    "path_open",
    "path_readlink",
    "path_remove_directory",
    "path_rename",
    "path_symlink",
    "path_unlink_file",
    "poll_oneoff",
    "proc_exit",
    "proc_raise",
    "random_get",
    "sched_yield",
    "sock_accept",
    "sock_recv",
    "sock_send",
    "sock_shutdown",
];

/// Looks at a valid module, and gives the names of what it imports.
///
/// # Errors
///
/// Why it is not a program for this host.
pub(super) fn look(types: TypesRef<'_>) -> Result<Vec<String>, String> {
    let (mut known, mut foreign) = (Vec::new(), Vec::new());
    for (module, name, _) in types.core_imports().into_iter().flatten() {
        let text = plain(&format!("{module}.{name}"), MAX_TEXT);
        match module == MODULE && OFFERED.contains(&name) {
            true if known.len() < MAX_IMPORTS => known.push(text),
            true => {}
            false if foreign.len() < MAX_NAMED => foreign.push(text),
            false => {}
        }
    }
    if !foreign.is_empty() {
        let names = foreign.join(", ");
        return Err(format!("it is a core module that imports what this host does not have: {names}"));
    }
    require_start(types)?;
    Ok(known)
}

/// Refuses what is no program.
fn require_start(types: TypesRef<'_>) -> Result<(), String> {
    let (mut start, mut memory) = (false, false);
    for (name, entity) in types.core_exports().into_iter().flatten() {
        match (name, entity) {
            ("_start", EntityType::Func(id)) => {
                let function = types[id].unwrap_func();
                let none: &[ValType] = &[];
                start = function.params() == none && function.results() == none;
            }
            ("memory", EntityType::Memory(_)) => memory = true,
            _ => {}
        }
    }
    match (start, memory) {
        (true, true) => Ok(()),
        (true, false) => Err("it is a core module without the export `memory` that WASI preview 1 asks for".into()),
        (false, _) => {
            let fix = "build it as a program, or as a component for wasm32-wasip2";
            Err(format!("it is a core module without the function `_start`, so it is no program; {fix}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::inspect::inspect;
    use crate::sandbox::shape::Shape;

    fn refusal(text: &str) -> String {
        inspect(&wat::parse_str(text).unwrap()).unwrap_err()
    }

    #[test]
    fn foreign_imports_of_a_module_are_all_named() {
        let error = refusal(
            r#"(module (import "env" "foo" (func)) (import "wasi_snapshot_preview1" "sock_open" (func))
               (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
               (import "wasi_unstable" "fd_write" (func)) (func (export "_start")) (memory (export "memory") 1))"#,
        );
        assert!(error.ends_with("env.foo, wasi_snapshot_preview1.sock_open, wasi_unstable.fd_write"), "{error}");
    }

    #[test]
    fn a_module_is_a_program_or_nothing() {
        assert!(refusal("(module)").contains("`_start`"));
        assert!(refusal(r#"(module (func (export "_initialize")) (memory (export "memory") 1))"#).contains("`_start`"));
        let text = r#"(module (func (export "_start") (param i32)) (memory (export "memory") 1))"#;
        assert!(refusal(text).contains("`_start`"));
        assert!(refusal(r#"(module (func (export "_start")))"#).contains("`memory`"));
        let text = r#"(module (func (export "_start")) (memory (export "memory") 3))"#;
        let found = inspect(&wat::parse_str(text).unwrap()).unwrap();
        assert_eq!((found.shape, found.minimum_memory_bytes), (Shape::Module, 3 << 16));
        assert_eq!(found.functions[0].name, "run");
    }

    #[test]
    fn what_components_may_not_have_modules_may_not_have_either() {
        for text in [
            r#"(module (func (export "_start")) (memory (export "memory") i64 1))"#,
            r#"(module (func (export "_start")) (memory (export "memory") 1 1 shared))"#,
        ] {
            assert!(refusal(text).contains("not a valid module"), "{text}");
        }
    }
}
