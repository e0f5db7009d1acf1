//! What holds for what comes from strangers on the way to the compiler: nothing panics, and what
//! the worker says is what the host hears.

use std::ffi::OsString;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::model::Function;
use crate::sandbox::Inspection;
use crate::sandbox::shape::Shape;

use super::inspect::inspect;
use super::protocol::Message;
use super::worker::Task;

/// A component with something of everything in it.
const COMPONENT: &str = r#"(component
    (import "skillvisor:skill/types@0.1.0" (instance $types
      (type $record (record (field "code" string) (field "message" string)))
      (export "skill-error" (type (eq $record)))))
    (alias export $types "skill-error" (type $skill-error))
    (type $run (func (param "args" string) (result (result string (error $skill-error)))))
    (component $inner (core module (table 1 funcref) (global i32 (i32.const 1))))
    (instance (instantiate $inner))
    (core module $guest
      (memory (export "memory") 1) (data (i32.const 0) "data") (type (func (param i64)))
      (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
      (func (export "run") (param i32 i32) (result i32) (block (br_if 0 (i32.const 1))) unreachable))
    (core instance $guest (instantiate $guest))
    (func (export "run") (type $run) (canon lift (core func $guest "run")
      (memory (core memory $guest "memory")) (realloc (core func $guest "realloc")))))"#;

/// Longest refusal, in bytes.
const MAX_REFUSAL: usize = 4000;

fn inspection() -> impl Strategy<Value = Inspection> {
    let text = || prop::option::of(any::<String>());
    (text(), text(), text(), vec(any::<String>(), 0..4), any::<u64>(), any::<bool>()).prop_map(
        |(name, version, description, imports, minimum_memory_bytes, callable)| Inspection {
            name,
            version,
            description: description.clone(),
            functions: vec![Function {
                name: "run".into(),
                description: description.unwrap_or_default(),
                schema: crate::model::Schemas::default(),
                callable,
                reason: None,
            }],
            imports,
            minimum_memory_bytes,
            warnings: Vec::new(),
            concurrent: false,
            shape: Shape::default(),
        },
    )
}

proptest! {
    #[test]
    fn any_bytes_are_looked_into_without_a_panic(bytes in vec(any::<u8>(), 0..300), module in any::<bool>()) {
        let _ = inspect(&bytes);
        let start: &[u8] = if module { b"\0asm\x01\0\0\0" } else { b"\0asm\x0d\0\x01\0" };
        let refusal = inspect(&[start, &bytes].concat());
        prop_assert!(refusal.err().is_none_or(|refusal| refusal.len() <= MAX_REFUSAL));
    }

    #[test]
    fn a_component_with_some_bytes_changed_is_taken_or_refused(
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), cut in any::<prop::sample::Index>(),
    ) {
        let whole = wat::parse_str(COMPONENT).unwrap();
        prop_assert!(inspect(&whole).is_ok());
        let mut bytes = whole.clone();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Err(refusal) = inspect(&bytes) {
            prop_assert!(refusal.len() <= MAX_REFUSAL && !refusal.contains(crate::model::steers), "{refusal:?}");
        }
        // Only names stand at the end: cut there, it is good.
        let _ = inspect(&whole[..cut.index(whole.len())]);
    }

    #[test]
    fn the_host_hears_what_the_worker_says(inspection in inspection(), detail in any::<String>()) {
        let broken = Message::Broken { detail: detail.clone() };
        for said in [Message::Inspected(Box::new(inspection)), Message::Compiled, Message::Failed { detail }, broken] {
            let line = serde_json::to_string(&said).unwrap();
            // A line is a message: nothing in it may end it early.
            prop_assert!(!line.contains(['\n', '\r']));
            let heard: Message = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(serde_json::to_string(&heard).unwrap(), line);
        }
    }

    #[test]
    fn no_line_and_no_arguments_make_either_side_panic(line in any::<String>(), arguments in vec(any::<String>(), 0..7)) {
        let _ = serde_json::from_str::<Message>(&line);
        let _ = Task::parse(arguments.into_iter().map(OsString::from));
    }
}
