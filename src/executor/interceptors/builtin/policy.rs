//! `argument-policy`: refuses arguments that are too large or nested too deep.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::model::{Error, MAX_JSON_DEPTH, Phase};

use super::super::contract::{Asked, Before, Interceptor};

/// What it is set to.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Policy {
    /// Most bytes of the arguments as JSON text.
    max_bytes: Option<usize>,
    /// Deepest nesting of arrays and objects.
    max_depth: Option<u32>,
}

/// Makes one.
pub(super) fn make(config: Map<String, Value>) -> Result<Arc<dyn Interceptor>, Error> {
    let policy: Policy = super::settings(config)?;
    if policy.max_bytes.is_none() && policy.max_depth.is_none() {
        return Err(super::wrong("needs maxBytes or maxDepth, or both"));
    }
    if policy.max_depth.is_some_and(|depth| depth > MAX_JSON_DEPTH) {
        return Err(super::wrong(&format!("maxDepth must be at most {MAX_JSON_DEPTH}, which always holds")));
    }
    Ok(Arc::new(policy))
}

impl Interceptor for Policy {
    fn phases(&self) -> &[Phase] {
        &[Phase::Before]
    }

    fn before(&self, asked: &mut Asked<'_>) -> Before {
        let args = asked.args();
        if let Some(most) = self.max_bytes.filter(|most| args.len() > *most) {
            return Before::Reject(format!("the arguments have {} bytes, and may have {most}", args.len()));
        }
        match self.max_depth {
            Some(most) if depth(args) > most => {
                Before::Reject(format!("the arguments are nested more than {most} levels deep"))
            }
            _ => Before::Continue,
        }
    }
}

/// How deep arrays and objects lie in each other in a text that is JSON.
fn depth(text: &str) -> u32 {
    let (mut now, mut most, mut in_text, mut escaped) = (0_u32, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                now += 1;
                most = most.max(now);
            }
            b'}' | b']' if !in_text => now = now.saturating_sub(1),
            _ => {}
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_what_is_nested_and_not_what_is_written_in_texts() {
        for (text, expected) in [("1", 0), ("{}", 1), (r#"{"a":[{"b":1}],"c":[]}"#, 3), (r#"["\"[[[{", "\\"]"#, 1)] {
            assert_eq!(depth(text), expected, "{text}");
        }
    }
}
