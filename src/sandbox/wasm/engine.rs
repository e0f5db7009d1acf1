//! The engine's settings, and which way of resetting memory this machine allows.

use std::fmt;

use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, WasmBacktraceDetails};

use crate::model::{Error, Limits};

use super::preview3::MAX_TASKS;

/// Stack of a guest, in bytes. Deeper recursion is a trap.
const GUEST_STACK: usize = 512 << 10;
/// Stack of a guest together with the host calls on top of it, in bytes.
const FIBER_STACK: usize = 1 << 20;
/// Core instances in one component.
pub(super) const MAX_CORE_INSTANCES: u32 = 200;
/// Linear memories in one component.
const MAX_MEMORIES: u32 = 8;
/// Tables in one component.
const MAX_TABLES: u32 = 64;
/// Elements in one table.
const MAX_TABLE_ELEMENTS: usize = 100_000;

/// Up to this many bytes, the beginning of a memory is laid out in the code whatever lies in it;
/// a larger one only where its data fills half of it. The rest is written at each start: what is
/// small where it is uploaded must not be large on the disk.
const SPARSE_IMAGE: u64 = 64 << 10;

/// Most address space for the memories of a pool, in slots of a little more than 4 GiB: a
/// process has 128 TiB, and most of that stays free.
const MAX_SLOTS: u32 = 8192;

/// Most of them for the memories of each other engine, so that there is room for all.
const MAX_OTHER_SLOTS: u32 = 2048;

/// Most instances at one time of components with async functions: all their stacks together are
/// some thousands of mappings, of which a process has 65,530.
const MAX_CONCURRENT: u32 = 64;

/// What an engine is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// For guests whose fuel is not counted, which makes most of them faster.
    pub(super) unmetered: bool,
    /// For components with async functions; all others are faster without.
    pub(super) concurrent: bool,
}

impl Kind {
    /// For nearly everything.
    pub(super) const PLAIN: Self = Self { unmetered: false, concurrent: false };
    /// All others.
    pub(super) const OTHERS: [Self; 3] = [
        Self { unmetered: false, concurrent: true },
        Self { unmetered: true, concurrent: false },
        Self { unmetered: true, concurrent: true },
    ];

    /// Which of the others it is, if it is one.
    pub(super) fn other(self) -> Option<usize> {
        Self::OTHERS.iter().position(|other| *other == self)
    }

    /// How many run at one time where `most` may in all. Those with async functions may have many
    /// stacks each.
    pub(super) fn instances(self, most: u32) -> u32 {
        if self.concurrent { most.min(MAX_CONCURRENT) } else { most }
    }

    /// Stacks for so many instances.
    fn stacks(self, instances: u32) -> u32 {
        if self.concurrent { instances.saturating_mul(MAX_TASKS / 2) } else { instances }
    }

    /// Those for components of either sort.
    pub(super) fn of(unmetered: bool) -> [Self; 2] {
        [false, true].map(|concurrent| Self { unmetered, concurrent })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fuel = if self.unmetered { "without" } else { "with" };
        let functions = if self.concurrent { "with" } else { "without" };
        write!(f, "{fuel} fuel and {functions} async functions")
    }
}

/// An engine, and what it has room for.
pub(super) struct Running {
    pub(super) engine: Engine,
    pub(super) reset: Reset,
    /// Linear memories at one time. Everything else there is enough of.
    pub(super) memories: u32,
}

/// How a slot is made clean for the next instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reset {
    /// The kernel names the dirty pages (`PAGEMAP_SCAN`, Linux 6.7), and only these are rewritten.
    PagemapScan,
    /// A small part is rewritten, the rest is given back to the kernel in batches.
    Decommit,
    /// No pool: each instance maps its own memory. For hosts with little address space.
    OnDemand,
}

impl fmt::Display for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PagemapScan => "pool with PAGEMAP_SCAN",
            Self::Decommit => "pool with batched decommit",
            Self::OnDemand => "on demand, no pool",
        })
    }
}

