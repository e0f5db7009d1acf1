//! Asking interceptors that take waiting: on another thread, in the sandbox, over the network.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::executor::apart;
use crate::model::{Digest, EarlierAttempt, Execution, Fuel, Limits, Phase};
use crate::sandbox::{Ends, Journal, RunContext, SandboxCall, SandboxReply};
use crate::workspace::WorkspaceGrant;

use super::Interceptors;
use super::chain::{Entry, Way};
use super::contract::{Outcome, Trouble};
use super::interception::{Answered, ask_after, ask_before};
use super::told;
use super::verdict::{self, Verdict};
use super::webhook::{Message, Webhook};

/// What a component may use for one answer.
const LIMITS: Limits = Limits {
    memory_mb: 64,
    fuel: Fuel::Metered(2_000_000_000),
    output_bytes: super::webhook::MOST_ANSWER,
    ..Limits::DEFAULT
};

/// The run that somebody is asked about.
pub(super) struct Run<'a> {
    pub(super) execution: &'a Arc<Execution>,
    pub(super) args: &'a str,
    /// When it is over whatever anybody answers.
    pub(super) whole: Instant,
    pub(super) cancel: &'a CancellationToken,
    /// How many runs wait for it.
    pub(super) depth: usize,
}

/// Why nobody answered for one that was asked.
pub(super) enum Unanswered {
    /// The run's deadline came.
    Late,
    /// Somebody cancelled the run.
    Cancelled,
}

impl Interceptors {
    /// Asks before a run, for as long as the interceptor and the run have.
    pub(super) async fn before(
        &self,
        entry: &Entry,
        run: &Run<'_>,
        context: &mut Map<String, Value>,
    ) -> Result<Answered, Unanswered> {
        let until = run.whole.min(Instant::now() + entry.timeout);
        let native = match &entry.way {
            Way::Inline(native) => {
                return Ok(apart(run.args.len(), || ask_before(&**native, (run.execution, run.args), context)));
            }
            Way::Waiting(native) => Some(Arc::clone(native)),
            _ => None,
        };
        let ask = async {
            let Some(native) = native else {
                let event = told::before(run.execution, run.args, context, self.post.clock.now_ms());
                return verdict::read(&self.ask(entry, Phase::Before, (event, until), run).await?, Phase::Before);
            };
            let (execution, args, mut added) = (Arc::clone(run.execution), run.args.to_owned(), context.clone());
            let work = move || ask_before(&*native, (&execution, &args), &mut added).map(|(said, _)| (said, added));
            tokio::task::spawn_blocking(work).await.map_err(|_| Trouble::PANIC)?
        };
        in_time(ask, (until, run)).await
    }

    /// Asks after a run.
    pub(super) async fn after(
        &self,
        entry: &Entry,
        run: &Run<'_>,
        context: &Map<String, Value>,
        (reply, earlier): (&mut SandboxReply, &mut Vec<EarlierAttempt>),
    ) -> Result<Result<Verdict, Trouble>, Unanswered> {
        let until = run.whole.min(Instant::now() + entry.timeout);
        let native = match &entry.way {
            Way::Inline(native) => {
                let mut outcome = Outcome { execution: run.execution, args: run.args, context, reply, earlier };
                let bytes = size(outcome.reply);
                return Ok(apart(bytes, || ask_after(&**native, &mut outcome)));
            }
            Way::Waiting(native) => Arc::clone(native),
            _ => {
                let now = self.post.clock.now_ms();
                let event = told::after(run.execution, run.args, context, (reply, earlier, now));
                let ask = async {
                    let text = self.ask(entry, Phase::After, (event, until), run).await?;
                    verdict::read(&text, Phase::After).map(|(verdict, _)| verdict)
                };
                return in_time(ask, (until, run)).await;
            }
        };
        // Of its own, because the thread may go on with it when nobody waits any more.
        let (mut its_reply, mut its_earlier) = (reply.clone(), earlier.clone());
        let (execution, args, context) = (Arc::clone(run.execution), run.args.to_owned(), context.clone());
        let work = move || {
            let (execution, args, context) = (&*execution, args.as_str(), &context);
            let (reply, earlier) = (&mut its_reply, &mut its_earlier);
            let said = ask_after(&*native, &mut Outcome { execution, args, context, reply, earlier });
            (said, its_reply, its_earlier)
        };
        let ask = async { tokio::task::spawn_blocking(work).await.map_err(|_| Trouble::PANIC) };
        let (said, new_reply, new_earlier) = match in_time(ask, (until, run)).await? {
            Ok(done) => done,
            Err(trouble) => return Ok(Err(trouble)),
        };
        (*reply, *earlier) = (new_reply, new_earlier);
        Ok(said)
    }

