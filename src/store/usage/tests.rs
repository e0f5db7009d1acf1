use std::sync::Arc;

use super::*;
use crate::model::{ExecutionId, RunError, Status, Usage};
use crate::store::executions::tests::{args, begun, end};
use crate::store::{FinishedExecution, answered};
use crate::telemetry::Telemetry;

/// Everything of the owner of the executions here.
async fn days(store: &Store) -> Vec<(i64, String, u64, u64, u64)> {
    let days = store.usage_days(OwnerId::admin(), (0, 10)).await.unwrap();
    days.into_iter().map(|day| (day.day, day.outcome, day.executions, day.fuel, day.longest_us)).collect()
}

/// Ends an execution otherwise than with success.
async fn fail(store: &Store, mut execution: Execution, times: usize) {
    execution.status = Status::Error;
    execution.error = Some(RunError::new(crate::model::Code::Trap, "unreachable"));
    execution.usage = Usage { fuel: 7, egress_bytes: 3, ..Usage::default() };
    execution.finished_at = Some(9);
    execution.duration_us = Some(40);
    execution.streams.stderr = "oh".to_owned();
    let finished = Arc::new(FinishedExecution {
        execution: Arc::new(execution),
        args: args(),
        output_digest: None,
        output_copy: None,
        counts: false,
        told: Vec::new(),
        waited: false,
    });
    for _ in 0..times {
        answered(|then| store.close_execution(Arc::clone(&finished), then)).await.unwrap();
    }
}

#[tokio::test]
async fn what_ends_is_counted_once_by_day_and_outcome_also_if_it_is_written_down_twice() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Telemetry::new()).unwrap();
    let later = begun(&store, DAY_MS + 5).await;
    for _ in 0..3 {
        let execution = begun(&store, 5).await;
        end(&store, execution, 9, 100).await;
    }
    // Too long for the journal.
    let long = begun(&store, 5).await;
    end(&store, long, 9, 100_000).await;
    fail(&store, later.clone(), 2).await;
    let child = Execution { id: ExecutionId::generate(), parent_id: Some(later.id), ..later };
    fail(&store, child, 1).await;
    let success = (0, "success".to_owned(), 4, 0, 0);
    assert_eq!(days(&store).await, [success.clone(), (1, "trap".to_owned(), 2, 7, 40)]);
    // What is left open is counted when it is closed as lost.
    begun(&store, 5).await;
    assert_eq!(store.interrupt_open_executions(50).await.unwrap(), 1);
    let lost = (0, "interrupted".to_owned(), 1, 0, 0);
    assert_eq!(days(&store).await, [lost, success, (1, "trap".to_owned(), 2, 7, 40)]);
}

#[tokio::test]
async fn what_is_kept_of_results_is_known_after_a_restart_and_when_they_are_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let owner = OwnerId::admin();
    let far = i64::MAX >> 16;
    let store = Store::open(dir.path(), Telemetry::new()).unwrap();
    for (finished_at, bytes) in [(5, 100), (far, 70_000), (5, 30)] {
        let execution = begun(&store, 5).await;
        end(&store, execution, finished_at, bytes).await;
    }
    assert_eq!(store.kept_result_bytes(&owner), 70_130);
    store.close().await;
    drop(store);
    let store = Store::open(dir.path(), Telemetry::new()).unwrap();
    assert_eq!(store.kept_result_bytes(&owner), 70_130);
    assert_eq!(store.purge_results(far, 10).await.unwrap(), 2);
    assert_eq!(store.kept_result_bytes(&owner), 70_000);
    // As the database has it.
    let again = store.read(Kept::of_database).await.unwrap();
    assert_eq!(again.of(&owner), 70_000);
    assert_eq!(store.owner_bytes(owner).await.unwrap(), OwnerBytes { results: 70_000, components: 0, kv: 0 });
}

#[tokio::test]
async fn usage_is_one_walk_along_the_key_of_its_table_however_many_executions_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Telemetry::new()).unwrap();
    let plan = store.read(|connection| {
        let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {DAYS}"))?;
        explain.query_map(params!["a", 0, 9], |row| row.get::<_, String>("detail"))?.collect::<rusqlite::Result<_>>()
    });
    let plan: Vec<String> = plan.await.unwrap();
    assert_eq!(plan, ["SEARCH usage_days USING PRIMARY KEY (owner=? AND day>? AND day<?)"]);
}

#[test]
fn no_sum_leaves_the_integers() {
    assert_eq!(sum(MOST, i64::MAX), MOST);
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch(
            "CREATE TABLE usage_days (owner TEXT, day INTEGER, outcome TEXT, executions INTEGER NOT NULL,
             fuel INTEGER NOT NULL, egress_bytes INTEGER NOT NULL, duration_us INTEGER NOT NULL,
             longest_us INTEGER NOT NULL, PRIMARY KEY (owner, day, outcome)) STRICT",
        )
        .unwrap();
    for _ in 0..3 {
        connection.execute(COUNT_DAY, params!["a", 0, "success", 1, MOST, MOST, MOST, MOST]).unwrap();
    }
    let fuel: i64 = connection.query_row("SELECT fuel FROM usage_days", [], |row| row.get(0)).unwrap();
    assert_eq!(fuel, MOST);
}

#[test]
fn what_was_recorded_before_is_counted_by_the_upgrade() {
    let mut connection = Connection::open_in_memory().unwrap();
    let steps = crate::store::migrations::steps_before("CREATE TABLE usage_days");
    crate::store::migrations::apply_first(&mut connection, steps);
    for (id, code) in [(1_u8, None), (2, Some("trap"))] {
        let insert = "INSERT INTO ended_executions (id, owner, status, skill_id, skill, function, digest, key_id, door,
            attempts, created_at, queue_us, fuel, memory_peak_bytes, egress_bytes, args_sha256, args_bytes, args_copy,
            duration_us, error_code)
            VALUES (?1, 'a', 'success', x'00', 'b@1.0.0', 'run', x'00', 'k', 'http', 1, 86400001, 0, 7, 0, 2, x'00', 2,
            '{}', 3, ?2)";
        connection.execute(insert, params![[id; 16], code]).unwrap();
        let insert = "INSERT INTO execution_results VALUES (?1, 'a', '\"é\"', 'out', '', 0, 0, NULL, 0)";
        connection.execute(insert, params![[id; 16]]).unwrap();
    }
    crate::store::migrations::apply(&mut connection).unwrap();
    let text = "SELECT group_concat(owner || day || outcome || executions || fuel || egress_bytes || duration_us)
                FROM usage_days";
    let counted: String = connection.query_row(text, [], |row| row.get(0)).unwrap();
    assert_eq!(counted, "a1success1723,a1trap1723");
    let kept = Kept::of_database(&connection).unwrap();
    assert_eq!(kept.of(&"a".parse().unwrap()), 14);
}
