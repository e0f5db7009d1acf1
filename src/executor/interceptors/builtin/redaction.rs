//! `redaction`: takes what looks like a secret out of everything that comes out, and of the arguments where it
//! stands before the run.

use std::sync::{Arc, LazyLock};

use regex::{NoExpand, Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::model::{Error, Phase, REDACTED, StrictJson};

use super::super::contract::{After, Asked, Before, Interceptor, Outcome};
use super::texts;

/// What secrets of well-known kinds look like.
const KNOWN: &[&str] = &[
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
    r"(?i:bearer\s+)[A-Za-z0-9._~+/=-]{16,}",
    r"\bsk[-_][A-Za-z0-9_-]{20,}",
    r"\bwhsec_[A-Za-z0-9+/=]{16,}",
    r"\bgh[pousr]_[A-Za-z0-9]{36,}",
    r"\bgithub_pat_[A-Za-z0-9_]{22,}",
    r"\bglpat-[A-Za-z0-9_-]{20,}",
    r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
    r"\bA[KS]IA[0-9A-Z]{16}\b",
    r"\bAIza[0-9A-Za-z_-]{35}",
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
];
/// Most patterns that somebody gives, most bytes of one, and of what stands in place of what they find.
const MAX_PATTERNS: usize = 32;
const MAX_PATTERN: usize = 512;
const MAX_REPLACEMENT: usize = 64;
/// Most memory of all patterns together, in bytes.
const MAX_COMPILED: usize = 4 << 20;

static KNOWN_ALONE: LazyLock<Option<Regex>> = LazyLock::new(|| compiled(KNOWN.iter().copied()).ok());

/// What it is set to.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Settings {
    /// What else to look for, in the syntax of the crate `regex`.
    patterns: Vec<String>,
    /// Whether to look for what is well known, too.
    defaults: bool,
    /// What stands in place of what was found.
    replacement: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { patterns: Vec::new(), defaults: true, replacement: REDACTED.to_owned() }
    }
}

struct Redaction {
    looks_for: Regex,
    replacement: String,
}

/// Makes one.
pub(super) fn make(config: Map<String, Value>) -> Result<Arc<dyn Interceptor>, Error> {
    let Settings { patterns, defaults, replacement } = super::settings(config)?;
    if patterns.len() > MAX_PATTERNS || patterns.iter().any(|pattern| pattern.len() > MAX_PATTERN) {
        let most = format!("patterns: at most {MAX_PATTERNS}, each of at most {MAX_PATTERN} bytes");
        return Err(super::wrong(&most));
    }
    if replacement.len() > MAX_REPLACEMENT {
        return Err(super::wrong(&format!("replacement: at most {MAX_REPLACEMENT} bytes")));
    }
    if patterns.is_empty() && !defaults {
        return Err(super::wrong("patterns: there is nothing to look for"));
    }
    let known = KNOWN.iter().copied().filter(|_| defaults);
    let looks_for = compiled(known.chain(patterns.iter().map(String::as_str)))
        .map_err(|error| super::wrong(&format!("patterns: {error}")))?;
    if looks_for.is_match("") {
        return Err(super::wrong("patterns: one of them finds nothing at all, everywhere"));
    }
    Ok(Arc::new(Redaction { looks_for, replacement }))
}

fn compiled<'a>(patterns: impl Iterator<Item = &'a str>) -> Result<Regex, regex::Error> {
    // Each by itself first: the parentheses around it must be its own.
    let patterns: Vec<_> = patterns.collect();
    for pattern in &patterns {
        RegexBuilder::new(pattern).size_limit(MAX_COMPILED).build()?;
    }
    let any: Vec<_> = patterns.iter().map(|pattern| format!("(?:{pattern})")).collect();
    RegexBuilder::new(&any.join("|")).size_limit(MAX_COMPILED).dfa_size_limit(MAX_COMPILED).build()
}

/// A text without what looks like a secret of a well-known kind.
pub(in super::super) fn without_secrets(text: &str) -> String {
    match &*KNOWN_ALONE {
        Some(known) => known.replace_all(text, NoExpand(REDACTED)).into_owned(),
        None => REDACTED.to_owned(),
    }
}

impl Redaction {
    fn changed(&self, text: &str) -> Option<String> {
        let new = self.looks_for.replace_all(text, NoExpand(&self.replacement));
        match new {
            std::borrow::Cow::Borrowed(_) => None,
            std::borrow::Cow::Owned(new) => Some(new),
        }
    }

