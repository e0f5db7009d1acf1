//! Small components that are a great deal of work for a compiler. Each is valid, and exports
//! what a skill exports, so that nothing but its size stands against it.

/// A skill with more in it: `around` beside its core module, `within` inside of it.
fn skill(around: &str, within: &str) -> Vec<u8> {
    let text = format!(
        r#"(component
          (import "skillvisor:skill/types@0.1.0" (instance $types
            (type $record (record (field "code" string) (field "message" string)))
            (export "skill-error" (type (eq $record)))))
          (alias export $types "skill-error" (type $skill-error))
          (type $run (func (param "args" string) (result (result string (error $skill-error)))))
          {around}
          (core module $guest
            (memory (export "memory") 1)
            {within}
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
            (func (export "run") (param i32 i32) (result i32) unreachable))
          (core instance $guest (instantiate $guest))
          (func (export "run") (type $run) (canon lift
            (core func $guest "run")
            (memory (core memory $guest "memory"))
            (realloc (core func $guest "realloc")))))"#
    );
    wat::parse_str(text).unwrap()
}

/// Components that each instantiate the one before sixteen times: 16 to the power of `levels`.
pub(super) fn nested_instances(levels: usize) -> Vec<u8> {
    let mut around = String::from("(component $c0 (core module $one) (core instance (instantiate $one)))");
    for level in 1..=levels {
        let before = level - 1;
        let again = format!("(instance (instantiate $c{before}))").repeat(16);
        around += &format!("(component $c{level} (alias outer 1 $c{before} (component $c{before})) {again})");
    }
    around += &format!("(instance (instantiate $c{levels}))");
    skill(&around, "")
}

/// One function of many blocks, one in another.
pub(crate) fn deep_blocks(depth: usize) -> Vec<u8> {
    let body = format!("{}{}", "block ".repeat(depth), "end ".repeat(depth));
    skill("", &format!("(func {body})"))
}

/// One function of very many sums, all alive at the end.
pub(super) fn long_body(sums: usize) -> Vec<u8> {
    let body = format!("{}{}", "(local.get 0) (i64.load) ".repeat(sums), "i64.xor ".repeat(sums - 1));
    skill("", &format!("(func (param i32) (result i64) {body})"))
}

/// A jump table with many targets, many times.
pub(super) fn jump_tables(targets: usize, tables: usize) -> Vec<u8> {
    let table = format!("(br_table {} (local.get 0))", "0 1 2 3 ".repeat(targets / 4));
    let one = format!("(block (block (block (block {table}))))");
    skill("", &format!("(func (param i32) {})", one.repeat(tables)))
}

/// Very many functions with nothing in them.
pub(super) fn tiny_functions(count: usize) -> Vec<u8> {
    skill("", &"(func)".repeat(count))
}

/// Very many types, each of another shape.
pub(super) fn types(count: usize) -> Vec<u8> {
    let kinds = ["i32", "i64", "f32", "f64"];
    let one = |number: usize| {
        let parameters: Vec<_> = (0..12).map(|place| kinds[number >> (2 * place) & 3]).collect();
        format!("(type (func (param {})))", parameters.join(" "))
    };
    skill("", &(0..count).map(one).collect::<String>())
}

/// Very many pieces of data, of one byte each.
pub(super) fn data_segments(count: usize) -> Vec<u8> {
    skill("", &"(data (i32.const 8) \"x\")".repeat(count))
}

/// A component type of types that double: each is a pair of the one before.
pub(super) fn doubling_types(levels: usize) -> Vec<u8> {
    let mut around = String::from("(type $t0 (tuple u8 u8))");
    for level in 1..=levels {
        let before = level - 1;
        around += &format!("(type $t{level} (tuple $t{before} $t{before}))");
    }
    skill(&around, "")
}

/// Component types, one inside of another.
pub(super) fn deep_component_types(depth: usize) -> Vec<u8> {
    let around = format!("{}{}", "(type (component ".repeat(depth), "))".repeat(depth));
    skill(&around, "")
}

/// Components, one inside of another.
pub(super) fn deep_components(depth: usize) -> Vec<u8> {
    let around = format!("{}{}", "(component ".repeat(depth), ")".repeat(depth));
    skill(&around, "")
}

/// Component types in one another, so deep that a reader which calls itself runs out of stack.
pub(super) fn bottomless_types(depth: usize) -> Vec<u8> {
    // A type that declares one type, and so on; the last one declares nothing.
    let mut section = vec![1];
    section.extend([0x41, 1, 1].repeat(depth));
    section.extend([0x41, 0]);
    let mut bytes = b"\0asm\x0d\0\x01\0\x07".to_vec();
    let mut length = section.len();
    while length >= 0x80 {
        bytes.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    bytes.push(u8::try_from(length).unwrap());
    bytes.extend(section);
    bytes
}

/// Core modules whose memories have `gap` bytes between their first byte of data and their last.
pub(super) fn sparse_memories(modules: usize, gap: usize) -> Vec<u8> {
    let pages = gap / 65_536 + 1;
    let module = |n| {
        format!(
            r#"(core module $sparse{n} (memory {pages})
              (data (i32.const 0) "{n:04}") (data (i32.const {gap}) "end"))"#
        )
    };
    skill(&(0..modules).map(module).collect::<String>(), "")
}
