//! A skill folder in a repository: git hosts give repositories as zips.

use crate::egress::Fetcher;
use crate::model::{Code, Error, GitPart, NetworkRule};

use super::refused::at;
use super::{Login, Opened, url};

/// Begins to fetch the repository `name` (`owner/repo`) of the host at `base`.
pub(super) async fn open(
    fetcher: &Fetcher,
    (base, name, part): (&str, &str, &GitPart),
    login: (Option<Login>, u64),
) -> Result<Opened, Error> {
    let reference = part.reference.as_deref().unwrap_or("HEAD");
    let opened = url::open(fetcher, &format!("{base}/{name}/archive/{reference}.zip"), login).await?;
    if !opened.is_archive {
        return Err(at(Code::InvalidComponent, "what the git host answered is no zip of the repository"));
    }
    Ok(opened)
}

/// What the operator lets it reach who lists the repository.
pub(super) fn rule(base: &str, name: &str) -> Option<NetworkRule> {
    format!("GET {base}/{name}/archive/*").parse().ok()
}
