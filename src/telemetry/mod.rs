//! What the host counts and measures, for Prometheus.
//!
//! Every label has a bounded set of values: a status, a code, a door, the template of a
//! route. Names, ids and texts that callers choose are never labels. Counting is an atomic
//! addition, measuring takes a lock that is held for some nanoseconds.

mod executions;
mod http;
mod process;
mod rooms;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub use self::executions::{ExecutionMetrics, Load};
pub use self::http::HttpMetrics;
pub use self::rooms::{CommitMetrics, CompileMetrics};

use self::process::Process;

/// The content type of [`Telemetry::render`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All series of one host.
pub struct Telemetry {
    /// Executions.
    pub executions: ExecutionMetrics,
    /// Requests.
    pub http: HttpMetrics,
    /// Compilation.
    pub compile: CompileMetrics,
    /// Commits of the audit.
    pub commits: CommitMetrics,
    process: Process,
    uptime: Gauge<f64, AtomicU64>,
    started: Instant,
    registry: Registry,
}

impl Telemetry {
    /// Everything at zero.
    pub fn new() -> Arc<Self> {
        let mut registry = Registry::with_prefix("skillvisor");
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The program that runs", build);
        let uptime = Gauge::default();
        registry.register("uptime_seconds", "Time since the host was opened", uptime.clone());
        Arc::new(Self {
            executions: ExecutionMetrics::new(&mut registry),
            http: HttpMetrics::new(&mut registry),
            compile: CompileMetrics::new(&mut registry),
            commits: CommitMetrics::new(&mut registry),
            process: Process::default(),
            uptime,
            started: Instant::now(),
            registry,
        })
    }

    /// All series as OpenMetrics text. Reads files of the system, so not for a thread that
    /// others wait for.
    ///
    /// # Errors
    ///
    /// Never, as long as text can be written to memory.
    pub fn render(&self, load: Load) -> Result<String, std::fmt::Error> {
        self.executions.set_load(load);
        self.uptime.set(self.started.elapsed().as_secs_f64());
        // The names of these are the same for every program, so they have no prefix.
        let mut text = self.process.render()?;
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// Registers a counter.
fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter {
    let counter = Counter::default();
    registry.register(name, help, counter.clone());
    counter
}

/// Registers a gauge.
fn gauge(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    let gauge = Gauge::default();
    registry.register(name, help, gauge.clone());
    gauge
}

/// Registers a histogram.
fn histogram(registry: &mut Registry, name: &str, help: &str, buckets: &[f64]) -> Histogram {
    let histogram = Histogram::new(buckets.iter().copied());
    registry.register(name, help, histogram.clone());
    histogram
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_counted_is_rendered_once_and_ends_as_the_format_wants() {
        let telemetry = Telemetry::new();
        telemetry.http.answered(Some("/api/skills/{reference}"), "GET", 404);
        telemetry.http.answered(None, "BREW", 405);
        telemetry.http.unauthenticated("http");
        telemetry.commits.committed(Duration::from_millis(3), 7);
        telemetry.compile.finished("ready", Duration::from_millis(80));
        let text = telemetry.render(Load { running: 2, queued: 1 }).unwrap();
        for line in [
            "skillvisor_http_requests_total{route=\"/api/skills/{reference}\",method=\"GET\",status=\"404\"} 1",
            "skillvisor_http_requests_total{route=\"none\",method=\"other\",status=\"405\"} 1",
            "skillvisor_authentication_failures_total{door=\"http\"} 1",
            "skillvisor_executions_running 2",
            "skillvisor_executions_queued 1",
            "skillvisor_audit_commit_rows_sum 7.0",
            "skillvisor_audit_commit_seconds_count 1",
            "skillvisor_compilations_total{outcome=\"ready\"} 1",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} is missing in\n{text}");
        }
        assert!(text.contains("skillvisor_build_info{version=\""), "{text}");
        assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
    }

    #[test]
    fn the_process_is_measured() {
        let text = Telemetry::new().render(Load::default()).unwrap();
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().parse::<f64>().unwrap()
        };
        assert!(value("process_resident_memory_bytes ") > 1e6, "{text}");
        assert!(value("process_open_fds ") >= 3.0, "{text}");
    }
}
