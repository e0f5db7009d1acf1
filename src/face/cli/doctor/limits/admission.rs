//! How many runs there may be: at one time, in a minute, in a day.

use std::sync::Arc;
use std::time::Duration;

use crate::host::HostOptions;
use crate::model::{Budgets, Caller, Ceilings, Error, Fuel, LimitsPatch, Rates};
use crate::telemetry::Load;

use super::{Bench, ONCE, Probed, SPIN, outcome, request, row};

const FUEL_PER_DAY: u64 = 5_000_000;
/// How long those run that hold the places.
const HELD_MS: u64 = 20_000;
/// How often to look whether they do, every 10 ms.
const LOOKS: usize = 1000;

/// So few at one time that they are soon too many.
pub(super) fn tighten(options: &mut HostOptions) {
    options.admission.concurrency_per_owner = 1;
    options.admission.queue_per_owner = 1;
}

pub(super) async fn probe(bench: &Bench) -> Result<Vec<Probed>, Error> {
    let mut probed = Vec::new();
    let rates = Rates { executions_per_minute: Some(1) };
    let ceilings = Ceilings { rates, ..Ceilings::default() };
    probed.push(bench.second(ceilings, ("rates.executionsPerMinute", "refused: rate_limited")).await?);
    let budgets = Budgets { executions_per_day: Some(1), ..Budgets::default() };
    let ceilings = Ceilings { budgets, ..Ceilings::default() };
    probed.push(bench.second(ceilings, ("budgets.executionsPerDay", "refused: budget_exhausted")).await?);
    probed.push(bench.fuel().await?);
    probed.push(bench.queue().await?);
    Ok(probed)
}

impl Bench {
    /// Runs twice where once is allowed.
    async fn second(&self, ceilings: Ceilings, (limit, expected): (&'static str, &str)) -> Result<Probed, Error> {
        let caller = self.key(ceilings).await?;
        self.run(&caller, ONCE, LimitsPatch::default()).await?;
        let second = self.run(&caller, ONCE, LimitsPatch::default()).await;
        Ok(row(limit, "1", expected, (outcome(&second), None)))
    }

    /// Uses a day's fuel up in one run, and asks for another.
    async fn fuel(&self) -> Result<Probed, Error> {
        let budgets = Budgets { fuel_per_day: Some(FUEL_PER_DAY), ..Budgets::default() };
        let caller = self.key(Ceilings { budgets, ..Ceilings::default() }).await?;
        let first = self.run(&caller, SPIN, LimitsPatch::default()).await;
        let second = self.run(&caller, SPIN, LimitsPatch::default()).await;
        let also = Some((format!("the run before: {}", outcome(&first)), outcome(&first) == "out_of_fuel"));
        let expected = "refused: budget_exhausted";
        Ok(row("budgets.fuelPerDay", FUEL_PER_DAY.to_string(), expected, (outcome(&second), also)))
    }

    /// One runs, one waits, and a third one comes.
    async fn queue(&self) -> Result<Probed, Error> {
        let much = Some(Fuel::Metered(1_000_000_000_000));
        let limits = LimitsPatch { fuel: much, ..LimitsPatch::default() };
        let caller = self.key(Ceilings { limits, ..Ceilings::default() }).await?;
        let first = self.hold(&caller, Load { running: 1, queued: 0 }).await?;
        let second = self.hold(&caller, Load { running: 1, queued: 1 }).await?;
        let third = self.run(&caller, SPIN, LimitsPatch::default()).await;
        for held in [&second, &first] {
            held.abort();
        }
        Ok(row("queue.per_owner", "1", "refused: queue_full", (outcome(&third), None)))
    }

    /// Begins a run that goes on until its task is ended, and waits until it stands so.
    async fn hold(&self, caller: &Caller, load: Load) -> Result<tokio::task::JoinHandle<()>, Error> {
        let limits = LimitsPatch {
            timeout_ms: Some(HELD_MS),
            fuel: Some(Fuel::Metered(1_000_000_000_000)),
            ..LimitsPatch::default()
        };
        let (executor, caller) = (Arc::clone(&self.host.executor), caller.clone());
        let asked = request(SPIN, limits)?;
        let held = tokio::spawn(async move { drop(executor.execute(caller, asked).await) });
        for _ in 0..LOOKS {
            let now = self.host.executor.load();
            if (now.running, now.queued) == (load.running, load.queued) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(held)
    }
}
