//! The secrets of a run: opened before it, and taken out of what it leaves behind.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::egress::{Cleaner, Credentials};
use crate::model::{Code, Denial, Error, LogLine, Progress, RunError, Said, Streams};
use crate::sandbox::SandboxReply;

use super::{Admitted, Executor};

impl Executor {
    /// What the run may have put into its requests.
    pub(super) fn credentials_for(&self, admitted: &Admitted) -> Result<Arc<Credentials>, Error> {
        let skill = &admitted.skill.skill;
        if skill.grants.secrets.is_empty() {
            return Ok(Arc::default());
        }
        self.secrets.for_run(&admitted.caller.key, skill, &admitted.line.secrets).map(Arc::new)
    }
}

/// The reply without the secrets that were sent. The guest never had them; but an upstream may have
/// told it one in a form that only the guest could undo.
pub(super) fn taken_out(reply: SandboxReply, credentials: &Credentials) -> SandboxReply {
    let cleaner = credentials.cleaner();
    let text = |text: String| cleaner.clean(&text);
    let outcome = match reply.outcome {
        Ok(output) => output_without(&output, &cleaner),
        Err(error) => {
            let detail = error.detail.map(|detail| value_without(detail, &cleaner));
            Err(RunError { message: text(error.message), detail, ..error })
        }
    };
    let denial = |denial: Denial| Denial { asked: text(denial.asked), ..denial };
    let line = |line: LogLine| LogLine { context: text(line.context), message: text(line.message), ..line };
    let report = |report: Progress| Progress { message: text(report.message), ..report };
    let said = Said {
        log: reply.said.log.into_iter().map(line).collect(),
        progress: reply.said.progress.into_iter().map(report).collect(),
        ..reply.said
    };
    let streams = Streams { stdout: text(reply.streams.stdout), stderr: text(reply.streams.stderr), ..reply.streams };
    let denials = reply.denials.into_iter().map(denial).collect();
    SandboxReply { outcome, streams, said, denials, ..reply }
}

fn output_without(output: &RawValue, cleaner: &Cleaner) -> Result<Box<RawValue>, RunError> {
    // A secret can be a number, or go over the end of a text.
    RawValue::from_string(cleaner.clean(output.get()))
        .map_err(|_| RunError::new(Code::InvalidOutput, "the output has a secret in it, which cannot be taken out"))
}

fn value_without(value: Value, cleaner: &Cleaner) -> Value {
    let text = value.to_string();
    let clean = cleaner.clean(&text);
    if clean == text { value } else { serde_json::from_str(&clean).unwrap_or(Value::Null) }
}

#[cfg(test)]
mod tests {
    use crate::egress::{Credential, Place};
    use crate::model::LogLevel;

    use super::*;

    #[test]
    fn what_a_guest_said_is_without_the_secret_too() {
        let place = Place::parse("https://a.example", "authorization", "Bearer ").unwrap();
        let value = crate::model::SecretValue::new("s3cret-value-of-tests".to_owned().into()).unwrap();
        let credential = Credential { name: "TOKEN".parse().unwrap(), value, place, only: None };
        let credentials = Credentials::new(vec![credential], Vec::new());
        let told = || "it is s3cret-value-of-tests".to_owned();
        let mut reply = SandboxReply::without_run(RunError::new(Code::Trap, told()));
        reply.said.log.push(LogLine { at: 0, level: LogLevel::Info, context: told(), message: told() });
        reply.said.progress.push(Progress { at: 0, done: 1.0, total: None, message: told() });
        reply.streams.stderr = told();
        let clean = taken_out(reply, &credentials);
        assert!(!format!("{clean:?}").contains("s3cret"), "{clean:?}");
        assert_eq!(clean.said.log[0].message, format!("it is {}", "*".repeat(21)));
    }
}
