//! JSON Schemas of skills: mended where they are written short, compiled once, used for every call.
//!
//! A schema comes from whoever registers a skill, a value from whoever calls it or from the
//! guest, and the check of one against the other runs on the host. So both are bounded:
//!
//! - [`places`] bounds the text: size, depth, number of values, length of the paths.
//! - [`graph`] reads which subschema applies where, with each `$ref` followed. Nothing is fetched.
//! - [`patterns`] bounds each regular expression, and tells whether it can step back.
//! - [`bounds`] refuses what is too much for every value: recursion that never goes down,
//!   references that multiply, `unevaluated…` within `unevaluated…`.
//! - [`cost`] counts, before a value is checked, how many steps that can take at most, so that
//!   recursion that branches, many rules on many items, and patterns on long texts end in a
//!   refusal and not in a busy host.
//! - [`checker`] joins them around the `jsonschema` crate.
//! - [`shorthand`] turns what other hosts accept as a schema into one.

mod bounds;
mod checker;
mod cost;
mod dispatch;
mod graph;
mod groups;
mod keywords;
mod patterns;
mod places;
mod resources;
mod shorthand;

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod properties;

use serde_json::Value;

use crate::model::{Code, Error, Schemas, pointer_below as join};

pub use self::checker::Checker;
#[cfg(test)]
use self::shorthand::normalise;
use self::shorthand::split;

/// Longest schema as compact JSON text, in bytes. `enum`, `const` and texts fall under it too.
const MAX_TEXT_BYTES: usize = 256 << 10;
/// Deepest nesting of arrays and objects in a schema, and in a value that is checked.
const MAX_DEPTH: usize = 64;
/// Most values (members, items, and the schema itself) in a schema.
const MAX_VALUES: usize = 20_000;
/// Most bytes of all JSON pointers into a schema together. The validator keeps a pointer for
/// each keyword, and one long member name is in all of those below it.
const MAX_POINTER_BYTES: usize = 8 << 20;

/// Longest regular expression, in bytes.
const MAX_PATTERN_BYTES: usize = 1024;
/// Deepest nesting of groups in a regular expression.
const MAX_PATTERN_DEPTH: usize = 50;
/// Largest regular expression, in estimated automaton states: `[a-z]{1,1000}` has 8,000.
const MAX_PATTERN_STATES: u64 = 20_000;
/// Most estimated states in all distinct regular expressions of a schema together. One takes
/// about 180 bytes and 1 µs to compile.
const MAX_ALL_STATES: u64 = 80_000;
/// Most distinct regular expressions in a schema.
const MAX_PATTERNS: usize = 500;
/// Largest compiled regular expression, in bytes.
const MAX_REGEX_BYTES: usize = 4 << 20;
/// Most memory for what one regular expression remembers of the texts it met, in bytes.
const MAX_REGEX_CACHE_BYTES: usize = 256 << 10;
/// Steps back that one regular expression with a lookaround or a backreference may take on one text.
const MAX_BACKTRACKS: usize = 10_000;

/// Most subschemas that may apply, those reached through several base URIs counted for each.
const MAX_NODES: usize = 50_000;
/// Most subschemas that may lie between a place in a value and the next place below it. With
/// [`MAX_DEPTH`] it bounds how deep the validator calls itself: to 0.8 MiB of stack, measured.
const MAX_IN_PLACE: usize = 16;
/// Stack for compiling; 4 MiB is the most that was seen to be needed.
const COMPILER_STACK_BYTES: usize = 16 << 20;
/// Most rules that may apply to one place in a value, each `$ref` counted as a copy.
const MAX_IN_PLACE_RULES: u64 = 50_000;
/// Most subschemas once each `$ref` is replaced by a copy, recursion left as it is.
const MAX_EXPANDED: u64 = 50_000;
/// Most rules that `unevaluatedProperties` and `unevaluatedItems` look through, for all of them
/// together: the validator keeps a copy for each, and compiles them in quadratic time.
const MAX_UNEVALUATED: u64 = 10_000;
/// Most subschemas that the validator may compile, one counted for each chain of resources (what
/// has an `$id`) that leads to it.
const MAX_COMPILED: u64 = 100_000;
/// Most pairs of a dynamic reference and an anchor that it may lead to.
const MAX_DYNAMIC: usize = 10_000;

/// Most steps of one check, each about 100 ns at worst.
const MAX_STEPS: u64 = 30_000_000;
/// Most memory that the failures of one check may take, in bytes, before they are told in short.
const MAX_FAILURES_BYTES: u64 = 64 << 20;
/// Most failures that are told.
const MAX_FAILURES: usize = 50;
/// Longest text of one failure, in bytes.
const MAX_FAILURE_BYTES: usize = 200;

/// The schemas in a manifest, with shorthands written out; each of them compiles.
///
/// # Errors
///
/// `invalid_manifest` with the place, as a JSON pointer into `schema`.
pub(super) fn checked(schema: Value) -> Result<Schemas, Error> {
    let is_pair = schema.as_object().is_some_and(shorthand::is_pair);
    let schemas = split(schema)?;
    for (place, part) in [("/input", &schemas.input), ("/output", &schemas.output)] {
        if let Some(part) = part {
            Checker::compile(part).map_err(|error| if is_pair { error.below(place) } else { error })?;
        }
    }
    Ok(schemas)
}

/// A schema that is refused for what stands at `pointer`.
fn refuse(pointer: impl Into<String>, detail: impl Into<String>) -> Error {
    Error::at(Code::InvalidManifest, pointer, detail)
}
