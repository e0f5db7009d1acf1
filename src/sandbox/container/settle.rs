//! What is decided when a container skill is registered: what it can be given, and which image it means.

use crate::model::{Access, Code, ContainerProgram, Error, FieldError, Grants, Limits, pointer_segment};

use super::argv::{LEAST_MEMORY_MB, require_sane_env};
use super::{ContainerSandbox, images};

impl ContainerSandbox {
    /// Refuses what a container cannot be given, and fixes which image its name means now, which is
    /// fetched if it is not there. Without an engine the name stays open, and the skill unavailable.
    ///
    /// # Errors
    ///
    /// `image_not_allowed`; `grant_unsupported` and `invalid_manifest` with their places; those of
    /// fetching an image.
    pub(in crate::sandbox) async fn settle(
        &self,
        mut program: ContainerProgram,
        (grants, limits): (&Grants, Option<u64>),
    ) -> Result<ContainerProgram, Error> {
        let inner = &self.inner;
        require_possible(grants, limits)?;
        inner.policy().require_allowed(&program.image)?;
        let Ok(engine) = inner.engines.get().await else { return Ok(program) };
        let name = program.image.whole();
        let id = match inner.find(&engine, &name).await? {
            Some(id) => id,
            None => images::pull(&engine.client, inner.policy(), &program.image).await?,
        };
        program.id = Some(id);
        Ok(program)
    }
}

/// Refuses what no container gets.
fn require_possible(grants: &Grants, memory_mb: Option<u64>) -> Result<(), Error> {
    let asked = [
        ("/grants/secrets", !grants.secrets.is_empty(), "the host puts secrets into requests that it sends itself"),
        (
            "/grants/network",
            !grants.network.is_empty(),
            "nothing stands yet between a container's network and the host's",
        ),
        ("/grants/config", !grants.config.is_empty(), "it is read through a WASI interface; use grants.env"),
        ("/grants/kv", grants.kv, "it is reached through a WASI interface"),
        ("/grants/skills", !grants.skills.is_empty(), "they are called through a WASI interface"),
        (
            "/grants/workspace",
            grants.workspace > Access::None,
            "containers do not see the workspace yet; what they need goes in as arguments",
        ),
    ];
    let refused = asked.into_iter().filter(|(_, asked, _)| *asked);
    let fields: Vec<_> = refused
        .map(|(place, _, why)| FieldError::new(place, format!("a container skill cannot have it: {why}")))
        .collect();
    if let Some(first) = fields.first() {
        return Err(Error::fields(Code::GrantUnsupported, first.detail.clone(), fields));
    }
    for variable in &grants.env {
        require_sane_env([variable]).map_err(|error| {
            let place = format!("/grants/env/{}", pointer_segment(variable.0));
            Error::at(Code::InvalidManifest, place, error.detail)
        })?;
    }
    if memory_mb.unwrap_or(Limits::DEFAULT.memory_mb) < LEAST_MEMORY_MB {
        let detail = format!("containers do not start with less than {LEAST_MEMORY_MB} MiB");
        return Err(Error::at(Code::InvalidManifest, "/limits/memoryMb", detail));
    }
    Ok(())
}
