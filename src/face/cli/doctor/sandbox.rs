//! Whether this machine can compile and run a skill, and how long a fresh instance takes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::egress::Guard;
use crate::files;
use crate::model::{Digest, Error, Handler, OwnerId};
use crate::sandbox::{
    Freshness, PrepareRequest, SandboxCall, SandboxProvider, THIS_PROGRAM, WasmSandbox, WasmSettings,
};
use crate::telemetry::Telemetry;

use super::Check;

/// The skill that is tried. It imports WASI as any skill of a real toolchain does.
const HELLO: &[u8] = include_bytes!("../../../../skills/hello/hello.wasm");
const ARGS: &str = r#"{"name":"Ada"}"#;
/// Enough for a steady median within half a second.
const ROUNDS: usize = 4000;

/// A directory that is gone again at the end.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// A name for one that is not there yet.
    pub(super) fn new() -> Self {
        Self(std::env::temp_dir().join(format!("skillvisor-doctor-{}", uuid::Uuid::now_v7())))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) async fn check() -> (Check, Option<Freshness>) {
    let scratch = Scratch::new();
    match measure(scratch.path()).await {
        Ok(freshness) => {
            let Freshness { instance_us, call_us, reset } = &freshness;
            let found = format!("a fresh instance takes {instance_us:.1} µs, with one call {call_us:.1} µs ({reset})");
            (Check::ok("sandbox", found), Some(freshness))
        }
        Err(error) => {
            let mend = "see the other checks: memory, address space, and room in the temporary directory";
            (Check::fail("sandbox", format!("a skill cannot be run here: {}", error.detail), mend), None)
        }
    }
}

async fn measure(scratch: &Path) -> Result<Freshness, Error> {
    for folder in ["", "tmp", "cache"] {
        files::create_private_directory(&scratch.join(folder)).map_err(Error::internal)?;
    }
    let file = scratch.join("hello.wasm");
    std::fs::write(&file, HELLO).map_err(Error::internal)?;
    let options = crate::host::HostOptions::new(scratch, THIS_PROGRAM);
    let sandbox = WasmSandbox::new(WasmSettings {
        cache: scratch.join("cache"),
        temporary: scratch.join("tmp"),
        instances: 64,
        compile: options.compile,
        telemetry: Arc::clone(&Telemetry::new()),
        egress: Guard::new(options.egress)?,
        reuse: options.reuse,
    })?;
    let digest = Digest::of(HELLO);
    let request = PrepareRequest {
        owner: OwnerId::system(),
        handler: Handler::Wasm { digest },
        digest,
        file,
        bytes: HELLO.len() as u64,
        unmetered: false,
    };
    sandbox.prepare(request)?.ready.await.map_err(Error::internal)??;
    sandbox.freshness(SandboxCall::detached(digest, ARGS), ROUNDS).await
}
