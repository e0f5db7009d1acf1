//! Forgetting results that were kept for long enough.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::executor::REMEMBERED;
use crate::model::{Clock, Error};
use crate::store::Store;
use crate::telemetry::Telemetry;

/// Results that are forgotten in one go: few, because executions that are being written down
/// wait for them.
const BATCH: u32 = 256;
/// The break after each, in which others get their turn.
const BREAK: Duration = Duration::from_millis(20);
/// How often to look: within these bounds, a quarter of the time for which results are kept.
const OFTEN: Duration = Duration::from_millis(250);
const SELDOM: Duration = Duration::from_secs(60);

/// Forgets results that are older than `keep`.
pub(super) struct Retention {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) telemetry: Arc<Telemetry>,
    pub(super) keep: Duration,
}

impl Retention {
    /// Goes on until the store is closed.
    pub(super) async fn run(self) {
        let wait = (self.keep / 4).clamp(OFTEN, SELDOM);
        loop {
            if let Err(error) = self.purge().await {
                if self.store.is_closed() {
                    return;
                }
                tracing::warn!(error.code = %error.code, "Old results could not be forgotten: {error:?}");
            }
            sleep(wait).await;
        }
    }

    /// Forgets all that is old now.
    async fn purge(&self) -> Result<(), Error> {
        while self.store.purge_claims(self.before(REMEMBERED), BATCH).await? > 0 {
            sleep(BREAK).await;
        }
        let before = self.before(self.keep);
        loop {
            let purged = self.store.purge_results(before, BATCH).await?;
            self.telemetry.commits.purged(purged as u64);
            if purged == 0 {
                return Ok(());
            }
            sleep(BREAK).await;
        }
    }

    /// The time that is `ago` before now, in milliseconds since the Unix epoch.
    fn before(&self, ago: Duration) -> i64 {
        self.clock.now_ms().saturating_sub(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX))
    }
}
