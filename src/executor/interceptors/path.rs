//! The steps of a run at which interceptors are asked. Where all of them answer at once, the run stays on the
//! thread that it is on; else a task waits for them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::executor::gathered::Gathered;
use crate::executor::queued::cancelled;
use crate::executor::running::{Parts, Ready, Running};
use crate::executor::{Admitted, Executor, check_args};
use crate::model::{Code, Error, Phase, RunError, SkillName, StrictJson};
use crate::sandbox::{SandboxCall, SandboxReply};

use super::asking::{Run, Unanswered, size};
use super::chain::{Entry, Way};
use super::contract::{Outcome, Trouble};
use super::interception::{Interception, Next, ask_after, ask_before, bounded, withhold};

/// From how many bytes on nobody is asked on a thread that others wait for.
const LONG: usize = 64 << 10;

/// The first attempt of a run.
pub(in crate::executor) enum Start {
    /// It can begin.
    Now(Result<Ready, Error>),
    /// Not before somebody has answered.
    Later(Result<Gathered, Error>),
}

/// What becomes of a run when all were asked before it.
enum Step {
    Go,
    /// Its arguments are others now, or something was added.
    Anew,
    End(Box<SandboxReply>),
}

impl Parts {
    /// Makes the first attempt ready, unless somebody has to be waited for.
    pub(in crate::executor) fn start(&self, gathered: Result<Gathered, Error>) -> Start {
        let waits = self.interception.as_ref().is_some_and(|interception| {
            let is_long = self.admitted.request.args.text().len() >= LONG;
            is_long || interception.waits(Phase::Before, self.skill_name())
        });
        if waits { Start::Later(gathered) } else { Start::Now(self.ready(gathered)) }
    }

    /// Gives a call what interceptors have to do with it.
    pub(in crate::executor) fn prepared(&self, mut call: SandboxCall) -> SandboxCall {
        if let Some(interception) = &self.interception {
            interception.prepare(&mut call, self.skill_name());
        }
        call
    }

    fn skill_name(&self) -> &SkillName {
        &self.admitted.skill.skill.name
    }

    fn whole(&self) -> Instant {
        self.admitted.started + Duration::from_millis(self.admitted.limits.timeout_ms)
    }

    /// Asks all before the run, at once.
    fn before(&mut self) -> Step {
        let Some(mut interception) = self.interception.take() else { return Step::Go };
        let chain = Arc::clone(&interception.chain);
        let mut step = Step::Go;
        for entry in &chain.before {
            let Way::Inline(native) = &entry.way else { continue };
            if !entry.is_for(self.skill_name()) {
                continue;
            }
            let begun = Instant::now();
            let about = (&*self.execution, self.admitted.request.args.text());
            let answered = ask_before(&**native, about, &mut interception.context);
            let next = interception.judge_before(entry, begun, answered);
            if let Err(over) = self.take_up(next, entry, &mut step) {
                step = Step::End(over);
                break;
            }
        }
        // What was made ready does not know what was added.
        if matches!(step, Step::Go) && !interception.context.is_empty() {
            step = Step::Anew;
        }
        self.interception = Some(interception);
        step
    }

    /// The same for those that must be waited for.
    async fn before_waiting(&mut self) -> Step {
        let Some(mut interception) = self.interception.take() else { return Step::Go };
        let chain = Arc::clone(&interception.chain);
        let mut step = Step::Go;
        for entry in &chain.before {
            if !entry.is_for(self.skill_name()) {
                continue;
            }
            let begun = Instant::now();
            let interceptors = Arc::clone(&self.executor.interceptors);
            let answered = interceptors.before(entry, &self.about(), &mut interception.context).await;
            let over = match answered {
                Ok(answered) => {
                    let next = interception.judge_before(entry, begun, answered);
                    self.take_up(next, entry, &mut step).err()
                }
                Err(unanswered) => {
                    let (trouble, error) = self.over(&unanswered, entry);
                    interception.unasked(entry, Phase::Before, begun, trouble);
                    Some(Box::new(SandboxReply::without_run(error)))
                }
            };
            if let Some(over) = over {
                step = Step::End(over);
                break;
            }
        }
        self.interception = Some(interception);
        step
    }