    /// The text that somebody outside of this program answers.
    async fn ask(
        &self,
        entry: &Entry,
        phase: Phase,
        (event, until): (String, Instant),
        run: &Run<'_>,
    ) -> Result<String, Trouble> {
        match &entry.way {
            Way::Wasm(digest) => self.ask_component(entry, *digest, (phase, event, until), run).await,
            Way::Webhook(hook) => self.ask_webhook(hook, (phase, event, until), run).await,
            Way::Inline(_) | Way::Waiting(_) | Way::Told(_) => Err(Trouble::FAILED),
        }
    }

    async fn ask_webhook(
        &self,
        hook: &Webhook,
        (phase, event, until): (Phase, String, Instant),
        run: &Run<'_>,
    ) -> Result<String, Trouble> {
        let id = format!("msg_{}_{}_{phase}", run.execution.id, hook.id);
        // One owner's runs must not use up what others' need to ask the same webhook.
        let hook = (hook, &run.execution.owner);
        let answer = self.post.ask(hook, &Message { id, body: event.into() }, until).await?;
        String::from_utf8(answer.into()).map_err(|_| Trouble::INVALID_ANSWER)
    }

    async fn ask_component(
        &self,
        entry: &Entry,
        digest: Digest,
        (phase, event, until): (Phase, String, Instant),
        run: &Run<'_>,
    ) -> Result<String, Trouble> {
        let call = self.call(entry, (digest, phase), (&event, until), run);
        let ready = self.sandbox.ready(call).map_err(|error| {
            tracing::warn!(interceptor.name = %entry.name, error.code = %error.code, "A component cannot be asked: {error:?}");
            Trouble::UNAVAILABLE
        })?;
        let (ended, reply) = oneshot::channel();
        ready.begin(Box::new(move |reply| drop(ended.send(reply))));
        let reply = reply.await.ok().and_then(Result::ok).ok_or(Trouble::UNAVAILABLE)?;
        match reply.outcome {
            Ok(text) => serde_json::from_str(text.get()).map_err(|_| Trouble::INVALID_ANSWER),
            Err(error) => Err(Trouble(error.code.as_str())),
        }
    }

    fn call(
        &self,
        entry: &Entry,
        (digest, phase): (Digest, Phase),
        (event, until): (&str, Instant),
        run: &Run<'_>,
    ) -> SandboxCall {
        let left = until.saturating_duration_since(Instant::now());
        let left_ms = i64::try_from(left.as_millis()).unwrap_or(i64::MAX / 2);
        let context = RunContext {
            execution: run.execution.id,
            skill: format!("{}@0.0.0", entry.name).into(),
            skill_owner: entry.owner.clone(),
            // On the account of whose run it is: one owner's runs must not use up what others' need to ask.
            owner: run.execution.owner.clone(),
            session: None,
            attempt: 1,
            deadline_ms: self.post.clock.now_ms().saturating_add(left_ms),
            journal: Arc::new(Journal::default()),
            added: None,
        };
        SandboxCall {
            digest,
            function: phase.as_str().into(),
            args: json!({ "event": event }).to_string(),
            limits: Limits { timeout_ms: left_ms.unsigned_abs().max(1), ..LIMITS },
            deadline: until,
            ends: Ends::Whole,
            cancel: run.cancel.child_token(),
            context: Arc::new(context),
            network: Arc::default(),
            workspace: WorkspaceGrant::default(),
            workspaces: None,
            credentials: Arc::default(),
            powers: None,
            depth: run.depth,
            reuse: None,
        }
    }
}

/// Waits for an answer for as long as there is a run to answer about.
async fn in_time<T>(
    ask: impl Future<Output = Result<T, Trouble>>,
    (until, run): (Instant, &Run<'_>),
) -> Result<Result<T, Trouble>, Unanswered> {
    // A component ends itself at its deadline, and says more exactly why.
    const GRACE: Duration = Duration::from_millis(50);
    let answered = tokio::select! {
        biased;
        () = run.cancel.cancelled() => return Err(Unanswered::Cancelled),
        answered = tokio::time::timeout_at((until + GRACE).into(), ask) => answered,
    };
    match answered {
        Ok(Ok(answer)) if Instant::now() < run.whole => Ok(Ok(answer)),
        Ok(Err(trouble)) if Instant::now() < run.whole => Ok(Err(trouble)),
        Err(_) if Instant::now() < run.whole => Ok(Err(Trouble::TIMEOUT)),
        _ => Err(Unanswered::Late),
    }
}

/// About how much there is to look through.
pub(super) fn size(reply: &SandboxReply) -> usize {
    let output = reply.outcome.as_ref().map_or_else(|error| error.message.len(), |output| output.get().len());
    let log: usize = reply.said.log.iter().map(|line| line.message.len()).sum();
    output + reply.streams.stdout.len() + reply.streams.stderr.len() + log
}
