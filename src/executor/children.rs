//! Skills that a run calls: each is a run of its own, with a record of its own.
//!
//! A caller that waits keeps its place among those that run, and its child runs in that place: a
//! child never waits for one, so that callers cannot wait for each other.

use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::model::{
    Access, Code, Error, ExecutionId, ExecutionRequest, Fuel, Layer, Limits, NetworkRule, OwnerId, Parties, Pin,
    RetryPatch, RunError, SkillId, SkillRef, StrictJson,
};
use crate::registry::RegisteredSkill;
use crate::sandbox::{BoxFuture, ChildCall, ChildReply, Children, MAX_CALL_DEPTH};

use super::powers::Held;
use super::running::Ended;
use super::{Admitted, apart, check_args};

/// What a run inherits from those that wait for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    /// The run that called it.
    pub(super) parent: Option<ExecutionId>,
    /// Whose skill that runs.
    pub(super) called_by: Option<OwnerId>,
    /// The skills that wait, the first caller first.
    skills: Vec<SkillId>,
    /// The largest limits under the ceilings of all of them.
    limits: Option<Limits>,
    /// Where each of them might connect to at most.
    pub(super) network: Vec<Vec<NetworkRule>>,
    /// How far all of them might go in the workspace, and which secrets each might use at most.
    pub(super) workspace: Option<Access>,
    pub(super) secrets: Vec<Option<Vec<String>>>,
    /// Which skills each of them might call at most.
    ceilings: Vec<Option<Vec<String>>>,
}

impl Line {
    /// How many wait.
    pub(super) fn depth(&self) -> usize {
        self.skills.len()
    }

    /// The same for what `skill`, which runs as `execution`, calls.
    fn below(&self, skill: &RegisteredSkill, execution: ExecutionId) -> Self {
        let skill = &skill.skill;
        let mut line = self.clone();
        line.parent = Some(execution);
        line.called_by = Some(skill.owner.clone());
        line.skills.push(skill.id);
        line.limits = Some(line.limits.map_or(skill.frozen_limits, |limits| limits.intersect(skill.frozen_limits)));
        line.network.push(skill.frozen_network.clone());
        line.workspace = Some(line.workspace.map_or(skill.frozen_workspace, |most| most.min(skill.frozen_workspace)));
        line.secrets.push(skill.frozen_secrets.clone());
        line.ceilings.push(skill.frozen_skills.clone());
        line
    }
}

/// Why a call did not become a run, and what would have allowed it.
struct Refusal {
    error: RunError,
    missing: Option<Box<(String, String)>>,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        if error.source.is_some() {
            tracing::error!("A skill could not be called: {error:?}");
        }
        Self { error: RunError::new(error.code, error.detail), missing: None }
    }
}

impl Refusal {
    fn denied(why: impl Into<String>, missing: Option<(String, String)>) -> Self {
        Self { error: RunError::new(Code::Denied, why), missing: missing.map(Box::new) }
    }
}

impl Children for Held {
    fn call(self: Arc<Self>, call: ChildCall) -> BoxFuture<'static, ChildReply> {
        Box::pin(async move {
            let left = self.cancel.child_token();
            // Who stops waiting cancels the run; its record is closed all the same.
            let _leaving = left.clone().drop_guard();
            let executor = Arc::clone(&self.executor);
            let work = executor.runs.track_future(async move { self.run(&call, left).await });
            executor.home.spawn(work).await.unwrap_or_else(|error| {
                let error = Error::internal(error);
                reply(Err(RunError::new(error.code, error.detail)), 0, None)
            })
        })
    }
}

impl Held {
    async fn run(&self, call: &ChildCall, left: CancellationToken) -> ChildReply {
        let admitted = match self.admit(call, left).await {
            Ok(admitted) => admitted,
            Err(refusal) => return reply(Err(refusal.error), 0, refusal.missing.map(|missing| *missing)),
        };
        match self.executor.begin(admitted, None).await.and_then(Ended::into_execution) {
            Ok(execution) => {
                let none = || RunError::new(Code::Internal, "the run has neither an output nor an error");
                let error = execution.error;
                let outcome = execution.output.ok_or_else(|| error.unwrap_or_else(none));
                reply(outcome, execution.usage.fuel, None)
            }
            // Its record may not be whole: what it used is not known.
            Err(error) => {
                let fuel = call.fuel.units().unwrap_or_default();
                reply(Err(RunError::new(error.code, error.detail)), fuel, None)
            }
        }
    }