    /// Goes on as one of them said, or gives the reply that the run ends with.
    fn take_up(&mut self, next: Next, entry: &Entry, step: &mut Step) -> Result<(), Box<SandboxReply>> {
        match next {
            Next::Go => Ok(()),
            Next::End(reply) => Err(reply),
            Next::With(args) => {
                self.change_args(args, entry).map_err(|error| Box::new(SandboxReply::without_run(error)))?;
                *step = Step::Anew;
                Ok(())
            }
        }
    }

    /// Takes other arguments, if the skill takes them.
    fn change_args(&mut self, args: StrictJson, entry: &Entry) -> Result<(), RunError> {
        let Admitted { request, skill, function, limits, .. } = &mut self.admitted;
        request.args = args;
        let sandbox = self.executor.sandbox.as_ref();
        check_args(sandbox, request, (skill, *function), limits).map_err(|error| {
            let at = error.fields.first().map(|field| format!(" (at {:?})", field.pointer)).unwrap_or_default();
            let what = "changed the arguments to what cannot be run";
            RunError::new(Code::Rejected, format!("the interceptor `{}` {what}: {}{at}", entry.name, error.detail))
        })
    }

    fn about(&self) -> Run<'_> {
        Run {
            execution: &self.execution,
            args: self.admitted.request.args.text(),
            whole: self.whole(),
            cancel: &self.admitted.cancel,
            depth: self.admitted.line.depth(),
        }
    }

    /// Why a run is over while somebody is asked about it.
    fn over(&self, unanswered: &Unanswered, entry: &Entry) -> (Trouble, RunError) {
        match unanswered {
            Unanswered::Cancelled => (Trouble("cancelled"), cancelled()),
            Unanswered::Late => {
                let (ms, name) = (self.admitted.limits.timeout_ms, &entry.name);
                let message =
                    format!("the deadline of {ms} ms (limits.timeoutMs) came while the interceptor `{name}` was asked");
                (Trouble("deadline"), RunError::new(Code::Timeout, message))
            }
        }
    }

    /// Asks all after the run, at once.
    fn after(&mut self, mut reply: SandboxReply) -> SandboxReply {
        let Some(mut interception) = self.interception.take() else { return reply };
        let chain = Arc::clone(&interception.chain);
        let mut earlier = std::mem::take(&mut Arc::make_mut(&mut self.execution).earlier);
        for entry in chain.after.iter().filter(|entry| entry.is_for(self.skill_name())) {
            let Way::Inline(native) = &entry.way else { continue };
            let begun = Instant::now();
            let said = ask_after(
                &**native,
                &mut Outcome {
                    execution: &self.execution,
                    args: self.admitted.request.args.text(),
                    context: &interception.context,
                    reply: &mut reply,
                    earlier: &mut earlier,
                },
            );
            let limits = &self.admitted.limits;
            interception.judge_after(entry, begun, said, (&mut reply, &mut earlier, limits));
        }
        self.ended((interception, earlier), reply)
    }

    /// The same for those that must be waited for. They are not asked about a run that is over by its deadline or
    /// by somebody, and nothing of what its guest said is told.
    async fn after_waiting(&mut self, mut reply: SandboxReply) -> SandboxReply {
        let Some(mut interception) = self.interception.take() else { return reply };
        let chain = Arc::clone(&interception.chain);
        let mut earlier = std::mem::take(&mut Arc::make_mut(&mut self.execution).earlier);
        let mut is_over = false;
        for entry in &chain.after {
            if !entry.is_for(self.skill_name()) {
                continue;
            }
            let begun = Instant::now();
            let interceptors = Arc::clone(&self.executor.interceptors);
            let may_ask = matches!(entry.way, Way::Inline(_)) || !(is_over || self.is_over());
            let answered = if may_ask {
                let both = (&mut reply, &mut earlier);
                interceptors.after(entry, &self.about(), &interception.context, both).await
            } else {
                let was_cancelled = self.admitted.cancel.is_cancelled();
                Err(if was_cancelled { Unanswered::Cancelled } else { Unanswered::Late })
            };
            match answered {
                Ok(said) => {
                    let limits = &self.admitted.limits;
                    interception.judge_after(entry, begun, said, (&mut reply, &mut earlier, limits));
                }
                Err(unanswered) => {
                    let (trouble, error) = self.over(&unanswered, entry);
                    interception.unasked(entry, Phase::After, begun, trouble);
                    withhold(&mut reply, &mut earlier, error);
                    is_over = true;
                }
            }
        }
        self.ended((interception, earlier), reply)
    }

    fn is_over(&self) -> bool {
        self.admitted.cancel.is_cancelled() || Instant::now() >= self.whole()
    }

    /// Tells those who follow the run what was kept back, now that it may be told.
    fn ended(
        &mut self,
        (interception, earlier): (Box<Interception>, Vec<crate::model::EarlierAttempt>),
        reply: SandboxReply,
    ) -> SandboxReply {
        if interception.chain.may_change(self.skill_name()) {
            self.admitted.journal.release(&reply.streams, &reply.said);
        }
        self.interception = Some(interception);
        Arc::make_mut(&mut self.execution).earlier = earlier;
        bounded(reply, &self.admitted.limits)
    }
}

