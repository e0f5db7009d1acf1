//! Following a run while it goes on (SPEC §5, events).

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::DropGuard;

use crate::model::{Caller, Error, Execution, ExecutionId, ExecutionRequest, Heard, Idempotency, Scope};
use crate::sandbox::Reader;
use crate::store::{Claim, Claimed};

use super::Executor;
use super::gathered::Gathered;
use super::running::{Ended, Running};

/// What one who follows a run is told.
#[derive(Debug)]
pub enum Told {
    /// What it says.
    Heard(Heard),
    /// How it ended. It is the last word.
    End(Box<Execution>),
}

/// One who follows a run. Dropping it ends the run, if it was begun for it alone.
pub struct Following {
    executor: Arc<Executor>,
    caller: Caller,
    id: ExecutionId,
    reader: Option<Reader>,
    /// How it ended, where that is known.
    ended: Option<Execution>,
    is_over: bool,
    /// Whose run it is alone.
    guard: Option<DropGuard>,
}

/// A run that was begun to be followed.
pub struct Streamed {
    /// Its id.
    pub id: ExecutionId,
    /// Whether an earlier request began it.
    pub replayed: bool,
    /// What it says, and how it ends.
    pub following: Following,
}

impl Following {
    /// What comes next; nothing when it is over. A run that waited when the host stopped, and one
    /// whose end could not be written down, is over without an end.
    pub async fn next(&mut self) -> Option<Told> {
        if let Some(reader) = &mut self.reader {
            if let Some(heard) = reader.next().await {
                return Some(Told::Heard(heard));
            }
            self.reader = None;
        }
        if self.is_over {
            return None;
        }
        let ended = match self.ended.take() {
            Some(ended) => ended,
            None => self.executor.get(&self.caller, self.id).await.ok()?,
        };
        // Not before: who waits for this may stop in between, and ask again.
        self.is_over = true;
        drop(self.guard.take());
        ended.status.is_final().then(|| Told::End(Box::new(ended)))
    }

    /// What was said already and can be told without waiting.
    pub fn ready(&mut self) -> Option<Heard> {
        self.reader.as_mut()?.ready()
    }
}

impl Executor {
    /// Follows an execution to its end; of what it says, what came up to event number `after` is
    /// known. Of one that has ended only the end is told.
    ///
    /// # Errors
    ///
    /// `not_found` as [`Executor::get`].
    pub async fn follow(self: &Arc<Self>, caller: Caller, id: ExecutionId, after: u64) -> Result<Following, Error> {
        let seen = self.get(&caller, id).await?;
        let is_final = seen.status.is_final();
        let reader = if is_final { None } else { self.live.follow(id, after) };
        let ended = is_final.then_some(seen);
        Ok(Following { executor: Arc::clone(self), caller, id, reader, ended, is_over: false, guard: None })
    }

    /// Begins a run that is followed from its first word on. Without an [`Idempotency`] it ends
    /// when nobody follows it any more; with one, the same request follows the first one's run.
    ///
    /// # Errors
    ///
    /// As [`Executor::execute`] and [`Executor::execute_once`].
    pub async fn execute_followed(
        self: &Arc<Self>,
        caller: Caller,
        request: ExecutionRequest,
        idempotency: Option<Idempotency>,
    ) -> Result<Streamed, Error> {
        caller.key.require(Scope::SkillsExecute)?;
        let claim = idempotency.map(|idempotency| self.claim(idempotency));
        if let Some(Claim { idempotency, since, .. }) = &claim {
            let first = self.store.claimed(caller.key.id.clone(), idempotency.clone(), *since).await?;
            if let Some(first) = first {
                return self.follow_first(caller, first, claim.as_ref()).await;
            }
        }
        let admitted = self.admitted(caller.clone(), request).await?;
        let reader = admitted.journal.follow(0);
        let guard = claim.is_none().then(|| admitted.cancel.clone().drop_guard());
        let (answer, answered) = oneshot::channel();
        let gathered = Gathered::of(self, &admitted).await;
        Running::begin(self, (admitted, gathered), claim.clone(), answer);
        let id = tokio::select! {
            biased;
            id = reader.opened() => id,
            ended = answered => match ended.map_err(Error::internal)?? {
                Ended::Known(first) => return self.follow_first(caller, first, claim.as_ref()).await,
                Ended::Run(_) => return Err(Error::internal("a run ended that had not begun")),
            },
        };
        let executor = Arc::clone(self);
        let reader = Some(reader);
        let following = Following { executor, caller, id, reader, ended: None, is_over: false, guard };
        Ok(Streamed { id, replayed: false, following })
    }

    async fn follow_first(
        self: &Arc<Self>,
        caller: Caller,
        first: Claimed,
        claim: Option<&Claim>,
    ) -> Result<Streamed, Error> {
        let asked = claim.map_or(first.request, |claim| claim.idempotency.request);
        let id = self.known(&caller, first, asked).await?.execution.id;
        let following = self.follow(caller, id, 0).await?;
        Ok(Streamed { id, replayed: true, following })
    }
}
