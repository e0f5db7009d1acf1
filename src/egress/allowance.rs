//! How much may still go out and in for the runs of a key (`ceilings.budgets.egressBytesPerDay`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that all runs of a key may send and receive together.
#[derive(Clone, Debug)]
pub struct Allowance {
    most: u64,
    used: Arc<AtomicU64>,
}

impl Allowance {
    /// At most so many, of which `used` says how many are gone.
    pub fn new(most: u64, used: Arc<AtomicU64>) -> Self {
        Self { most, used }
    }

    /// Counts what was sent and received.
    pub fn spend(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether nothing is left.
    pub fn is_used_up(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.most
    }
}