    /// Everything that can refuse a call before it is a run.
    async fn admit(&self, call: &ChildCall, cancel: CancellationToken) -> Result<Admitted, Refusal> {
        let started = Instant::now();
        let (name, function) = match call.skill.split_once('#') {
            Some((name, function)) => (name, Some(function)),
            None => (call.skill.as_str(), None),
        };
        if self.executor.access.live(&self.caller.key.id).is_none() {
            return Err(Refusal::denied("the calling key was revoked or has expired", None));
        }
        let pin = self.pin(name)?;
        let line = self.line.below(&self.skill, self.execution);
        self.require_line(pin, &line)?;
        let skill = self.executor.registry.pinned(pin.id).ok_or_else(|| gone(pin))?;
        let function_at = skill.function(function)?;
        skill.skill.handler.require_allowed(&self.caller.key)?;
        let left = call.deadline.saturating_duration_since(started);
        let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        if left_ms == 0 {
            return Err(Error::new(Code::Timeout, "the deadline of the caller has come").into());
        }
        let mut limits = self.limits(&skill, &line, (call.fuel, left_ms));
        let skill = self.executor.registry.runnable(skill, call.deadline).await?;
        self.executor.registry.ready_under(&limits, &skill, call.deadline).await?;
        let share = self.executor.allowed(&self.caller.key, &mut limits, true)?;
        let reference = match function {
            Some(function) => SkillRef::FunctionOf(pin.id, function.to_owned()),
            None => SkillRef::Id(pin.id),
        };
        let request = ExecutionRequest {
            session_id: self.session.clone(),
            // Tried once: each attempt would have all the fuel that its caller has left.
            retry: RetryPatch { max_retries: Some(0), ..RetryPatch::default() },
            offline: self.offline,
            read_only: self.read_only,
            ..ExecutionRequest::new(reference, StrictJson::parse(&call.args)?)
        };
        let sandbox = &*self.executor.sandbox;
        apart(call.args.len(), || check_args(sandbox, &request, (&skill, function_at), &limits))?;
        let caller = self.caller.clone();
        Ok(Admitted {
            caller,
            request,
            skill,
            function: function_at,
            limits,
            started,
            queue_ms: 0.0,
            cancel,
            line,
            share,
            journal: Arc::default(),
            place: None,
        })
    }

    /// The granted skill of this name, if every layer allows it.
    fn pin(&self, name: &str) -> Result<&Pin, Refusal> {
        let skill = &self.skill.skill;
        let Some(pin) = skill.pinned.iter().find(|pin| pin.is_called(name)) else {
            let name = crate::model::quotable(name);
            let fix = format!("add \"{name}\" to grants.skills in the manifest and push it as a new version");
            return Err(Refusal::denied("this skill was not granted", Some((format!("skills: {name}"), fix))));
        };
        let (name, key) = (&pin.name, &self.caller.key);
        if let Some(layer) = self.denier(pin) {
            let why = match layer {
                Layer::Registrar => "the key that registered the skill does not allow it",
                Layer::Parent => "the key that registered a calling skill does not allow it",
                _ => "the calling key does not allow it",
            };
            let flag = format!("--call {name}");
            let parties = Parties { skill: &self.skill.address, skill_owner: &skill.owner, owner: &key.owner };
            return Err(Refusal::denied(why, layer.wider_key("skills", (name.as_str(), &flag), &parties)));
        }
        if !key.may_see(name) {
            let (owner, own) = (&key.owner, &skill.name);
            let fix = format!(
                "skillvisor keys create {own} --owner {owner} --skill {own} --skill {name} --call {name}  # and call with that key"
            );
            let missing = Some((format!("skills of the calling key: {name}"), fix));
            return Err(Refusal::denied("the calling key may not see this skill", missing));
        }
        Ok(pin)
    }

    /// The first whose ceilings do not allow it.
    fn denier(&self, pin: &Pin) -> Option<Layer> {
        let (own, caller) = (&self.skill.skill.frozen_skills, self.caller.key.max_skills());
        let layers = [(own, Layer::Registrar)].into_iter();
        let layers = layers.chain(self.line.ceilings.iter().map(|ceilings| (ceilings, Layer::Parent)));
        let mut layers = layers.chain([(&caller, Layer::Caller)]);
        layers.find_map(|(ceilings, layer)| (!pin.is_within(ceilings.as_deref())).then_some(layer))
    }

    /// Refuses what would go too deep, or in a circle.
    fn require_line(&self, pin: &Pin, line: &Line) -> Result<(), Refusal> {
        if line.skills.contains(&pin.id) {
            let why = format!("{}@{} waits for this call already", pin.name, pin.version);
            return Err(Refusal::denied(why, None));
        }
        if line.depth() > MAX_CALL_DEPTH as usize {
            return Err(Refusal::denied(format!("skills call each other {MAX_CALL_DEPTH} deep at most"), None));
        }
        Ok(())
    }

    /// Its own limits, under every ceiling and under what the caller has left.
    fn limits(&self, skill: &RegisteredSkill, line: &Line, (fuel, left_ms): (Fuel, u64)) -> Limits {
        let skill = &skill.skill;
        let own = skill.limits.intersect(skill.frozen_limits).intersect(self.caller.key.max_limits());
        let own = line.limits.map_or(own, |limits| own.intersect(limits));
        own.intersect(Limits { fuel, timeout_ms: left_ms, ..own })
    }
}

fn gone(pin: &Pin) -> Error {
    let detail =
        format!("{}@{} is no longer there; push a new version of the skill that calls it", pin.name, pin.version);
    Error::new(Code::NotFound, detail)
}

fn reply(
    outcome: Result<Box<serde_json::value::RawValue>, RunError>,
    fuel: u64,
    missing: Option<(String, String)>,
) -> ChildReply {
    ChildReply { outcome, fuel, missing }
}
