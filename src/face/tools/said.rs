//! What became of a call, in the words that a model is told it in.

use std::fmt::Write as _;

use serde_json::value::RawValue;

use crate::model::{Code, Error, Execution, Status};

/// What a model is told.
pub(in crate::face) struct Said {
    /// As text: the output, which a string is as it is and all else as JSON, or what went wrong.
    pub(in crate::face) text: String,
    /// What went wrong, or the output, unless it was cut off. Not as a tree, which would be many times as large.
    pub(in crate::face) outcome: Result<Option<Box<RawValue>>, Code>,
}

impl Said {
    /// The end of a run.
    pub(in crate::face) fn of(execution: Execution) -> Self {
        if execution.status != Status::Success {
            let code = execution.error.as_ref().map_or(Code::Internal, |error| error.code);
            return Self { text: why(&execution, code), outcome: Err(code) };
        }
        let Some(output) = execution.output else { return Self { text: "null".to_owned(), outcome: Ok(None) } };
        let text = serde_json::from_str::<String>(output.get()).unwrap_or_else(|_| output.get().to_owned());
        Self { text, outcome: Ok(Some(output)) }
    }

    /// Why there was no run.
    pub(super) fn refused(error: &Error) -> Self {
        if error.source.is_some() {
            tracing::error!("A call failed: {error:?}");
        }
        Self { text: refusal(error), outcome: Err(error.code) }
    }

    /// The same in at most `bytes`; `rest` says where all of it is.
    pub(super) fn within(mut self, bytes: usize, rest: &str) -> Self {
        if self.text.len() <= bytes {
            return self;
        }
        let mark = format!("\n[cut off here, of {} bytes; {rest}]", self.text.len());
        self.text.truncate(self.text.floor_char_boundary(bytes.saturating_sub(mark.len())));
        self.text.push_str(&mark);
        self.outcome = self.outcome.map(|_| None);
        self
    }
}

/// Why a run did not succeed: what happened, and what would have allowed it.
fn why(execution: &Execution, code: Code) -> String {
    let mut text = code.to_string();
    if let Some(error) = &execution.error {
        let _ = write!(text, ": {}", error.message);
        if let Some(detail) = &error.detail {
            let _ = write!(text, "\n{detail}");
        }
    }
    for denial in &execution.denials {
        let _ = write!(text, "\ndenied: {} {}; it needs {}: {}", denial.import, denial.asked, denial.grant, denial.fix);
    }
    text
}

/// Why there was no run, with the places of what is wrong.
pub(in crate::face) fn refusal(error: &Error) -> String {
    let mut text = format!("{}: {}", error.code.row().name, error.detail);
    for field in &error.fields {
        let place = if field.pointer.is_empty() { "/" } else { &field.pointer };
        let _ = write!(text, "\n{place}: {}", field.detail);
    }
    if let Some(seconds) = error.retry_after_s {
        let _ = write!(text, "\nIt may work after {seconds} s.");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_stays_within_its_bytes_and_says_so() {
        let said = |text: &str| Said { text: text.to_owned(), outcome: Ok(Some(RawValue::NULL.to_owned())) };
        let whole = said("short").within(100, "elsewhere");
        assert!(whole.text == "short" && matches!(whole.outcome, Ok(Some(_))));
        for bytes in 60..70 {
            let cut = said(&"ä".repeat(1000)).within(bytes, "elsewhere");
            assert!(cut.text.len() <= bytes && cut.text.ends_with("of 2000 bytes; elsewhere]"), "{}", cut.text);
            assert!(matches!(cut.outcome, Ok(None)));
        }
    }
}
