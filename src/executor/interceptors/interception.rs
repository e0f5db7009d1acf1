//! What interceptors do to one run: their verdicts, one after the other, and what is noted of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::model::{
    Code, Decision, DecisionAction, Digest, EarlierAttempt, Execution, InterceptorId, Limits, Phase, RunError, Said,
    SkillName, Streams, StrictJson,
};
use crate::sandbox::{SandboxCall, SandboxReply};

use super::chain::{Chain, Entry, Way};
use super::contract::{After, Asked, Before, Interceptor, Outcome, Trouble, failed, rejected};
use super::verdict::{MAX_CONTEXT, Verdict};

/// What stands in place of a text that nobody may see.
const WITHHELD: &str = "withheld";

/// What an interceptor said, and what it adds.
pub(super) type Answered = Result<(Verdict, Map<String, Value>), Trouble>;

/// What interceptors do to one run.
pub(in crate::executor) struct Interception {
    pub(super) chain: Arc<Chain>,
    pub(super) context: Map<String, Value>,
    decisions: Vec<Decision>,
}

/// What becomes of a run that an interceptor was asked about.
pub(super) enum Next {
    /// It goes on.
    Go,
    /// It goes on with other arguments.
    With(StrictJson),
    /// It is over.
    End(Box<SandboxReply>),
}

impl Interception {
    pub(super) fn new(chain: Arc<Chain>) -> Self {
        Self { chain, context: Map::new(), decisions: Vec::new() }
    }

    /// Whether asking takes waiting.
    pub(super) fn waits(&self, phase: Phase, skill: &SkillName) -> bool {
        self.chain.waits(phase, skill)
    }

    /// Gives a call what was added, and keeps back what it says where that may be changed.
    pub(super) fn prepare(&self, call: &mut SandboxCall, skill: &SkillName) {
        if self.chain.may_change(skill) {
            call.context.journal.withhold();
        }
        if !self.context.is_empty()
            && let Some(context) = Arc::get_mut(&mut call.context)
        {
            context.added = serde_json::to_string(&self.context).ok().map(Into::into);
        }
    }

    /// Writes what was decided into the execution; gives the webhooks that are told of its end.
    pub(in crate::executor) fn settle(self, execution: &mut Execution, skill: &SkillName) -> Vec<InterceptorId> {
        execution.interceptors = self.decisions;
        self.chain.told(skill)
    }

    /// Takes the answer of one that was asked before the run.
    pub(super) fn judge_before(&mut self, entry: &Entry, begun: Instant, answered: Answered) -> Next {
        let verdict = answered.and_then(|(verdict, added)| {
            self.add(added)?;
            Ok(verdict)
        });
        let (action, next, problem, args) = match verdict {
            Ok(Verdict::Continue) => (DecisionAction::Continue, Next::Go, None, None),
            Ok(Verdict::Args(args)) => {
                let digest = Digest::of(args.text().as_bytes());
                (DecisionAction::Replace, Next::With(args), None, Some(digest))
            }
            Ok(Verdict::Answer(output)) => {
                let nothing = SandboxReply::without_run(RunError::new(Code::Internal, ""));
                let reply = SandboxReply { outcome: Ok(output), ..nothing };
                (DecisionAction::Answer, Next::End(Box::new(reply)), None, None)
            }
            Ok(Verdict::Reject(reason)) => {
                let reply = SandboxReply::without_run(rejected(entry.name.as_str(), &reason));
                (DecisionAction::Reject, Next::End(Box::new(reply)), None, None)
            }
            Ok(Verdict::Changes(_) | Verdict::Changed) => {
                return self.fail_before(entry, begun, Trouble::INVALID_ANSWER);
            }
            Err(trouble) => return self.fail_before(entry, begun, trouble),
        };
        self.note((entry, Phase::Before), begun, (action, problem, args));
        next
    }

    fn fail_before(&mut self, entry: &Entry, begun: Instant, trouble: Trouble) -> Next {
        log_failure(entry, Phase::Before, trouble);
        let (action, next) = if entry.optional {
            (DecisionAction::Skipped, Next::Go)
        } else {
            let error = failed(entry.name.as_str(), Phase::Before, trouble);
            (DecisionAction::Failed, Next::End(Box::new(SandboxReply::without_run(error))))
        };
        self.note((entry, Phase::Before), begun, (action, Some(trouble), None));
        next
    }

    /// Takes the answer of one that was asked after the run.
    pub(super) fn judge_after(
        &mut self,
        entry: &Entry,
        begun: Instant,
        answered: Result<Verdict, Trouble>,
        (reply, earlier, limits): (&mut SandboxReply, &mut [EarlierAttempt], &Limits),
    ) {
        let made = answered.and_then(|verdict| match verdict {
            Verdict::Continue => Ok(DecisionAction::Continue),
            Verdict::Changed => Ok(DecisionAction::Replace),
            Verdict::Changes(changes) => {
                changes.make(reply, limits)?;
                // It has seen these words, and has no way to change them.
                earlier.iter_mut().for_each(|attempt| WITHHELD.clone_into(&mut attempt.message));
                Ok(DecisionAction::Replace)
            }
            Verdict::Reject(reason) => {
                withhold(reply, earlier, rejected(entry.name.as_str(), &reason));
                Ok(DecisionAction::Reject)
            }
            Verdict::Args(_) | Verdict::Answer(_) => Err(Trouble::INVALID_ANSWER),
        });
        let (action, trouble) = match made {
            Ok(action) => (action, None),
            Err(trouble) => {
                log_failure(entry, Phase::After, trouble);
                if !entry.optional {
                    withhold(reply, earlier, failed(entry.name.as_str(), Phase::After, trouble));
                }
                (if entry.optional { DecisionAction::Skipped } else { DecisionAction::Failed }, Some(trouble))
            }
        };
        self.note((entry, Phase::After), begun, (action, trouble, None));
    }

