//! Running what a model asks for.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::executor::Once;
use crate::host::Host;
use crate::model::{
    Caller, Code, Digest, Error, ExecutionId, ExecutionRequest, Idempotency, LimitsPatch, Scope, Status, StrictJson,
};
use crate::registry::ToolRef;

use super::{Call, Format, Said, of_caller, request};

/// Most calls in one response.
const MOST: usize = 128;
/// All results together have so many times the bytes of one.
const RESULTS: usize = 4;

/// What all the calls of one response may take.
pub(in crate::face) struct Budget {
    /// Until all have ended.
    pub(in crate::face) time: Duration,
    /// Most bytes of one result; all of them together have four times as many.
    pub(in crate::face) bytes: usize,
}

/// What became of the calls in a response.
#[derive(Default, Serialize)]
pub(in crate::face) struct Answer {
    results: Vec<Box<RawValue>>,
    /// Calls of tools that are not here.
    passthrough: Vec<String>,
    executions: Vec<Ran>,
}

/// The run that a call became.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Ran {
    call_id: String,
    execution_id: ExecutionId,
    status: Status,
}

/// One call on its way.
struct Owned {
    call: Call,
    call_id: String,
    tool: ToolRef,
    idempotency: Idempotency,
}

/// Runs the calls of tools that are here, at the same time; leaves the others to the caller. The same response
/// again runs nothing again; `word` is what tells responses apart that have no id.
///
/// # Errors
///
/// `malformed` if it is no response of that format, or has too many calls; `insufficient_scope`.
pub(in crate::face) async fn run(
    (host, caller): (&Host, &Caller),
    format: &dyn Format,
    (response, word): (&str, Option<&str>),
    budget: Budget,
) -> Result<Answer, Error> {
    caller.key.require(Scope::SkillsExecute)?;
    let unreadable = |error: serde_json::Error| {
        Error::new(Code::Malformed, format!("this is no response in the format {}: {error}", format.name()))
    };
    let asked = format.calls(response).map_err(unreadable)?;
    if asked.calls.len() > MOST {
        return Err(Error::new(Code::Malformed, format!("a response may have {MOST} calls; this one has more")));
    }
    let id = word.or(asked.id.as_deref()).map_or_else(|| hex::encode(Sha256::digest(response)), str::to_owned);
    let (mut answer, mut owned) = (Answer::default(), Vec::new());
    for (at, call) in asked.calls.into_iter().enumerate() {
        // A provider that gives no ids is given places.
        let call_id = call.id.clone().unwrap_or_else(|| at.to_string());
        match host.registry.tool(caller, &call.name) {
            Ok(tool) => {
                let idempotency = once(format, &[&id, &at.to_string(), &call_id], &call)?;
                owned.push(Owned { call, call_id, tool, idempotency });
            }
            Err(_) => answer.passthrough.push(call_id),
        }
    }
    let end = Instant::now() + budget.time;
    let ended = join_all(owned.into_iter().map(|owned| owned.run((host, caller), (end, budget.bytes)))).await;
    let mut left = budget.bytes.saturating_mul(RESULTS);
    for Told { call, said, ran } in ended {
        let said = match &ran {
            Some(ran) => said.within(left, &ran.whole()),
            None => said,
        };
        left = left.saturating_sub(said.text.len());
        answer.results.push(format.result(&call, said).map_err(Error::internal)?);
        answer.executions.extend(ran);
    }
    Ok(answer)
}

/// By what a call is known again.
fn once(format: &dyn Format, place: &[&str; 3], call: &Call) -> Result<Idempotency, Error> {
    let mut word = String::from(format.name());
    for part in place {
        // With their lengths, no two places make one word.
        let _ = write!(word, " {}:{part}", part.len());
    }
    let arguments = call.arguments.as_ref().map_or("", |arguments| arguments.text());
    let request = Digest::of(format!("{} {arguments}", call.name).as_bytes());
    Ok(Idempotency { key: format!("tools:{}", hex::encode(Sha256::digest(word))).parse()?, request })
}

/// A call, what the model is told of it, and the run that it became.
struct Told {
    call: Call,
    said: Said,
    ran: Option<Ran>,
}

impl Owned {
    /// Runs it by `end`, and keeps no more than so many bytes of its output.
    async fn run(self, (host, caller): (&Host, &Caller), (end, bytes): (Instant, usize)) -> Told {
        let Self { mut call, call_id, tool, idempotency } = self;
        let arguments = std::mem::replace(&mut call.arguments, Ok(StrictJson::default()));
        let once = match arguments.and_then(|arguments| request(&tool, arguments)) {
            Ok(request) => {
                let once = host.executor.execute_once(caller.clone(), in_time(request, &tool, end), idempotency).await;
                once.map_err(|error| of_caller(error, &tool))
            }
            Err(error) => Err(error),
        };
        match once {
            Ok(Once { execution, .. }) => {
                let ran = Ran { call_id, execution_id: execution.id, status: execution.status };
                Told { call, said: Said::of(execution).within(bytes, &ran.whole()), ran: Some(ran) }
            }
            Err(error) => Told { call, said: Said::refused(&error), ran: None },
        }
    }
}

impl Ran {
    /// Where all of its output is.
    fn whole(&self) -> String {
        format!("the whole is GET /api/skills/executions/{}", self.execution_id)
    }
}

/// The request with no more time than is left.
fn in_time(request: ExecutionRequest, tool: &ToolRef, end: Instant) -> ExecutionRequest {
    let left = end.saturating_duration_since(Instant::now()).as_millis().max(1);
    let left = u64::try_from(left).unwrap_or(u64::MAX);
    if tool.skill.skill.limits.timeout_ms <= left {
        return request;
    }
    ExecutionRequest { limits: LimitsPatch { timeout_ms: Some(left), ..request.limits }, ..request }
}
