use crate::sandbox::Inspection;
use crate::sandbox::shape::Shape;

use super::super::inspect::inspect;
use super::MAX_FUNCTIONS;

/// A component with these types and exports; `$f` is a function that takes and gives nothing,
/// `$memory` and `$realloc` are there for others.
fn component(types_and_exports: &str) -> Result<Inspection, String> {
    let text = format!(
        r#"(component
          (core module $m
            (memory (export "memory") 1)
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 0)
            (func (export "nothing"))
            (func (export "pair") (param i32 i32)))
          (core instance $i (instantiate $m))
          (func $f (canon lift (core func $i "nothing")))
          {types_and_exports})"#
    );
    inspect(&wat::parse_str(text).unwrap())
}

/// A function that takes a list of `$ty`.
fn takes_list(ty: &str) -> String {
    format!(
        r#"(func $takes (param "values" (list {ty}))
             (canon lift (core func $i "pair") (memory (core memory $i "memory")) (realloc (core func $i "realloc"))))
           (export "takes" (func $takes))"#
    )
}

fn names(found: &Inspection) -> Vec<&str> {
    found.functions.iter().map(|function| function.name.as_str()).collect()
}

#[test]
fn names_are_as_short_as_they_can_be_and_never_the_same() {
    let found = component(
        r#"(instance $go (export "go" (func $f)))
           (instance $other (export "other" (func $f)))
           (export "go" (func $f))
           (export "a:b/c@1.0.0" (instance $go))
           (export "a:b/d@1.0.0" (instance $go))
           (export "a:b/e@1.0.0" (instance $go))
           (export "a:x/e@1.0.0" (instance $go))
           (export "a:b/f@1.0.0" (instance $go))
           (export "a:b/f@2.0.0" (instance $go))
           (export "notes" (instance $other))"#,
    )
    .unwrap();
    let expected = ["go", "c-go", "d-go", "a-b-e-go", "a-x-e-go", "a-b-f-1-0-0-go", "a-b-f-2-0-0-go", "other"];
    assert_eq!(names(&found), expected);
}

#[test]
fn names_that_are_the_same_in_lower_case_get_numbers_in_their_order() {
    let found = component(
        r#"(instance $g (export "go" (func $f)))
           (export "a-b:c/d" (instance $g)) (export "a:b-c/d" (instance $g)) (export "d-go" (func $f))"#,
    )
    .unwrap();
    assert_eq!(names(&found), ["a-b-c-d-go", "a-b-c-d-go-2", "d-go"]);
}

#[test]
fn what_belongs_to_wasi_or_to_a_toolchain_is_no_function() {
    let found = component(
        r#"(func $init (param "shim" bool) (param "script" bool) (canon lift (core func $i "pair")))
           (instance $own (export "init" (func $f)))
           (instance $run (export "run" (func $f)))
           (export "wasi:cli/run@0.2.3" (instance $run))
           (export "exports" (instance $own))
           (export "init" (func $init))"#,
    )
    .unwrap();
    assert_eq!(names(&found), ["init"], "an `init` of other parameters is its author's");
    let error = component(r#"(instance $run (export "run" (func $f))) (export "wasi:cli/run@0.2.3" (instance $run))"#);
    assert!(error.unwrap_err().contains("nor any other function"));
}

#[test]
fn types_that_double_with_each_step_are_too_large_and_the_rest_is_not() {
    let mut types = String::from("(type $t0 (tuple u8 u8))");
    for step in 1..14 {
        types.push_str(&format!("(type $t{step} (tuple $t{0} $t{0}))", step - 1));
    }
    let error = component(&format!("{types} {}", takes_list("$t13"))).unwrap_err();
    assert!(error.contains("too large"), "{error}");
    let found = component(&format!("{types} {} (export \"go\" (func $f))", takes_list("$t13"))).unwrap();
    assert_eq!(found.functions.iter().map(|f| f.callable).collect::<Vec<_>>(), [false, true]);
    let Shape::Typed(exports) = found.shape else { panic!("not typed") };
    assert_eq!(exports.iter().map(|export| export.name.as_str()).collect::<Vec<_>>(), ["go"]);
}

#[test]
fn types_that_are_nested_too_deep_are_refused() {
    let mut types = String::from("(type $t0 (list bool))");
    for step in 1..80 {
        types.push_str(&format!("(type $t{step} (list $t{}))", step - 1));
    }
    let error = component(&format!("{types} {}", takes_list("$t79"))).unwrap_err();
    assert!(error.contains("nested too deep"), "{error}");
    component(&format!("{types} {}", takes_list("$t40"))).unwrap();
}

#[test]
fn only_so_many_functions_are_listed() {
    let exports: String = (0..=MAX_FUNCTIONS).map(|at| format!("(export \"f{at}\" (func $f))")).collect();
    let found = component(&exports).unwrap();
    assert_eq!((found.functions.len(), found.warnings.len()), (MAX_FUNCTIONS, 1));
}

#[test]
fn notes_from_before_there_were_shapes_are_those_of_skills() {
    let notes = r#"{"name":null,"version":null,"description":null,"functions":[],"imports":[],
                    "minimum_memory_bytes":0,"warnings":[]}"#;
    assert_eq!(serde_json::from_str::<Inspection>(notes).unwrap().shape, Shape::Skill);
}
