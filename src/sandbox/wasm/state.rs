//! What the host keeps for one instance.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use crate::egress::Guard;
use crate::sandbox::{Powers, RunContext, SandboxCall, Stream};

use super::budget::Share;
use super::egress::Egress;
use super::files::{FilesView, GuestFiles};
use super::idle::without_powers;
use super::limiter::MemoryLimiter;
use super::output::{CappedOutput, Overflow};

/// Host resources (streams, pollables, …) that a guest may hold at once. What hangs on one of
/// them is host memory that `limits.memoryMb` does not count: about 60 KiB for a request with
/// all that fits into it, and so about 60 MiB for the worst guest. A response has less: its
/// head is bounded by `egress`, and so is the number of bodies that are still coming.
pub(super) const MAX_RESOURCES: usize = 1_000;
/// Most random bytes in one call.
const MAX_RANDOM: u64 = 1 << 20;
/// Most bytes of HTTP fields in one resource.
const MAX_FIELDS: usize = 8 << 10;

/// The state of one instance. WASI's part is made when the guest first asks for it.
pub(super) struct State {
    pub(super) limiter: MemoryLimiter,
    pub(super) deadline: Instant,
    pub(super) context: Arc<RunContext>,
    pub(super) stdout: CappedOutput,
    pub(super) stderr: CappedOutput,
    pub(super) egress: Egress,
    pub(super) files: GuestFiles,
    pub(super) powers: Option<Arc<dyn Powers>>,
    /// How a program said that it ended.
    pub(super) exit_code: Option<i32>,
    /// What a program is started with.
    program: Option<Program>,
    wasi: Option<WasiCtx>,
    preview1: Option<Box<WasiP1Ctx>>,
    pub(super) table: ResourceTable,
    http: WasiHttpCtx,
}

/// What a program is started with, as its one argument and as its stdin.
struct Program {
    name: String,
    stdin: Bytes,
}

impl State {
    /// The state for a call, with a share of the memory and a way out. `overflow` is what becomes
    /// of stdout when it is full.
    pub(super) fn new(call: &SandboxCall, (share, overflow): (Share, Overflow), egress: Arc<Guard>) -> Self {
        Self::with(call, (MemoryLimiter::new(call.limits.memory_mb << 20, share), overflow), egress)
    }

    /// The state for another call of an instance: nothing of the one before but the memory that is
    /// counted.
    pub(super) fn renew(&mut self, call: &SandboxCall, overflow: Overflow, egress: Arc<Guard>) {
        let empty = self.limiter.empty();
        let limiter = std::mem::replace(&mut self.limiter, empty);
        *self = Self::with(call, (limiter, overflow), egress);
        self.limiter.again(call.limits.memory_mb << 20);
    }

    /// Lets go of everything that was for the call but the memory that is counted, and gives it.
    pub(super) fn let_go(&mut self, call: &SandboxCall) -> Self {
        let empty = (self.limiter.empty(), Overflow::Forgotten);
        let mut bare = Self::with(&without_powers(call), empty, self.egress.guard());
        std::mem::swap(&mut bare.limiter, &mut self.limiter);
        std::mem::replace(self, bare)
    }

    /// Whether the guest holds nothing of the host's.
    pub(super) fn is_let_go(&self) -> bool {
        self.table.is_empty() && self.preview1.is_none()
    }

    fn with(call: &SandboxCall, (limiter, overflow): (MemoryLimiter, Overflow), egress: Arc<Guard>) -> Self {
        let limits = &call.limits;
        #[expect(clippy::cast_possible_truncation, reason = "at most 64 MiB")]
        let cap = limits.output_bytes as usize;
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_RESOURCES);
        let mut http = WasiHttpCtx::new();
        http.set_field_size_limit(MAX_FIELDS);
        Self {
            limiter,
            deadline: call.deadline,
            context: Arc::clone(&call.context),
            stdout: CappedOutput::new(cap, overflow, (&call.context.journal, Stream::Stdout)),
            stderr: CappedOutput::new(cap, Overflow::Forgotten, (&call.context.journal, Stream::Stderr)),
            egress: Egress::new(call, egress),
            files: GuestFiles::new(call),
            powers: call.powers.clone(),
            exit_code: None,
            program: None,
            wasi: None,
            preview1: None,
            table,
            http,
        }
    }

    /// The time of day, in milliseconds since the Unix epoch, as far from the deadline as it is.
    pub(super) fn now_ms(&self) -> i64 {
        let left = self.deadline.saturating_duration_since(Instant::now());
        self.context.deadline_ms.saturating_sub(i64::try_from(left.as_millis()).unwrap_or(i64::MAX))
    }

    /// The owner's files, for `wasi:filesystem`.
    pub(super) fn files(&mut self) -> FilesView<'_> {
        FilesView { files: &mut self.files, table: &mut self.table }
    }

    /// Gives a program its stdin, and the skill's name as its own. To be called before it starts.
    pub(super) fn start_program(&mut self, stdin: String) {
        let name = self.context.skill.split('@').next().unwrap_or_default().to_owned();
        self.program = Some(Program { name, stdin: stdin.into() });
    }

    /// WASI preview 1, for core modules.
    pub(super) fn preview1(&mut self) -> &mut WasiP1Ctx {
        self.preview1.get_or_insert_with(|| {
            let mut ctx = wasi((&self.stdout, &self.stderr), self.powers.as_deref(), self.program.take()).build_p1();
            ctx.ctx().table.set_max_capacity(MAX_RESOURCES);
            Box::new(ctx)
        })
    }
}

/// WASI without any directory, address or name look-up. The workspace is not WASI's own affair: it
/// has to be counted (`files`).
fn wasi(
    (stdout, stderr): (&CappedOutput, &CappedOutput),
    powers: Option<&dyn Powers>,
    program: Option<Program>,
) -> WasiCtxBuilder {
    let mut builder = WasiCtx::builder();
    for (name, value) in powers.iter().flat_map(|powers| powers.env()) {
        builder.env(name, value);
    }
    builder
        .stdout(stdout.clone())
        .stderr(stderr.clone())
        .max_random_size(MAX_RANDOM)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false);
    if let Some(Program { name, stdin }) = program {
        builder.arg(name).stdin(MemoryInputPipe::new(stdin));
    }
    builder
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let (outputs, powers) = ((&self.stdout, &self.stderr), self.powers.as_deref());
        let ctx = self.wasi.get_or_insert_with(|| wasi(outputs, powers, self.program.take()).build());
        WasiCtxView { ctx, table: &mut self.table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut self.egress }
    }
}
