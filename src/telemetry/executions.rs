//! Series about executions.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::model::{Code, Door, Execution};

use super::{gauge, histogram};

/// Upper ends of the classes of times, in seconds: from a tenth of a millisecond to minutes.
const SECONDS: &[f64] = &[
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    300.0,
];

/// How much there is to do at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Executions that run.
    pub running: usize,
    /// Executions that wait for a place.
    pub queued: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    status: &'static str,
    code: &'static str,
    door: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refused {
    code: &'static str,
    door: &'static str,
}

/// Series about executions.
pub struct ExecutionMetrics {
    ended: Family<Ended, Counter>,
    refused: Family<Refused, Counter>,
    duration: Histogram,
    waited: Histogram,
    running: Gauge,
    queued: Gauge,
}

impl ExecutionMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let (ended, refused) = (Family::default(), Family::default());
        registry.register("executions", "Executions that ended, by how", ended.clone());
        registry.register("executions_refused", "Requests that did not become an execution", refused.clone());
        Self {
            ended,
            refused,
            duration: histogram(
                registry,
                "execution_duration_seconds",
                "Time from the request to the end of its execution",
                SECONDS,
            ),
            waited: histogram(
                registry,
                "execution_queue_seconds",
                "Time that an execution waited for a place",
                SECONDS,
            ),
            running: gauge(registry, "executions_running", "Executions that run now"),
            queued: gauge(registry, "executions_queued", "Executions that wait for a place now"),
        }
    }

    /// Counts an execution that ended.
    pub fn ended(&self, execution: &Execution, door: Door) {
        let code = execution.error.as_ref().map_or("none", |error| error.code.as_str());
        let labels = Ended { status: execution.status.as_str(), code, door: door.as_str() };
        self.ended.get_or_create(&labels).inc();
        #[expect(clippy::cast_precision_loss, reason = "a class of times does not need the last bits")]
        self.duration.observe(execution.duration_us.unwrap_or_default() as f64 / 1e6);
        self.waited.observe(execution.usage.queue_ms / 1e3);
    }

    /// Counts a request that did not become an execution.
    pub fn refused(&self, code: Code, door: Door) {
        self.refused.get_or_create(&Refused { code: code.as_str(), door: door.as_str() }).inc();
    }

    pub(super) fn set_load(&self, load: Load) {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.running.set(count(load.running));
        self.queued.set(count(load.queued));
    }
}