/// What compiled code depends on: the same for the compile worker and the host, so that one
/// may load what the other made.
pub(super) fn config(kind: Kind) -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(!kind.unmetered)
        .concurrency_support(kind.concurrent)
        .epoch_interruption(true)
        .max_wasm_stack(GUEST_STACK)
        .async_stack_size(FIBER_STACK)
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .memory_guaranteed_dense_image_size(SPARSE_IMAGE)
        // Deny by default: what no supported language needs.
        .wasm_memory64(false)
        .wasm_custom_page_sizes(false)
        .wasm_wide_arithmetic(false)
        // The same answer on every machine.
        .relaxed_simd_deterministic(true)
        .cranelift_nan_canonicalization(false);
    config
}

/// Builds an engine for running `instances` at one time, with the best allocator that this
/// machine has room for: at best, each of them may have all that one component may have.
///
/// # Errors
///
/// `internal` if not even the plainest engine can be built.
pub(super) fn engine(kind: Kind, instances: u32) -> Result<Running, Error> {
    let scan = PoolingAllocationConfig::is_pagemap_scan_available();
    let reset = if scan { Reset::PagemapScan } else { Reset::Decommit };
    let most = if kind == Kind::PLAIN { MAX_SLOTS } else { MAX_OTHER_SLOTS };
    let all = instances.saturating_mul(MAX_MEMORIES).min(most);
    for memories in [all, instances, instances / 8] {
        let memories = memories.clamp(2 * MAX_MEMORIES, most);
        let mut config = config(kind);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(
            (kind, instances.max(1)),
            memories,
            reset,
        )));
        match Engine::new(&config) {
            Ok(engine) => return Ok(Running { engine, reset, memories }),
            Err(error) => tracing::warn!(
                pool.memories = memories,
                "No room in the address space for a pool of {memories} memories: {error}"
            ),
        }
    }
    let engine = Engine::new(&config(kind)).map_err(Error::internal)?;
    Ok(Running { engine, reset: Reset::OnDemand, memories: all })
}

/// Only memories take much address space: of the rest there is what `instances` may have at most.
fn pool((kind, instances): (Kind, u32), memories: u32, reset: Reset) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    #[expect(clippy::cast_possible_truncation, reason = "4 GiB fit the address space of a 64-bit host")]
    let memory = (Limits::HOST_MAXIMUM.memory_mb << 20) as usize;
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(MAX_CORE_INSTANCES))
        .total_memories(memories)
        .total_tables(instances.saturating_mul(MAX_TABLES))
        .total_stacks(kind.stacks(instances))
        .max_memory_size(memory)
        .table_elements(MAX_TABLE_ELEMENTS)
        .max_core_instances_per_component(MAX_CORE_INSTANCES)
        .max_memories_per_component(MAX_MEMORIES)
        .max_tables_per_component(MAX_TABLES)
        .max_tables_per_module(MAX_TABLES)
        .max_memories_per_module(MAX_MEMORIES);
    match reset {
        Reset::PagemapScan => {
            pool.pagemap_scan(Enabled::Yes).linear_memory_keep_resident(2 << 20).table_keep_resident(64 << 10)
        }
        _ => pool.linear_memory_keep_resident(64 << 10).decommit_batch_size(16),
    };
    pool
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_and_the_host_agree_on_what_code_looks_like() {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let hash = |engine: &Engine| {
            let mut hasher = DefaultHasher::new();
            engine.precompile_compatibility_hash().hash(&mut hasher);
            hasher.finish()
        };
        let mut hashes = std::collections::HashSet::new();
        for kind in Kind::OTHERS.into_iter().chain([Kind::PLAIN]) {
            let host = engine(kind, 64).unwrap().engine;
            assert_eq!(hash(&host), hash(&Engine::new(&config(kind)).unwrap()));
            assert!(hashes.insert(hash(&host)), "what one loads the others do not: {kind}");
        }
    }
}
