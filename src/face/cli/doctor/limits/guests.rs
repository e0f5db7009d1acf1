//! What one run may use up, and what it may touch.

use std::time::Duration;

use crate::face::cli::table;
use crate::model::{Ceilings, Error, Execution, Fuel, Grants, LimitsPatch, StrictJson};

use super::{Bench, FETCH, FLOOD, GROW, Guest, ONCE, Probed, RECURSE, SPIN, outcome, request, row};

/// Compute enough for every probe but the one for fuel, and too little for half a minute.
const MUCH_FUEL: u64 = 200_000_000_000;
const FUEL: u64 = 5_000_000;
/// Fuel that a guest may use beyond its limit, until that is looked at.
const FUEL_SLACK: u64 = 100_000;
const TIMEOUT_MS: u64 = 150;
/// Later than this, a deadline has not ended a guest.
const LATE: Duration = Duration::from_secs(5);
const MEMORY_MB: u64 = 8;
const OUTPUT_BYTES: u64 = 10_000;
const ARGS_BYTES: u64 = 1000;

pub(super) async fn probe(bench: &Bench) -> Result<Vec<Probed>, Error> {
    for guest in [SPIN, GROW, RECURSE, FLOOD, ONCE, FETCH] {
        bench.register(guest, Grants::default()).await?;
    }
    let mut probed = Vec::new();
    let fuel = LimitsPatch { fuel: Some(Fuel::Metered(FUEL)), ..LimitsPatch::default() };
    probed.push(bench.limit(SPIN, fuel, ("fuel", FUEL.to_string(), "out_of_fuel"), used_fuel).await?);
    let fuel = Some(Fuel::Metered(MUCH_FUEL));
    let time = LimitsPatch { timeout_ms: Some(TIMEOUT_MS), fuel, ..LimitsPatch::default() };
    probed.push(bench.limit(SPIN, time, ("timeoutMs", TIMEOUT_MS.to_string(), "timeout"), took).await?);
    let time = LimitsPatch { attempt_timeout_ms: Some(TIMEOUT_MS), fuel, ..LimitsPatch::default() };
    probed.push(bench.limit(SPIN, time, ("attemptTimeoutMs", TIMEOUT_MS.to_string(), "timeout"), took).await?);
    let memory = LimitsPatch { memory_mb: Some(MEMORY_MB), fuel, ..LimitsPatch::default() };
    probed.push(bench.limit(GROW, memory, ("memoryMb", MEMORY_MB.to_string(), "out_of_memory"), peak).await?);
    let output = LimitsPatch { output_bytes: Some(OUTPUT_BYTES), fuel, ..LimitsPatch::default() };
    let set = ("outputBytes", OUTPUT_BYTES.to_string(), "output_too_large");
    probed.push(bench.limit(FLOOD, output, set, |_| None).await?);
    let stack = ("stack", "built in".to_owned(), "trap");
    probed.push(bench.limit(RECURSE, LimitsPatch::default(), stack, |_| None).await?);
    probed.push(bench.args().await?);
    probed.push(bench.network().await?);
    Ok(probed)
}

fn used_fuel(execution: &Execution) -> Option<(String, bool)> {
    let used = execution.usage.fuel;
    Some((format!("used {used}"), used <= FUEL + FUEL_SLACK))
}

fn took(execution: &Execution) -> Option<(String, bool)> {
    let took = Duration::from_micros(execution.duration_us.unwrap_or(u64::MAX));
    Some((format!("after {}", table::time(took)), took < LATE))
}

fn peak(execution: &Execution) -> Option<(String, bool)> {
    let peak = execution.usage.memory_peak_bytes;
    Some((format!("peak {}", table::bytes(peak)), peak <= MEMORY_MB << 20))
}

impl Bench {
    /// Runs a guest under a limit that it breaks.
    async fn limit(
        &self,
        guest: Guest,
        limits: LimitsPatch,
        (limit, set, expected): (&'static str, String, &str),
        also: impl Fn(&Execution) -> Option<(String, bool)>,
    ) -> Result<Probed, Error> {
        // As a key may have it, and not as an admin key, which has no ceilings.
        let ceilings = LimitsPatch { fuel: Some(Fuel::Metered(MUCH_FUEL)), ..LimitsPatch::default() };
        let caller = self.key(Ceilings { limits: ceilings, ..Ceilings::default() }).await?;
        let ran = self.run(&caller, guest, limits).await;
        let more = ran.as_ref().ok().and_then(also);
        Ok(row(limit, set, expected, (outcome(&ran), more)))
    }

    async fn args(&self) -> Result<Probed, Error> {
        let caller = self.key(Ceilings::default()).await?;
        let limits = LimitsPatch { args_bytes: Some(ARGS_BYTES), ..LimitsPatch::default() };
        let mut asked = request(ONCE, limits)?;
        asked.args = StrictJson::from(serde_json::json!({ "long": "x".repeat(2 * ARGS_BYTES as usize) }));
        let ran = self.host.execute(caller, asked).await;
        Ok(row("argsBytes", ARGS_BYTES.to_string(), "refused: too_large", (outcome(&ran), None)))
    }

    /// A guest without a grant asks for a page.
    async fn network(&self) -> Result<Probed, Error> {
        let caller = self.key(Ceilings::default()).await?;
        let ran = self.run(&caller, FETCH, LimitsPatch::default()).await;
        let denials = ran.as_ref().map_or(0, |execution| execution.denials.len());
        let observed = if denials > 0 { "denied".to_owned() } else { outcome(&ran) };
        Ok(row("grants.network", "none", "denied", (observed, Some((format!("{denials} denials"), denials > 0)))))
    }
}
