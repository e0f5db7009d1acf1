use super::*;
use crate::model::{ExecutionId, Status};
use crate::store::executions::tests::{begun, ended};
use crate::store::{ExecutionFilter, FILE_NAME, Store};

fn open(dir: &Path) -> Store {
    Store::open(dir, Telemetry::new()).unwrap()
}

/// What a host that dies here leaves on the disk.
fn left_by_a_kill(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

async fn statuses(store: &Store, ids: &[ExecutionId]) -> Vec<Option<Status>> {
    let mut statuses = Vec::new();
    for id in ids {
        statuses.push(store.execution(*id, None).await.unwrap().map(|execution| execution.status));
    }
    statuses
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_kill_before_the_database_had_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    // Nobody else can write, so that all stays in the journal.
    let lock = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ids = [ended(&store, 5, 100).await, begun(&store, 7).await.id, ended(&store, 9, 100).await];
    let rows: u32 = lock.query_row("SELECT count(*) FROM skill_executions", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 0);
    let left = left_by_a_kill(dir.path());
    for _ in 0..2 {
        // Also after a second kill, at once after the first start.
        let store = open(left.path());
        let found = statuses(&store, &ids).await;
        assert_eq!(found, [Status::Success, Status::Running, Status::Success].map(Some));
        store.close().await;
    }
}

#[tokio::test]
async fn what_was_forgotten_since_does_not_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let id = ended(&store, 5, 100).await;
    assert_eq!(store.purge_results(4_000_000_000_000, 100).await.unwrap(), 1);
    let left = left_by_a_kill(dir.path());
    let again = open(left.path());
    let found = again.execution(id, None).await.unwrap().unwrap();
    assert!(found.expired.is_some(), "{found:?}");
}

#[tokio::test]
async fn more_than_both_files_hold_is_all_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut ids = Vec::new();
    for at in 0..400 {
        ids.push(ended(&store, at, 40_000).await);
    }
    let kept = statuses(&store, &ids).await;
    assert!(kept.iter().all(|status| *status == Some(Status::Success)));
    let left = left_by_a_kill(dir.path());
    let again = open(left.path());
    let page = again.executions(ExecutionFilter { limit: 1, ..ExecutionFilter::default() }).await.unwrap();
    assert_eq!(page.total, 400);
}

#[tokio::test]
async fn while_the_database_takes_nothing_nothing_begins_and_what_ends_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let running = begun(&store, 1).await;
    store.writer.settle().await;
    let backlog = store.writer.backlog();
    backlog.failed(super::super::writer::rolled_back());
    let refused = crate::store::answered(|then| {
        store.open_execution(Arc::new(running.clone()), crate::store::executions::tests::args(), then);
    });
    assert_eq!(refused.await.unwrap_err().code, Code::StorageFull);
    let id = crate::store::executions::tests::end(&store, running, 5, 100).await;
    assert_eq!(statuses(&store, &[id]).await, [Some(Status::Success)]);
}

#[tokio::test]
async fn what_comes_in_while_the_writer_writes_is_put_into_the_database_without_being_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for at in 0..100 {
        let work = tokio::spawn({
            let store = store.clone();
            async move { store.ping().await }
        });
        ended(&store, at, 100).await;
        work.await.unwrap().unwrap();
    }
    let database = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
    let rows = || database.query_row("SELECT count(*) FROM ended_executions", [], |row| row.get::<_, u32>(0)).unwrap();
    let patience = Instant::now() + std::time::Duration::from_secs(30);
    while rows() < 100 {
        assert!(Instant::now() < patience, "{} of 100", rows());
        tokio::task::yield_now().await;
    }
}