    /// Notes one that could not be asked any more, with what the run ended by meanwhile.
    pub(super) fn unasked(&mut self, entry: &Entry, phase: Phase, begun: Instant, ended_by: Trouble) {
        self.note((entry, phase), begun, (DecisionAction::Skipped, Some(ended_by), None));
    }

    fn add(&mut self, added: Map<String, Value>) -> Result<(), Trouble> {
        if added.is_empty() {
            return Ok(());
        }
        self.context.extend(added);
        let bytes = serde_json::to_string(&self.context).map_or(usize::MAX, |text| text.len());
        if bytes > MAX_CONTEXT { Err(Trouble::INVALID_ANSWER) } else { Ok(()) }
    }

    fn note(
        &mut self,
        (entry, phase): (&Entry, Phase),
        begun: Instant,
        (action, problem, args_digest): (DecisionAction, Option<Trouble>, Option<Digest>),
    ) {
        // Three that change nothing are asked in a millionth of a second; writing that down takes longer.
        if action == DecisionAction::Continue && matches!(entry.way, Way::Inline(_)) {
            return;
        }
        let duration_ms = (begun.elapsed().as_secs_f64() * 1e6).round() / 1e3;
        let problem = problem.map(|trouble| trouble.0.to_owned());
        let (name, global) = (entry.name.clone(), entry.global);
        self.decisions.push(Decision { name, global, phase, action, duration_ms, problem, args_digest });
    }
}

/// Asks one in this process before a run.
pub(super) fn ask_before(
    native: &dyn Interceptor,
    (execution, args): (&Execution, &str),
    context: &mut Map<String, Value>,
) -> Answered {
    let asked = catch_unwind(AssertUnwindSafe(|| native.before(&mut Asked { execution, args, context })));
    let verdict = match asked.map_err(|_| Trouble::PANIC)? {
        Before::Continue => Verdict::Continue,
        Before::Replace(args) => Verdict::Args(args),
        Before::Answer(output) => {
            Verdict::Answer(RawValue::from_string(output.text().to_owned()).map_err(|_| Trouble::INVALID_ANSWER)?)
        }
        Before::Reject(reason) => Verdict::Reject(reason),
        Before::Fail => return Err(Trouble::FAILED),
    };
    Ok((verdict, Map::new()))
}

/// Asks one in this process after a run.
pub(super) fn ask_after(native: &dyn Interceptor, outcome: &mut Outcome<'_>) -> Result<Verdict, Trouble> {
    let asked = catch_unwind(AssertUnwindSafe(|| native.after(outcome)));
    match asked.map_err(|_| Trouble::PANIC)? {
        After::Pass => Ok(Verdict::Continue),
        After::Changed => Ok(Verdict::Changed),
        After::Reject(reason) => Ok(Verdict::Reject(reason)),
        After::Fail => Err(Trouble::FAILED),
    }
}

/// Leaves nothing of what a guest said. A run that had failed keeps its code, and the words for it that are the
/// host's own.
pub(super) fn withhold(reply: &mut SandboxReply, earlier: &mut [EarlierAttempt], error: RunError) {
    let guests = |code| matches!(code, Code::SkillError | Code::Trap | Code::ExitNonzero | Code::InvalidOutput);
    let error = match &reply.outcome {
        Err(old) if guests(old.code) => RunError::new(old.code, error.message),
        Err(old) => RunError::new(old.code, old.message.clone()),
        Ok(_) => error,
    };
    reply.outcome = Err(error);
    reply.streams = Streams::default();
    reply.said = Said::default();
    reply.denials.iter_mut().for_each(|denial| WITHHELD.clone_into(&mut denial.asked));
    earlier.iter_mut().for_each(|attempt| WITHHELD.clone_into(&mut attempt.message));
}

/// The reply, unless its output is longer than it may be.
pub(super) fn bounded(mut reply: SandboxReply, limits: &Limits) -> SandboxReply {
    let bytes = reply.outcome.as_ref().map_or(0, |output| output.get().len() as u64);
    if bytes > limits.output_bytes {
        let message = format!("the output has {bytes} bytes; limits.outputBytes is {}", limits.output_bytes);
        reply.outcome = Err(RunError::new(Code::OutputTooLarge, message));
    }
    reply
}

fn log_failure(entry: &Entry, phase: Phase, trouble: Trouble) {
    tracing::warn!(
        interceptor.name = %entry.name, interceptor.owner = %entry.owner, interceptor.phase = phase.as_str(),
        interceptor.optional = entry.optional, problem = trouble.0,
        "An interceptor gave no answer that can be used",
    );
}
