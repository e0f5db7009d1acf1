//! Which engine there is: asked once, remembered, and asked again after a failure.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::model::{Code, ContainerPolicy, EngineChoice, Error};

use super::client::{Client, Kind, NoAnswer};

/// How long an engine that was not there is not asked for again.
const AGAIN: Duration = Duration::from_secs(2);
/// What to do where there is none.
const FIX: &str = "install Podman or Docker, or start its daemon (setting containers.engine); `skillvisor doctor` \
                   says what is there";

/// An engine that answered.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) client: Client,
    pub(super) version: String,
}

/// The engine of this host.
#[derive(Debug)]
pub(super) struct Engines {
    policy: ContainerPolicy,
    known: Mutex<Option<Known>>,
    /// One asks, the others wait for what it hears.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Clone, Debug)]
enum Known {
    Found(Arc<Engine>),
    /// Why there is none, and when that was heard.
    Missing(String, Instant),
}

impl Engines {
    pub(super) fn new(policy: ContainerPolicy) -> Self {
        Self { policy, known: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// The engine.
    ///
    /// # Errors
    ///
    /// `unavailable`, with the reason and what to do.
    pub(super) async fn get(&self) -> Result<Arc<Engine>, Error> {
        if let Some(known) = self.remembered() {
            return known;
        }
        let _turn = self.turn.lock().await;
        if let Some(known) = self.remembered() {
            return known;
        }
        let found = self.look().await;
        let (known, answer) = match found {
            Ok(engine) => {
                let engine = Arc::new(engine);
                let name = engine.client.kind.program();
                tracing::info!(engine = name, version = engine.version, "Containers run in {name} {}", engine.version);
                (Known::Found(Arc::clone(&engine)), Ok(engine))
            }
            Err(why) => (Known::Missing(why.clone(), Instant::now()), Err(missing(&why))),
        };
        *self.known.lock() = Some(known);
        answer
    }

    fn remembered(&self) -> Option<Result<Arc<Engine>, Error>> {
        match &*self.known.lock() {
            Some(Known::Found(engine)) => Some(Ok(Arc::clone(engine))),
            Some(Known::Missing(why, at)) if at.elapsed() < AGAIN => Some(Err(missing(why))),
            _ => None,
        }
    }

    /// Something went wrong with it: whoever needs it next asks whether it is still there.
    pub(super) fn doubt(&self) {
        *self.known.lock() = None;
    }

    /// The clients of all engines that this host may use, in the order in which they are asked.
    pub(super) fn candidates(&self) -> Vec<Client> {
        let kinds: &[Kind] = match self.policy.engine {
            EngineChoice::Auto => &[Kind::Podman, Kind::Docker],
            EngineChoice::Podman => &[Kind::Podman],
            EngineChoice::Docker => &[Kind::Docker],
            EngineChoice::None => &[],
        };
        kinds.iter().map(|kind| Client::new(*kind, self.policy.runtime.clone())).collect()
    }

    async fn look(&self) -> Result<Engine, String> {
        if self.policy.engine == EngineChoice::None {
            return Err("the operator turned containers off (containers.engine = none)".to_owned());
        }
        let mut reasons = Vec::new();
        for client in self.candidates() {
            match client.version().await {
                Ok(version) => return Ok(Engine { client, version }),
                Err(why) => {
                    if let NoAnswer::Refused(text) = &why {
                        tracing::warn!(engine = client.kind.program(), "A container engine does not work: {text}");
                    }
                    reasons.push(why.error(client.kind).detail);
                }
            }
        }
        Err(reasons.join(", and "))
    }
}

fn missing(why: &str) -> Error {
    let fix = if why.contains("containers.engine") { "set it to auto, podman or docker" } else { FIX };
    Error::new(Code::Unavailable, format!("there is no container engine: {why}; {fix}")).retry_after(10)
}
