//! Telling clients that their list of tools is another one now.

use rmcp::{Peer, RoleServer};
use tokio_util::sync::CancellationToken;

use crate::host::Host;
use crate::model::Caller;

use super::catalogue;

/// The list of one caller, watched.
pub(super) struct Changes {
    host: Host,
    caller: Caller,
    revisions: tokio::sync::watch::Receiver<u64>,
    known: Vec<(String, crate::model::SkillId)>,
}

impl Changes {
    /// Watches from now on.
    pub(super) fn of(host: &Host, caller: &Caller) -> Self {
        let revisions = host.registry.revisions();
        let known = catalogue::fingerprint(host, caller);
        Self { host: host.clone(), caller: caller.clone(), revisions, known }
    }

    /// Waits until the list is another one. What other owners do is no news: it would tell that
    /// they are there.
    pub(super) async fn next(&mut self) {
        loop {
            if self.revisions.changed().await.is_err() {
                return std::future::pending().await;
            }
            let now = catalogue::fingerprint(&self.host, &self.caller);
            if now != self.known {
                self.known = now;
                return;
            }
        }
    }
}

/// Tells the client of a session of an older revision, until the session ends.
pub(super) async fn tell(mut changes: Changes, peer: Peer<RoleServer>, ended: CancellationToken) {
    loop {
        tokio::select! {
            () = ended.cancelled() => return,
            () = changes.next() => {}
        }
        if peer.notify_tool_list_changed().await.is_err() {
            return;
        }
    }
}
