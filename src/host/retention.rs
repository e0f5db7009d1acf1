//! Forgetting results that were kept for long enough.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::access::Access;
use crate::executor::REMEMBERED;
use crate::model::{Clock, Error};
use crate::store::{Act, Store};
use crate::telemetry::Telemetry;

/// Results that are forgotten in one go: few, because executions that are being written down
/// wait for them.
const BATCH: u32 = 256;
/// The break after each, in which others get their turn.
const BREAK: Duration = Duration::from_millis(20);
/// How often to look: within these bounds, a quarter of the time for which results are kept.
const OFTEN: Duration = Duration::from_millis(250);
const SELDOM: Duration = Duration::from_secs(60);

/// Forgets what is old, and signs the audit as it stands now and then.
pub(super) struct Retention {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) telemetry: Arc<Telemetry>,
    pub(super) access: Arc<Access>,
    /// How long results are kept, and the audit.
    pub(super) keep: (Duration, Option<Duration>),
}

impl Retention {
    /// Goes on until the store is closed.
    pub(super) async fn run(self) {
        let shorter = self.keep.1.map_or(self.keep.0, |audit| audit.min(self.keep.0));
        let wait = (shorter / 4).clamp(OFTEN, SELDOM);
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
        self.access.note_failures(false);
        self.store.checkpoint(self.clock.now_ms()).await?;
        self.purge_audit().await?;
        while self.store.purge_claims(self.before(REMEMBERED), BATCH).await? > 0 {
            sleep(BREAK).await;
        }
        let before = self.before(self.keep.0);
        loop {
            let purged = self.store.purge_results(before, BATCH).await?;
            self.telemetry.commits.purged(purged as u64);
            if purged == 0 {
                return Ok(());
            }
            sleep(BREAK).await;
        }
    }

    async fn purge_audit(&self) -> Result<(), Error> {
        let Some(keep) = self.keep.1 else { return Ok(()) };
        let (before, mut all) = (self.before(keep), 0);
        loop {
            let (purged, through) = self.store.purge_audit(before, BATCH).await?;
            all += purged;
            if purged == 0 {
                let told = serde_json::json!({ "records": all, "through": through });
                // One alone is what was noted the last time.
                if all > 1 {
                    self.store.note(Act::of_host("audit.retention", self.clock.now_ms()).with(&told));
                }
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
