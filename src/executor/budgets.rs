//! What a key may use up within one UTC day (`ceilings.budgets`).
//!
//! What was used is in memory and, written together with the last row of each run, in the store.
//! Fuel is set aside before a run begins, so that all that run at one time use no more than there
//! is. Keys without a budget are not counted, and pay for nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::egress::Allowance;
use crate::model::{Budgets, Clock, Code, Error, Fuel, Key, KeyId, Limits};
use crate::store::{DAY_MS, KeyDay};

/// What the keys with budgets have used today.
pub(super) struct Ledger {
    clock: Clock,
    each: Mutex<HashMap<KeyId, Arc<Mutex<Day>>>>,
}

/// One key's day.
#[derive(Default)]
struct Day {
    /// Days since the Unix epoch.
    day: i64,
    executions: u64,
    fuel: u64,
    /// Fuel that runs under way may still use.
    held: u64,
    egress: Arc<AtomicU64>,
}

/// What a key with budgets used today.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Executions that began.
    pub executions: u64,
    /// Fuel that was used.
    pub fuel: u64,
    /// Fuel that runs under way have set aside beside that.
    pub held: u64,
    /// Bytes sent and received.
    pub egress_bytes: u64,
}

/// A run's share of its key's day. What is not settled was not used.
pub(super) struct Share {
    of: Arc<Mutex<Day>>,
    /// On which day; what is used counts for it, whenever the run ends.
    day: i64,
    budgets: Budgets,
    /// Fuel that is set aside.
    held: u64,
    /// Fuel of attempts that were counted already.
    counted: u64,
    settled: bool,
    egress: Arc<AtomicU64>,
}

/// Why a run has no share.
#[derive(Debug)]
pub(super) enum Refused {
    /// The day's budget is used up.
    UsedUp(Error),
    /// Runs under way hold what is left, and may give it back.
    Held(Error),
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        let (Refused::UsedUp(error) | Refused::Held(error)) = refused;
        error
    }
}

impl Ledger {
    /// What is known of today, which is `days`.
    pub(super) fn new(clock: Clock, days: Vec<KeyDay>) -> Self {
        let read = |known: KeyDay| {
            let egress = Arc::new(AtomicU64::new(known.egress_bytes));
            let day = Day { day: known.day, executions: known.executions, fuel: known.fuel, held: 0, egress };
            (known.key, Arc::new(Mutex::new(day)))
        };
        Self { clock, each: Mutex::new(days.into_iter().map(read).collect()) }
    }

    /// A share for a run under `limits`, whose fuel is cut to what is left of the day; nothing
    /// for a key without budgets. A run that is `called` by another uses its caller's fuel.
    ///
    /// # Errors
    ///
    /// `budget_exhausted`, with the time until the next day, or until a run under way may have ended.
    pub(super) fn enter(&self, key: &Key, limits: &mut Limits, called: bool) -> Result<Option<Share>, Refused> {
        let budgets = key.budgets();
        if budgets == Budgets::default() {
            return Ok(None);
        }
        let now = self.clock.now_ms();
        let of = Arc::clone(self.each.lock().entry(key.id.clone()).or_default());
        let mut day = of.lock();
        day.turn_to(now.div_euclid(DAY_MS));
        let spent = |name: &str, most: u64| {
            let detail = format!("this key's budget for today is used up (ceilings.budgets.{name} = {most})");
            Refused::UsedUp(Error::new(Code::BudgetExhausted, detail).retry_after(until_tomorrow(now)))
        };
        if let Some(most) = budgets.executions_per_day.filter(|most| day.executions >= *most) {
            return Err(spent("executionsPerDay", most));
        }
        if let Some(most) = budgets.egress_bytes_per_day.filter(|most| day.egress.load(Ordering::Relaxed) >= *most) {
            return Err(spent("egressBytesPerDay", most));
        }
        let held = match budgets.fuel_per_day.filter(|_| !called) {
            Some(most) if day.fuel >= most => return Err(spent("fuelPerDay", most)),
            Some(most) => day.set_aside(limits, most)?,
            None => 0,
        };
        day.executions += 1;
        let (number, egress) = (day.day, Arc::clone(&day.egress));
        drop(day);
        Ok(Some(Share { of, day: number, budgets, held, counted: 0, settled: false, egress }))
    }
}

impl Ledger {
    /// What a key used today.
    pub(super) fn spent(&self, key: &KeyId) -> Spent {
        let Some(of) = self.each.lock().get(key).map(Arc::clone) else { return Spent::default() };
        let mut day = of.lock();
        day.turn_to(self.clock.now_ms().div_euclid(DAY_MS));
        let egress_bytes = day.egress.load(Ordering::Relaxed);
        Spent { executions: day.executions, fuel: day.fuel, held: day.held, egress_bytes }
    }
}

impl Day {
    /// Begins a new day. A clock that is set back gives nobody a second one.
    fn turn_to(&mut self, day: i64) {
        if day > self.day {
            *self = Self { day, ..Self::default() };
        }
    }

    /// Sets fuel aside for one run: what its limit says, or, if no other run holds any, what is left.
    fn set_aside(&mut self, limits: &mut Limits, most: u64) -> Result<u64, Refused> {
        let left = most.saturating_sub(self.fuel);
        let asked = limits.fuel.units().unwrap_or(u64::MAX);
        if asked > left.saturating_sub(self.held) {
            if self.held > 0 {
                let detail = "other runs of this key hold what is left of today's fuel \
                              (ceilings.budgets.fuelPerDay); a smaller limits.fuel fits beside them";
                return Err(Refused::Held(Error::new(Code::BudgetExhausted, detail)));
            }
            limits.fuel = Fuel::Metered(left);
        }
        let held = asked.min(left);
        self.held += held;
        Ok(held)
    }
}

impl Share {
    /// What the run may still send and receive.
    pub(super) fn allowance(&self) -> Option<Allowance> {
        self.budgets.egress_bytes_per_day.map(|most| Allowance::new(most, Arc::clone(&self.egress)))
    }

    /// Counts the fuel of an attempt, and sets as much aside for another one as the first had.
    /// Says no if there is not so much left.
    pub(super) fn once_more(&mut self, fuel: u64) -> bool {
        let Some(most) = self.budgets.fuel_per_day.filter(|_| self.held > 0) else { return true };
        self.counted += fuel;
        let mut day = self.of.lock();
        if day.day != self.day {
            return true;
        }
        day.fuel = day.fuel.saturating_add(fuel);
        let free = most.saturating_sub(day.fuel).saturating_sub(day.held - self.held);
        free >= self.held
    }

    /// Counts a run that has ended and used so much fuel in all.
    pub(super) fn settle(mut self, fuel: u64) {
        self.settled = true;
        let mut day = self.of.lock();
        if day.day == self.day && self.held > 0 {
            day.fuel = day.fuel.saturating_add(fuel.saturating_sub(self.counted));
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut day = self.of.lock();
        if day.day == self.day {
            day.held -= self.held;
            day.executions -= u64::from(!self.settled);
        }
    }
}

/// Whole seconds until the next UTC day.
fn until_tomorrow(now_ms: i64) -> u32 {
    let left = DAY_MS - now_ms.rem_euclid(DAY_MS);
    u32::try_from((left + 999) / 1000).unwrap_or(1)
}

#[cfg(test)]
pub(super) mod tests;
