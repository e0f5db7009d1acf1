//! The secrets of a run: opened before it, and taken out of what it leaves behind.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::egress::Credentials;
use crate::model::{Code, Denial, Error, RunError, Streams};
use crate::sandbox::SandboxReply;

use super::{Admitted, Executor};

impl Executor {
    /// What the run may have put into its requests.
    pub(super) async fn credentials_for(&self, admitted: &Admitted) -> Result<Arc<Credentials>, Error> {
        let skill = &admitted.skill.skill;
        if skill.grants.secrets.is_empty() {
            return Ok(Arc::default());
        }
        self.secrets.for_run(&admitted.caller.key, skill, &admitted.line.secrets).await.map(Arc::new)
    }
}

/// The reply without the secrets that were sent. The guest never had them; but an upstream may have
/// told it one in a form that only the guest could undo.
pub(super) fn taken_out(reply: SandboxReply, credentials: &Credentials) -> SandboxReply {
    let text = |text: String| credentials.scrub(&text);
    let outcome = match reply.outcome {
        Ok(output) => output_without(&output, credentials),
        Err(error) => {
            let detail = error.detail.map(|mut detail| {
                clean_value(&mut detail, credentials);
                detail
            });
            Err(RunError { message: text(error.message), detail, ..error })
        }
    };
    let denial = |denial: Denial| Denial { asked: text(denial.asked), ..denial };
    let streams = Streams { stdout: text(reply.streams.stdout), stderr: text(reply.streams.stderr), ..reply.streams };
    let denials = reply.denials.into_iter().map(denial).collect();
    SandboxReply { outcome, streams, denials, ..reply }
}

fn output_without(output: &RawValue, credentials: &Credentials) -> Result<Box<RawValue>, RunError> {
    let clean = credentials.scrub(output.get());
    // A secret can be a number, or go over the end of a text.
    RawValue::from_string(clean)
        .map_err(|_| RunError::new(Code::InvalidOutput, "the output has a secret in it, which cannot be taken out"))
}

fn clean_value(value: &mut Value, credentials: &Credentials) {
    let text = value.to_string();
    let clean = credentials.scrub(&text);
    if clean != text {
        *value = serde_json::from_str(&clean).unwrap_or(Value::Null);
    }
}