    /// Takes it out of a text; says whether it was there.
    fn clean(&self, text: &mut String) -> bool {
        self.changed(text).map(|new| *text = new).is_some()
    }

    /// The same for JSON.
    fn clean_json(&self, json: &str) -> Option<String> {
        texts::changed(json, |text| self.changed(text))
    }

    fn clean_error(&self, outcome: &mut Outcome<'_>) -> bool {
        let Some(error) = outcome.error() else { return false };
        let message = self.changed(&error.message);
        let written = error.detail.as_ref().map(Value::to_string);
        let detail = written.as_deref().and_then(|text| self.clean_json(text));
        if message.is_none() && detail.is_none() {
            return false;
        }
        let message = message.unwrap_or_else(|| error.message.clone());
        let detail = detail.or(written).and_then(|text| serde_json::from_str(&text).ok());
        outcome.set_error(message, detail);
        true
    }

    fn clean_said(&self, outcome: &mut Outcome<'_>) -> bool {
        let mut found = false;
        for line in &mut outcome.said().log {
            found |= self.clean(&mut line.message) | self.clean(&mut line.context);
        }
        for report in &mut outcome.said().progress {
            found |= self.clean(&mut report.message);
        }
        for denial in outcome.denials() {
            found |= self.clean(&mut denial.asked) | self.clean(&mut denial.grant) | self.clean(&mut denial.fix);
        }
        for attempt in outcome.earlier() {
            found |= self.clean(&mut attempt.message);
        }
        found
    }
}

impl Interceptor for Redaction {
    fn phases(&self) -> &[Phase] {
        Phase::ALL
    }

    fn before(&self, asked: &mut Asked<'_>) -> Before {
        match self.clean_json(asked.args()).map(|new| StrictJson::parse(&new)) {
            None => Before::Continue,
            Some(Ok(args)) => Before::Replace(args),
            // Two names became one.
            Some(Err(_)) => Before::Fail,
        }
    }

    fn after(&self, outcome: &mut Outcome<'_>) -> After {
        let output = outcome.output().and_then(|json| self.clean_json(json));
        let mut found = output.is_some();
        if let Some(output) = output
            && outcome.set_output(output).is_err()
        {
            return After::Fail;
        }
        found |= self.clean_error(outcome);
        let streams = outcome.streams();
        found |= self.clean(&mut streams.stdout) | self.clean(&mut streams.stderr);
        found |= self.clean_said(outcome);
        if found { After::Changed } else { After::Pass }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_well_known_is_found_and_ordinary_words_are_not() {
        let jwt = format!("{}.{}.{}", "eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0NTY3ODkwIn0", "c2lnbmF0dXJl");
        for secret in [
            format!("sk_{}", "a1".repeat(32)),
            format!("whsec_{}", "Ab1+".repeat(8)),
            format!("ghp_{}", "x".repeat(36)),
            format!("AKIA{}", "A1B2".repeat(4)),
            format!("Authorization: Bearer {}", "t0ken".repeat(5)),
            format!("-----BEGIN PRIVATE KEY-----\n{}", "MIIE".repeat(9)),
            jwt,
        ] {
            let clean = without_secrets(&format!("it is {secret}"));
            assert!(clean.starts_with("it is ") && clean.ends_with(REDACTED), "{clean}");
        }
        for word in ["the bearer of this", "task_force", "risk-adjusted-return-on-capital", "sk_short"] {
            assert_eq!(without_secrets(word), word);
        }
    }

    #[test]
    fn patterns_are_bounded_and_none_escapes_its_parentheses() {
        let with = |config: Value| make(config.as_object().unwrap().clone()).map(drop);
        assert!(with(serde_json::json!({ "patterns": ["canary-[0-9]+"] })).is_ok());
        for bad in [
            serde_json::json!({ "patterns": ["("] }),
            serde_json::json!({ "patterns": ["a)|(?:"] }),
            serde_json::json!({ "patterns": [""] }),
            serde_json::json!({ "patterns": ["x*"] }),
            serde_json::json!({ "patterns": ["(\\w{1000}){1000}"] }),
            serde_json::json!({ "patterns": vec!["a"; MAX_PATTERNS + 1] }),
            serde_json::json!({ "defaults": false }),
            serde_json::json!({ "nonsense": 1 }),
        ] {
            assert_eq!(with(bad.clone()).unwrap_err().code, crate::model::Code::InvalidArgs, "{bad}");
        }
    }
}