impl Running {
    /// Begins the guest, once everybody was asked who stands before it.
    pub(in crate::executor) fn enter(mut self, start: Start) {
        let Some(parts) = self.parts() else { return };
        let ready = match start {
            Start::Now(ready) if parts.interception.is_none() => return self.run(ready),
            Start::Now(ready) => ready,
            Start::Later(gathered) => return self.wait_before(gathered),
        };
        match parts.before() {
            Step::Go => self.run(ready),
            Step::End(reply) => self.end(Ok(*reply)),
            Step::Anew => self.start_anew(),
        }
    }

    /// Makes the attempt once more, with other arguments.
    fn start_anew(mut self) {
        let Some(parts) = self.parts() else { return };
        let home = parts.executor.home.clone();
        home.spawn(async move {
            let Some(parts) = self.parts() else { return };
            let gathered = Gathered::of(&parts.executor, &parts.admitted).await;
            let ready = parts.ready(gathered);
            self.run(ready);
        });
    }

    fn wait_before(mut self, gathered: Result<Gathered, Error>) {
        let Some(parts) = self.parts() else { return };
        let home = parts.executor.home.clone();
        home.spawn(async move {
            let Some(parts) = self.parts() else { return };
            match parts.before_waiting().await {
                Step::Go | Step::Anew => {
                    let ready = parts.ready(gathered);
                    self.run(ready);
                }
                Step::End(reply) => self.end(Ok(*reply)),
            }
        });
    }

    /// Asks everybody who stands behind the guest, and closes the record.
    pub(in crate::executor) fn leave(mut self, reply: SandboxReply) {
        let Some(parts) = self.parts() else { return };
        let waits = parts
            .interception
            .as_ref()
            .is_some_and(|interception| size(&reply) >= LONG || interception.waits(Phase::After, parts.skill_name()));
        if !waits {
            let reply = parts.after(reply);
            return self.finish(reply);
        }
        let home = parts.executor.home.clone();
        home.spawn(async move {
            let Some(parts) = self.parts() else { return };
            let reply = parts.after_waiting(reply).await;
            self.finish(reply);
        });
    }
}

impl Executor {
    /// What interceptors will do to a run; nothing where there are none.
    pub(in crate::executor) fn interception(&self, admitted: &Admitted) -> Option<Box<Interception>> {
        let called_by = admitted.line.called_by.as_ref();
        self.interceptors.around(admitted.caller.owner(), &admitted.skill.skill.name, called_by)
    }
}
