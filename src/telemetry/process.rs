//! Series about this process, under the names that Prometheus clients share.

use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// The process as the system sees it.
pub(super) struct Process {
    memory: Gauge,
    descriptors: Gauge,
    registry: Registry,
}

impl Default for Process {
    fn default() -> Self {
        let mut registry = Registry::default();
        let (memory, descriptors) = (Gauge::default(), Gauge::default());
        let help = "Memory that is in use, as the system counts it";
        registry.register_with_unit("process_resident_memory", help, Unit::Bytes, memory.clone());
        registry.register("process_open_fds", "Open file descriptors", descriptors.clone());
        Self { memory, descriptors, registry }
    }
}

impl Process {
    /// The series as text, without the end mark.
    pub(super) fn render(&self) -> Result<String, std::fmt::Error> {
        // What the system does not tell stays at its last value.
        if let Some(bytes) = resident_bytes() {
            self.memory.set(bytes);
        }
        if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
            self.descriptors.set(i64::try_from(open.count()).unwrap_or(i64::MAX));
        }
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// Resident memory: the second number of `statm`, in pages (proc(5)).
fn resident_bytes() -> Option<i64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: i64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(i64::try_from(rustix::param::page_size()).ok()?)
}
