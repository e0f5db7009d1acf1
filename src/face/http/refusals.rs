//! Failed authentication in the log: the first at once, a flood as one number.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use parking_lot::Mutex;

use super::problem::instance;

/// Lines are at least this far apart, so that a flood cannot fill the disk.
const INTERVAL: Duration = Duration::from_secs(10);

/// Where a request came from. The server puts it into each request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Counts the requests without a valid key.
#[derive(Clone, Default)]
pub(crate) struct Refusals(Arc<Mutex<Option<u64>>>);

impl Refusals {
    /// Takes note of a request that was refused. `why` has nothing in it that was sent.
    pub(super) fn note(&self, parts: &Parts, why: &'static str) {
        let mut unlogged = self.0.lock();
        if let Some(count) = &mut *unlogged {
            *count += 1;
            return;
        }
        *unlogged = Some(0);
        drop(unlogged);
        let peer = parts.extensions.get::<Peer>().map(|peer| peer.0.ip());
        tracing::warn!(
            http.method = %parts.method, http.path = instance(&parts.uri), http.peer = peer.map(tracing_ip), reason = why,
            "A request without a valid key was refused"
        );
        tokio::spawn(self.clone().sum_up());
    }

    /// Logs how many more there were, once the interval is over.
    async fn sum_up(self) {
        tokio::time::sleep(INTERVAL).await;
        let more = self.0.lock().take().unwrap_or_default();
        if more > 0 {
            tracing::warn!(
                requests = more,
                interval_s = INTERVAL.as_secs(),
                "{more} more requests without a valid key were refused"
            );
        }
    }
}

fn tracing_ip(address: IpAddr) -> String {
    address.to_canonical().to_string()
}
