//! The skills in `skills/`, as they are in the program.

/// A skill's name, its `SKILL.md` and its component.
pub(super) type Builtin = (&'static str, &'static str, &'static [u8]);

/// Takes folders of `skills/` into the program, whose component is `<name>.wasm`.
macro_rules! skills {
    ($($name:literal,)*) => {
        &[$((
            $name,
            include_str!(concat!("../../skills/", $name, "/SKILL.md")),
            include_bytes!(concat!("../../skills/", $name, "/", $name, ".wasm")),
        ),)*]
    };
}

/// All of them, the most used first: they are compiled in this order.
pub(super) const SKILLS: &[Builtin] = skills![
    "hello",
    "file-read",
    "file-write",
    "file-list",
    "http-request",
    "web-fetch",
    "file-search",
    "file-delete",
];
