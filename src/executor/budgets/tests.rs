use std::sync::atomic::AtomicI64;

use super::*;
use crate::model::{Ceilings, OwnerId, Scope};

/// A key under these ceilings.
pub(in crate::executor) fn key(ceilings: Ceilings) -> Key {
    let id = KeyId::generate();
    Key {
        owner: OwnerId::system(),
        name: "k".into(),
        scopes: Scope::DEFAULT.to_vec(),
        skills: None,
        ceilings,
        expires_at: None,
        created_at: 0,
        revoked_at: None,
        grace_until: None,
        id,
    }
}

const NOON: i64 = 20_000 * DAY_MS + DAY_MS / 2;

fn ledger(days: Vec<KeyDay>) -> (Ledger, Arc<AtomicI64>) {
    let time = Arc::new(AtomicI64::new(NOON));
    (Ledger::new(Clock::Manual(Arc::clone(&time)), days), time)
}

fn with(budgets: Budgets) -> Key {
    key(Ceilings { budgets, ..Ceilings::default() })
}

fn fuel(most: u64) -> Key {
    with(Budgets { fuel_per_day: Some(most), ..Budgets::default() })
}

fn limits(fuel: u64) -> Limits {
    Limits { fuel: Fuel::Metered(fuel), ..Limits::DEFAULT }
}

fn refused(entered: Result<Option<Share>, Refused>) -> u32 {
    let Err(Refused::UsedUp(error)) = entered else { panic!("the budget is not used up") };
    assert_eq!(error.code, Code::BudgetExhausted);
    error.retry_after_s.unwrap()
}

#[test]
fn executions_end_with_the_budget_and_begin_again_with_the_next_day() {
    let (ledger, time) = ledger(Vec::new());
    let key = with(Budgets { executions_per_day: Some(2), ..Budgets::default() });
    let enter = || ledger.enter(&key, &mut Limits::DEFAULT.clone(), false);
    let never_began = enter().unwrap();
    let runs = enter().unwrap().unwrap();
    assert_eq!(refused(enter()), 12 * 60 * 60);
    drop(never_began);
    enter().unwrap().unwrap().settle(0);
    assert_eq!(refused(enter()), 12 * 60 * 60);
    time.store(NOON + DAY_MS / 2 - 1, Ordering::Relaxed);
    assert_eq!(refused(enter()), 1);
    time.store(NOON + DAY_MS, Ordering::Relaxed);
    enter().unwrap().unwrap().settle(0);
    // It counts for the day on which it began.
    runs.settle(0);
    enter().unwrap().unwrap().settle(0);
    // A clock that is set back gives no second day.
    time.store(NOON, Ordering::Relaxed);
    refused(enter());
}

#[test]
fn fuel_is_set_aside_so_that_all_runs_together_keep_to_the_budget() {
    let (ledger, _) = ledger(Vec::new());
    let key = fuel(100);
    let enter = |fuel: u64| {
        let mut limits = limits(fuel);
        ledger.enter(&key, &mut limits, false).map(|share| (share.unwrap(), limits.fuel.units().unwrap()))
    };
    let (first, _) = enter(60).unwrap();
    // The rest is held by one that will end: soon is worth a try, and nothing is cut.
    assert!(matches!(enter(60), Err(Refused::Held(error)) if error.retry_after_s == Some(1)));
    let (beside, _) = enter(40).unwrap();
    first.settle(10);
    beside.settle(40);
    // Nobody else runs: the limit is cut to what is left.
    let (last, cut) = enter(60).unwrap();
    assert_eq!(cut, 50);
    last.settle(50);
    assert!(matches!(enter(1), Err(Refused::UsedUp(error)) if error.retry_after_s == Some(12 * 60 * 60)));
}

#[test]
fn another_attempt_has_as_much_fuel_as_the_first_or_is_not_made() {
    let (ledger, _) = ledger(Vec::new());
    let key = fuel(100);
    let mut share = ledger.enter(&key, &mut limits(40), false).unwrap().unwrap();
    assert!(share.once_more(40));
    assert!(!share.once_more(40));
    share.settle(80);
    let mut rest = limits(40);
    drop(ledger.enter(&key, &mut rest, false).unwrap());
    assert_eq!(rest.fuel, Fuel::Metered(20));
}

#[test]
fn a_called_run_is_an_execution_and_uses_its_callers_fuel() {
    let (ledger, _) = ledger(Vec::new());
    let budgets = Budgets { fuel_per_day: Some(100), executions_per_day: Some(2), ..Budgets::default() };
    let key = with(budgets);
    let caller = ledger.enter(&key, &mut limits(100), false).unwrap().unwrap();
    let mut below = limits(100);
    let called = ledger.enter(&key, &mut below, true).unwrap().unwrap();
    assert_eq!(below.fuel, Fuel::Metered(100));
    refused(ledger.enter(&key, &mut below, true));
    called.settle(30);
    caller.settle(30);
    let each = ledger.each.lock();
    let day = each.get(&key.id).unwrap().lock();
    assert_eq!((day.fuel, day.held, day.executions), (30, 0, 2));
}

#[test]
fn what_was_used_before_a_restart_counts_and_what_belongs_to_yesterday_does_not() {
    let key = with(Budgets { egress_bytes_per_day: Some(10), ..Budgets::default() });
    let known = |day| KeyDay { key: key.id.clone(), day, executions: 1, fuel: 0, egress_bytes: 10 };
    let (today, _) = ledger(vec![known(20_000)]);
    assert_eq!(refused(today.enter(&key, &mut limits(1), false)), 12 * 60 * 60);
    let (yesterday, _) = ledger(vec![known(19_999)]);
    let share = yesterday.enter(&key, &mut limits(1), false).unwrap().unwrap();
    let allowance = share.allowance().unwrap();
    assert!(!allowance.is_used_up());
    allowance.spend(10);
    assert!(allowance.is_used_up());
    share.settle(0);
    refused(yesterday.enter(&key, &mut limits(1), false));
}

#[test]
fn who_has_no_budget_is_not_counted() {
    let (ledger, _) = ledger(Vec::new());
    assert!(ledger.enter(&key(Ceilings::default()), &mut limits(1), false).unwrap().is_none());
    let admin = Key { scopes: vec![Scope::Admin], ..fuel(0) };
    assert!(ledger.enter(&admin, &mut limits(1), false).unwrap().is_none());
    assert!(ledger.each.lock().is_empty());
}
