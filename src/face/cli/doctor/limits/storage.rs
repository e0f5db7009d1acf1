//! What an owner may leave lying.

use std::collections::BTreeSet;

use crate::face::cli::table;
use crate::host::{UsageFilter, Used};
use crate::model::{Access, Ceilings, Error, Execution, Grants, LimitsPatch, StorageCeilings};

use super::{Bench, FILL, Guest, KEEP, MANY, ONCE, Probed, SPIN, bytes, files, manifest, outcome, row};

const FILE_BYTES: u64 = 100_000;
const FILES: u64 = 5;
const KV_BYTES: u64 = 50_000;

pub(super) async fn probe(bench: &Bench) -> Result<Vec<Probed>, Error> {
    for guest in [FILL, MANY] {
        bench.register(guest, files()).await?;
    }
    bench.register(KEEP, Grants { kv: true, ..Grants::default() }).await?;
    let mut probed = Vec::new();
    let storage = StorageCeilings { file_bytes: Some(FILE_BYTES), ..StorageCeilings::default() };
    probed.push(bench.full(FILL, storage, ("storage.fileBytes", FILE_BYTES), |all| all.file_bytes).await?);
    let storage = StorageCeilings { files: Some(FILES), ..StorageCeilings::default() };
    probed.push(bench.full(MANY, storage, ("storage.files", FILES), |all| all.files).await?);
    let storage = StorageCeilings { kv_bytes: Some(KV_BYTES), ..StorageCeilings::default() };
    probed.push(bench.full(KEEP, storage, ("storage.kvBytes", KV_BYTES), |all| all.kv_bytes).await?);
    probed.push(bench.read_only().await?);
    probed.push(bench.skills().await?);
    probed.push(bench.components().await?);
    probed.push(bench.results().await?);
    Ok(probed)
}

impl Bench {
    /// Runs a guest that fills what is bounded until no more goes in, which it tells by failing.
    async fn full(
        &self,
        guest: Guest,
        storage: StorageCeilings,
        (limit, most): (&'static str, u64),
        used: impl Fn(&crate::host::StorageUsage) -> Used,
    ) -> Result<Probed, Error> {
        let caller = self.key(Ceilings { storage, ..Ceilings::default() }).await?;
        let ran = self.run(&caller, guest, LimitsPatch::default()).await;
        let usage = self.host.usage(&caller, UsageFilter::default()).await?;
        let (lies, _) = used(&usage.storage);
        let told =
            if limit == "storage.files" { format!("{lies} there") } else { format!("{} there", table::bytes(lies)) };
        Ok(row(limit, most.to_string(), "exit_nonzero", (outcome(&ran), Some((told, lies > 0 && lies <= most)))))
    }

    /// A guest with the grant writes for a key whose ceiling is to read.
    async fn read_only(&self) -> Result<Probed, Error> {
        let caller = self.key(Ceilings { workspace: Access::Read, ..Ceilings::default() }).await?;
        let ran = self.run(&caller, FILL, LimitsPatch::default()).await;
        let imports = |execution: &Execution| {
            let imports: BTreeSet<_> = execution.denials.iter().map(|denial| denial.import.clone()).collect();
            imports.into_iter().collect::<Vec<_>>().join(" ")
        };
        let denied = ran.as_ref().map(imports).unwrap_or_default();
        let also = Some((format!("denied: {denied}"), !denied.is_empty()));
        Ok(row("ceilings.workspace", "read", "exit_nonzero", (outcome(&ran), also)))
    }

    async fn skills(&self) -> Result<Probed, Error> {
        let storage = StorageCeilings { skills: Some(1), ..StorageCeilings::default() };
        let caller = self.key(Ceilings { storage, ..Ceilings::default() }).await?;
        self.host.register(&caller, manifest(ONCE, Grants::default()), bytes(ONCE)?).await?;
        let second = self.host.register(&caller, manifest(SPIN, Grants::default()), bytes(SPIN)?).await;
        let observed = second.map_or_else(|error| format!("refused: {}", error.code), |_| "success".to_owned());
        Ok(row("storage.skills", "1", "refused: storage_full", (observed, None)))
    }

    async fn components(&self) -> Result<Probed, Error> {
        let storage = StorageCeilings { component_bytes: Some(10), ..StorageCeilings::default() };
        let caller = self.key(Ceilings { storage, ..Ceilings::default() }).await?;
        let pushed = self.host.register(&caller, manifest(ONCE, Grants::default()), bytes(ONCE)?).await;
        let observed = pushed.map_or_else(|error| format!("refused: {}", error.code), |_| "success".to_owned());
        Ok(row("storage.componentBytes", "10", "refused: storage_full", (observed, None)))
    }

    async fn results(&self) -> Result<Probed, Error> {
        let storage = StorageCeilings { result_bytes: Some(1), ..StorageCeilings::default() };
        let caller = self.key(Ceilings { storage, ..Ceilings::default() }).await?;
        self.run(&caller, ONCE, LimitsPatch::default()).await?;
        let second = self.run(&caller, ONCE, LimitsPatch::default()).await;
        Ok(row("storage.resultBytes", "1", "refused: storage_full", (outcome(&second), None)))
    }
}
