//! Memory: all memories and tables of one execution together.

use wasmtime::{ResourceLimiter, Result};

use super::budget::Share;

/// Bytes that one element of a table takes on the host.
const TABLE_ELEMENT: u64 = 8;

/// Adds up what a guest asks for, and says no at the limit.
#[derive(Debug)]
pub(super) struct MemoryLimiter {
    limit: u64,
    used: u64,
    refused: bool,
    starved: bool,
    share: Share,
}

impl MemoryLimiter {
    /// A limiter for `limit` bytes.
    pub(super) fn new(limit: u64, share: Share) -> Self {
        Self { limit, used: 0, refused: false, starved: false, share }
    }

    /// Counts for another call, with what is in use already. The limit is not below that.
    pub(super) fn again(&mut self, limit: u64) {
        (self.limit, self.refused, self.starved) = (limit, false, false);
    }

    /// Whether its owner, or all together, have so much that none of it should lie idle.
    pub(super) fn is_tight(&self) -> bool {
        self.share.is_tight()
    }

    /// A limiter for nothing, with a share of the same.
    pub(super) fn empty(&self) -> Self {
        Self::new(0, self.share.empty())
    }

    /// Whether the host had not what the guest's limit allows.
    pub(super) fn starved(&self) -> bool {
        self.starved
    }

    /// Most that was in use at one time, in bytes. Memories and tables only grow.
    pub(super) fn peak(&self) -> u64 {
        self.used
    }

    /// Whether the guest was refused memory at any time.
    pub(super) fn refused(&self) -> bool {
        self.refused
    }

    fn grow(&mut self, current: usize, desired: usize, unit: u64) -> bool {
        let more = (desired.saturating_sub(current) as u64).saturating_mul(unit);
        let total = self.used.saturating_add(more);
        if total > self.limit {
            self.refused = true;
            return false;
        }
        if !self.share.take(more) {
            self.starved = true;
            return false;
        }
        self.used = total;
        true
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        // What the module itself does not allow is not a matter of this limit.
        Ok(maximum.is_none_or(|maximum| desired <= maximum) && self.grow(current, desired, 1))
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        let allowed = maximum.is_none_or(|maximum| desired <= maximum);
        Ok(allowed && self.grow(current, desired, TABLE_ELEMENT))
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> Result<()> {
        self.refused = true;
        Ok(())
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> Result<()> {
        self.refused = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::Budget;
    use super::*;

    fn share() -> Share {
        Budget::of_this_machine().share(&"a".parse().unwrap())
    }

    #[test]
    fn memories_and_tables_count_together() {
        let mut limiter = MemoryLimiter::new(1000, share());
        assert!(limiter.memory_growing(0, 600, None).unwrap());
        assert!(limiter.table_growing(0, 50, None).unwrap());
        assert!(!limiter.refused());
        assert!(!limiter.memory_growing(600, 601, None).unwrap());
        assert!(limiter.refused());
        assert_eq!(limiter.peak(), 1000);
    }

    #[test]
    fn what_the_module_forbids_itself_is_not_held_against_the_limit() {
        let mut limiter = MemoryLimiter::new(1000, share());
        assert!(!limiter.memory_growing(0, 600, Some(500)).unwrap());
        assert!(!limiter.refused());
    }
}
