//! What a host that died left running.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::client::Client;
use super::{Inner, SECCOMP_FILE, job};

/// How long the list of containers may take.
const LISTING: Duration = Duration::from_secs(30);

/// Removes, in the background, every container of an earlier host on the same directory, and what its
/// runs left there. A host that never ran one has no directory, and asks no engine.
pub(super) fn clear(inner: &Arc<Inner>) {
    let directory = inner.settings.directory.clone();
    if !directory.exists() {
        return;
    }
    let old: Vec<PathBuf> = old_entries(&directory);
    let inner = Arc::clone(inner);
    inner.home.clone().spawn(async move {
        // Of each engine: the setting may have changed since.
        for client in inner.engines.candidates() {
            of_engine(&inner, &client).await;
        }
        // Not before the containers, which may be at work there.
        for entry in old {
            let _ = tokio::fs::remove_dir_all(&entry).await;
        }
    });
}

/// What lay there before anything of ours began.
fn old_entries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| !path.ends_with(SECCOMP_FILE)).collect()
}

async fn of_engine(inner: &Inner, client: &Client) {
    let filter = format!("--filter=label={}", inner.label);
    let Ok(names) = client.ask(&["ps", "--all", "--format={{.Names}}", &filter], LISTING).await else { return };
    let mut removed = 0_u32;
    for name in names.lines().map(str::trim).filter(|name| !name.is_empty() && !name.starts_with(&inner.prefix)) {
        if job::remove(client, name).await {
            removed += 1;
        } else {
            tracing::error!(container = name, "A container that a dead host left could not be removed");
        }
    }
    if removed > 0 {
        tracing::warn!(containers = removed, "Containers that a dead host left were removed");
    }
}
