//! One schema, compiled once and used for every call.

use std::fmt::{self, Write as _};
use std::panic::AssertUnwindSafe;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use crate::model::{Error, FieldError, nearest, plain, steers};

use super::bounds::{Bounds, Size};
use super::cost::{self, Cost, Purpose};
use super::graph::Graph;
use super::places::Places;
use super::{
    COMPILER_STACK_BYTES, MAX_BACKTRACKS, MAX_DEPTH, MAX_FAILURE_BYTES, MAX_FAILURES, MAX_FAILURES_BYTES,
    MAX_REGEX_BYTES, MAX_REGEX_CACHE_BYTES, MAX_STEPS, refuse,
};

/// Most bytes of a word that is repeated.
const MAX_WORD: usize = 40;

/// A compiled JSON Schema: draft 2020-12 unless it names another. Nothing is fetched.
#[derive(Debug)]
pub struct Checker {
    validator: Validator,
    graph: Graph,
    bounds: Bounds,
}

impl Checker {
    /// Compiles `schema`.
    ///
    /// # Errors
    ///
    /// `invalid_manifest`, with a pointer into the schema, if it is not a schema, is too large
    /// or too costly, or refers to something elsewhere.
    pub fn compile(schema: &Value) -> Result<Self, Error> {
        // The validator is built by recursion, through several references at once.
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name(String::from("schema")).stack_size(COMPILER_STACK_BYTES);
            let compiler = thread.spawn_scoped(scope, || Self::compile_here(schema)).map_err(Error::internal)?;
            compiler.join().unwrap_or_else(|_| Err(Error::internal("the compiler of schemas panicked")))
        })
    }

    /// The same on this thread, whose stack must have [`COMPILER_STACK_BYTES`].
    pub(super) fn compile_here(schema: &Value) -> Result<Self, Error> {
        if !(schema.is_object() || schema.is_boolean()) {
            return Err(refuse("", "a JSON Schema is an object, or true or false"));
        }
        let places = Places::of(schema)?;
        let graph = Graph::read(&places)?;
        let bounds = Bounds::of(&graph)?;
        let options = jsonschema::options().offline();
        // The engine that never steps back, where no pattern needs the other.
        let options = if graph.steps_back {
            let engine = PatternOptions::fancy_regex().backtrack_limit(MAX_BACKTRACKS);
            options.with_pattern_options(engine.size_limit(MAX_REGEX_BYTES).dfa_size_limit(MAX_REGEX_CACHE_BYTES))
        } else {
            let engine = PatternOptions::regex();
            options.with_pattern_options(engine.size_limit(MAX_REGEX_BYTES).dfa_size_limit(MAX_REGEX_CACHE_BYTES))
        };
        let validator = options.build(schema).map_err(|error| not_a_schema(&error))?;
        Ok(Self { validator, graph, bounds })
    }

    /// Checks `value`, and gives every failure with its place.
    ///
    /// # Errors
    ///
    /// The failures, at most 50; a member that is missing is named by its text, and the pointer
    /// leads to where it should be. Texts name the rule and not the value, which may be secret.
    pub fn check(&self, value: &Value) -> Result<(), Vec<FieldError>> {
        let whole = |detail: String| vec![FieldError::new("", detail)];
        let size = cost::size(value).ok_or_else(|| whole(format!("nested deeper than {MAX_DEPTH} levels")))?;
        if !self.bounds.allow(size) && self.cost(value, Purpose::Verdict).is_none() {
            return Err(whole(format!(
                "checking this value takes more than {MAX_STEPS} steps; send less at once, or make the schema simpler"
            )));
        }
        // With recursion under `unevaluatedProperties`, the validator was seen to panic (by
        // `properties`). It holds no state that a panic could spoil, and what is not known to
        // be valid is not.
        let answer = std::panic::catch_unwind(AssertUnwindSafe(|| self.answer(value, size)));
        answer.unwrap_or_else(|_| {
            Err(vec![FieldError::new("", "cannot be checked: the validator cannot use the schema")])
        })
    }

    fn answer(&self, value: &Value, size: Size) -> Result<(), Vec<FieldError>> {
        let whole = |detail: &str| vec![FieldError::new("", detail)];
        if self.validator.is_valid(value) {
            return Ok(());
        }
        if !self.can_explain(value, size) {
            return Err(whole("does not match the schema; the value is too large to say where"));
        }
        let failures = self.validator.iter_errors(value).take(MAX_FAILURES);
        let failures: Vec<_> =
            failures.map(|error| FieldError::new(error.instance_path().as_str(), text(&error))).collect();
        Err(if failures.is_empty() { whole("does not match the schema") } else { failures })
    }

    /// Whether the failures of `value` can be collected: the validator makes all of them before
    /// it gives the first, and looks for them again on each level.
    fn can_explain(&self, value: &Value, size: Size) -> bool {
        self.cost(value, Purpose::Failures).is_some_and(|cost| {
            cost.failure_bytes <= MAX_FAILURES_BYTES && cost.steps.saturating_mul(size.depth + 1) <= MAX_STEPS
        })
    }

    fn cost(&self, value: &Value, purpose: Purpose) -> Option<Cost> {
        cost::count(&self.graph, &self.bounds, value, purpose)
    }
}

fn not_a_schema(error: &ValidationError<'_>) -> Error {
    let detail = match error.kind() {
        ValidationErrorKind::Format { format } if format == "regex" => {
            String::from("not a regular expression (ECMA-262), or one that is too large")
        }
        _ => match unknown_type(error) {
            Some(detail) => detail,
            None => text(error),
        },
    };
    refuse(error.instance_path().as_str(), format!("not a usable JSON Schema: {detail}"))
}

/// The types of JSON Schema.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// What to say of a `type` that is none, with the one that was probably meant.
fn unknown_type(error: &ValidationError<'_>) -> Option<String> {
    let word = error.instance().as_str().filter(|word| !TYPES.contains(word))?;
    if !error.instance_path().as_str().ends_with("/type") {
        return None;
    }
    let meant = nearest(word, TYPES).unwrap_or_default();
    Some(format!("{:?} is no type; the nearest is {meant:?}", plain(word, MAX_WORD)))
}

/// What `error` says, without the value it is about.
fn text(error: &ValidationError<'_>) -> String {
    let mut text = Short(String::new());
    // Fails when the text is full, which is all that can be done about it.
    let _ = match error.kind() {
        // Shown as it is, this would quote the name.
        ValidationErrorKind::PropertyNames { error } => {
            write!(text, "a name is not allowed: {}", error.masked_with("it"))
        }
        ValidationErrorKind::BacktrackLimitExceeded { .. } => write!(text, "takes too long to match with a pattern"),
        _ => write!(text, "{}", error.masked_with("this")),
    };
    text.0
}

/// Text of at most [`MAX_FAILURE_BYTES`], without what steers a reader's screen.
struct Short(String);

impl fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars().filter(|c| !steers(*c)) {
            if self.0.len() + c.len_utf8() > MAX_FAILURE_BYTES {
                return Err(fmt::Error);
            }
            self.0.push(c);
        }
        Ok(())
    }
}
