//! Series of the rooms below the executor.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{counter, gauge, histogram};

/// Upper ends of the classes of compile times, in seconds.
const COMPILE_SECONDS: &[f64] = &[0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// Upper ends of the classes of commit times, in seconds.
const COMMIT_SECONDS: &[f64] =
    &[0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];
/// Upper ends of the classes of group sizes.
const GROUP_SIZES: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

/// Series about compilation.
pub struct CompileMetrics {
    queued: Gauge,
    finished: Family<Outcome, Counter>,
    duration: Histogram,
}

impl CompileMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let finished = Family::default();
        registry.register("compilations", "Components that were compiled, by outcome", finished.clone());
        Self {
            queued: gauge(registry, "compile_queued", "Components that wait to be compiled"),
            finished,
            duration: histogram(registry, "compile_seconds", "Time that one compilation took", COMPILE_SECONDS),
        }
    }

    /// Says how many components wait.
    pub fn waiting(&self, count: usize) {
        self.queued.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts a compilation. `outcome` is `ready` or the name of a code.
    pub fn finished(&self, outcome: &'static str, took: Duration) {
        self.finished.get_or_create(&Outcome { outcome }).inc();
        self.duration.observe(took.as_secs_f64());
    }
}

/// Series about commits of the database.
pub struct CommitMetrics {
    duration: Histogram,
    rows: Histogram,
    failed: Counter,
    purged: Counter,
}

impl CommitMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            duration: histogram(
                registry,
                "audit_commit_seconds",
                "Time from the first job of a group to its durable end",
                COMMIT_SECONDS,
            ),
            rows: histogram(registry, "audit_commit_rows", "Jobs in one commit", GROUP_SIZES),
            failed: counter(registry, "audit_commits_failed", "Groups that could not be committed"),
            purged: counter(registry, "results_purged", "Results that were older than retention.results"),
        }
    }

    /// Counts a group of jobs that is durable.
    pub fn committed(&self, took: Duration, jobs: u32) {
        self.duration.observe(took.as_secs_f64());
        self.rows.observe(f64::from(jobs));
    }

    /// Counts a group of jobs that was lost.
    pub fn failed(&self) {
        self.failed.inc();
    }

    /// Counts results that are no longer kept.
    pub fn purged(&self, results: u64) {
        self.purged.inc_by(results);
    }
}
