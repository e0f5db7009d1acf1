//! How long fresh instances take on this machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::model::{Digest, Error, ExecutionId, Limits, OwnerId};
use crate::sandbox::{Ends, Journal, RunContext, SandboxCall};
use crate::workspace::WorkspaceGrant;

use super::WasmSandbox;

/// Median times of one call, each in a fresh instance, without any hand-over between threads.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Freshness {
    /// From nothing to an instance and back to nothing, in microseconds.
    pub instance_us: f64,
    /// The same with one call in between, in microseconds.
    pub call_us: f64,
    /// How used instances are wiped.
    pub reset: String,
}

impl WasmSandbox {
    /// Times `rounds` fresh instances of what is prepared as `call.digest`.
    ///
    /// # Errors
    ///
    /// As a run.
    pub async fn freshness(&self, call: SandboxCall, rounds: usize) -> Result<Freshness, Error> {
        let (tier, loaded) = self.tiers.find(call.digest, false)?;
        let instance_us = tier.guests.time(Arc::clone(&loaded), call.clone(), rounds, false).await?;
        let call_us = tier.guests.time(loaded, call, rounds, true).await?;
        Ok(Freshness { instance_us, call_us, reset: self.reset.to_string() })
    }
}

impl SandboxCall {
    /// A call of `digest` that belongs to no execution.
    pub fn detached(digest: Digest, args: &str) -> Self {
        let context = RunContext {
            execution: ExecutionId::generate(),
            skill: "probe@0.0.0".into(),
            skill_owner: OwnerId::system(),
            owner: OwnerId::system(),
            session: None,
            attempt: 1,
            deadline_ms: 0,
            journal: Arc::new(Journal::default()),
            added: None,
        };
        Self {
            digest,
            function: "run".into(),
            args: args.to_owned(),
            limits: Limits::DEFAULT,
            deadline: Instant::now() + Duration::from_secs(60),
            ends: Ends::Whole,
            cancel: CancellationToken::new(),
            context: Arc::new(context),
            network: Arc::default(),
            workspace: WorkspaceGrant::default(),
            workspaces: None,
            credentials: Arc::default(),
            powers: None,
            depth: 0,
            reuse: None,
        }
    }
}
