//! An execution as people read it.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::exit::{Exit, Failure};
use super::output::Output;
use super::{table, value};

/// An answer that is one execution.
pub(super) struct Ran {
    /// Everything but the output's exact text.
    pub(super) execution: Value,
    /// The output as the guest wrote it; numbers keep all their digits.
    pub(super) result: Option<String>,
}

impl Ran {
    /// Reads an execution object.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        #[derive(Deserialize)]
        struct Exact<'a> {
            #[serde(borrow)]
            output: Option<&'a RawValue>,
        }
        let unreadable =
            |error: serde_json::Error| Failure::unreachable(format!("the answer is no execution: {error}"));
        let execution = serde_json::from_str(text).map_err(unreadable)?;
        let exact: Exact<'_> = serde_json::from_str(text).map_err(unreadable)?;
        Ok(Self { execution, result: exact.output.map(|output| output.get().to_owned()) })
    }

    /// Whether it ended well.
    pub(super) fn succeeded(&self) -> bool {
        value::text(&self.execution, "status") == "success"
    }

    /// How a command that ran it ends.
    pub(super) fn exit(&self) -> Exit {
        if self.succeeded() { Exit::Success } else { Exit::RunEnded }
    }

    /// What the guest printed, and how the run ended, on stderr.
    pub(super) fn note(&self, output: Output) {
        for name in ["stdout", "stderr"] {
            let text = table::clean(&value::text(&self.execution, name));
            let told = name == "stdout" && self.is_output(&text);
            if !text.is_empty() && !told {
                output.note(text.trim_end_matches('\n'));
            }
            if self.execution.get(format!("{name}Truncated")) == Some(&Value::Bool(true)) {
                output.note(&format!("({name} was longer; the rest was not kept)"));
            }
        }
        output.note(&self.outcome());
    }

    /// Whether what the guest printed is its output, which stdout has already.
    fn is_output(&self, printed: &str) -> bool {
        let output = self.execution.get("output").filter(|_| self.succeeded());
        let printed = printed.trim();
        output.is_some_and(|output| {
            output.as_str().is_some_and(|text| table::clean(text).trim() == printed)
                || serde_json::from_str::<Value>(printed).is_ok_and(|printed| printed == *output)
        })
    }

    /// How the run ended, in one line, and what it was not given.
    pub(super) fn outcome(&self) -> String {
        let text = |name| value::text(&self.execution, name);
        let usage = |name| self.execution.get("usage").and_then(|usage| usage.get(name)).and_then(Value::as_u64);
        let took = self.execution.get("durationMs").and_then(Value::as_f64).map(from_ms);
        let took = took.map(|took| format!(" in {}", table::time(took))).unwrap_or_default();
        let attempts = self.execution.get("attempts").and_then(Value::as_u64).unwrap_or(1);
        let parts = [
            usage("fuel").map(|fuel| format!("fuel {fuel}")),
            usage("memoryPeakBytes").map(|peak| format!("memory {}", table::bytes(peak))),
            (attempts > 1).then(|| format!("{attempts} attempts")),
            Some(text("id")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let mut lines = vec![format!("{}: {}{took} ({})", text("status"), text("skillId"), parts.join(", "))];
        if let Some(error) = self.execution.get("error").filter(|error| !error.is_null()) {
            lines.push(format!("error: {}", table::one_line(&value::text(error, "message"))));
            lines.push(format!("  code: {}", value::text(error, "code")));
            let detail = table::one_line(&value::text(error, "detail"));
            lines.extend(Some(detail).filter(|detail| !detail.is_empty()).map(|detail| format!("  detail: {detail}")));
        }
        let warnings = value::texts(&self.execution, "warnings");
        lines.extend(warnings.iter().map(|warning| format!("warning: {}", table::one_line(warning))));
        lines.extend(value::list(&self.execution, "earlierAttempts").iter().map(earlier));
        lines.extend(value::list(&self.execution, "denials").iter().map(denial));
        lines.join("\n")
    }
}

/// An attempt after which there was another.
fn earlier(attempt: &Value) -> String {
    let text = |name| table::one_line(&value::text(attempt, name));
    format!("attempt {}: {} ({}); it was tried again", text("attempt"), text("message"), text("code"))
}

/// Something that the guest was not given.
fn denial(denial: &Value) -> String {
    let text = |name| table::one_line(&value::text(denial, name));
    format!("denied: {} asked for {}\n  allow it: {}", text("import"), text("asked"), text("fix"))
}

/// A time from milliseconds; nothing odd survives.
pub(super) fn from_ms(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_keeps_its_digits() {
        let ran = Ran::parse(r#"{"status":"success","output":{"n":123456789012345678901234567890}}"#).unwrap();
        assert_eq!(ran.result.as_deref(), Some(r#"{"n":123456789012345678901234567890}"#));
        assert_eq!(ran.exit(), Exit::Success);
        assert_eq!(Ran::parse(r#"{"output":null}"#).unwrap().result, None);
        assert!(Ran::parse("[").is_err());
    }

    #[test]
    fn what_was_printed_is_told_once_and_attempts_are_counted() {
        let ran = |output: &str| {
            let text = format!(
                r#"{{"id":"0198","skillId":"a@1.0.0","status":"success","attempts":2,"output":{output},
                   "earlierAttempts":[{{"attempt":1,"code":"trap","message":"unreachable","fuel":1}}]}}"#
            );
            Ran::parse(&text).unwrap()
        };
        assert!(ran(r#""one""#).is_output("one\n") && ran(r#"{"n":1}"#).is_output("{ \"n\": 1 }"));
        assert!(!ran("null").is_output("one") && !ran(r#""two""#).is_output("one"));
        insta::assert_snapshot!(ran("1").outcome(), @r"
        success: a@1.0.0 (2 attempts, 0198)
        attempt 1: unreachable (trap); it was tried again
        ");
    }

    #[test]
    fn the_outcome_names_code_limit_and_denials() {
        let ran = Ran::parse(
            r#"{"id":"0198","skillId":"a@1.0.0","status":"error","durationMs":3.1,"usage":{"fuel":5,"memoryPeakBytes":2048},
               "error":{"code":"out_of_fuel","message":"used 5 units"},
               "denials":[{"import":"wasi:http","asked":"GET https://x","grant":"g","fix":"do this"}],"output":null}"#,
        )
        .unwrap();
        assert_eq!(ran.exit(), Exit::RunEnded);
        insta::assert_snapshot!(ran.outcome(), @r"
        error: a@1.0.0 in 3.1 ms (fuel 5, memory 2.0 KiB, 0198)
        error: used 5 units
          code: out_of_fuel
        denied: wasi:http asked for GET https://x
          allow it: do this
        ");
    }
}
