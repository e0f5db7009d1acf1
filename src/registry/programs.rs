//! Skills that are no upload: what their handler says is kept in the place of a component.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;

use crate::model::{Caller, Code, ContainerProgram, Error, Grants, Handler, Skill, SkillState};

use super::installing::{owner_for, require_visible};
use super::manifest::Manifest;
use super::upload::Source;
use super::{Registered, RegisteredSkill, Registry, StagedComponent};

/// How long a caller waits for what a handler names to be there.
const FETCHING: Duration = Duration::from_secs(600);

impl Registry {
    /// Registers a skill whose handler says all that there is to run.
    pub(super) async fn register_program(
        self: &Arc<Self>,
        caller: &Caller,
        manifest: Manifest,
        program: ContainerProgram,
        respond_async: bool,
    ) -> Result<Registered, Error> {
        let handler = Handler::container(program);
        handler.require_allowed(&caller.key)?;
        // Whatever is wrong with the rest costs nobody a fetch.
        let alone = manifest.check_alone()?;
        alone.name.as_ref().map_or(Ok(()), |name| require_visible(caller, name))?;
        owner_for(caller, &manifest)?;
        let grants = Grants { network: manifest.network(), workspace: manifest.workspace(), ..manifest.grants.clone() };
        let settled = self.sandbox.settle(handler, (&grants, alone.limits()));
        let settled = tokio::time::timeout(FETCHING, settled).await;
        let handler =
            settled.map_err(|_| Error::new(Code::Unavailable, "what it names could not be fetched in time"))??;
        let text = Bytes::from(handler.program_text());
        let body = stream::iter([Ok::<_, Error>(text)]);
        let staged = StagedComponent::receive(&self.blobs, u64::MAX, body).await?;
        self.take(caller, manifest, Source::Written(staged, handler), respond_async).await
    }

    /// How a skill stands that its sandbox made ready, and why not better: where it runs may be missing.
    pub(super) async fn standing(&self, handler: &Handler) -> (SkillState, Option<String>) {
        match self.sandbox.look(handler) {
            None => (SkillState::Ready, None),
            Some(look) => match look.await {
                Ok(()) => (SkillState::Ready, None),
                Err(error) => (SkillState::Unavailable, Some(error.detail)),
            },
        }
    }

    /// Looks once more whether a skill could run now, and notes in memory how that stands.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub(super) async fn looked(&self, registered: &Arc<RegisteredSkill>) -> Result<Arc<RegisteredSkill>, Error> {
        let skill = &registered.skill;
        let in_question = skill.enabled && matches!(skill.state, SkillState::Ready | SkillState::Unavailable);
        let looked = match self.sandbox.look(&skill.handler) {
            Some(look) if in_question => look.await,
            _ => return Ok(Arc::clone(registered)),
        };
        let (state, problem) = match &looked {
            Ok(()) => (SkillState::Ready, None),
            Err(error) => (SkillState::Unavailable, Some(error.detail.clone())),
        };
        let current = if (state, &problem) == (skill.state, &skill.problem) {
            Arc::clone(registered)
        } else {
            self.stand(registered, state, problem).await
        };
        let address = &current.address;
        let told = |error: Error| Error { detail: format!("{address} cannot run now: {}", error.detail), ..error };
        looked.map(|()| Arc::clone(&current)).map_err(told)
    }

    /// Only in memory: the next start looks for itself.
    async fn stand(&self, seen: &RegisteredSkill, state: SkillState, problem: Option<String>) -> Arc<RegisteredSkill> {
        let _alone = self.changes.lock().await;
        let current = self.skills.read().by_id.get(&seen.skill.id).cloned();
        let skill = current.as_ref().map_or(&seen.skill, |current| &current.skill);
        let standing = RegisteredSkill::new(Skill { state, problem, ..skill.clone() });
        if current.is_some() {
            self.skills.write().put(Arc::clone(&standing));
            self.announce();
        }
        standing
    }
}
