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
    let (begins, begun) = tokio::sync::oneshot::channel();
    let (go_on, goes_on) = channel();
    let writing = crate::store::answered(|then| {
        let work = move |_: &rusqlite::Connection| {
            begins.send(()).unwrap();
            goes_on.recv().unwrap();
            Ok(())
        };
        store.writer.send(work, then);
    });
    let meanwhile = async {
        begun.await.unwrap();
        ended(&store, 5, 100).await;
        go_on.send(()).unwrap();
    };
    let (written, ()) = tokio::join!(writing, meanwhile);
    written.unwrap();
    let database = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
    let rows = || database.query_row("SELECT count(*) FROM ended_executions", [], |row| row.get::<_, u32>(0)).unwrap();
    let patience = Instant::now() + std::time::Duration::from_secs(10);
    while rows() < 1 {
        assert!(Instant::now() < patience, "it is not in the database");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_sqlite_takes_back_by_itself_does_not_count_as_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let first = ended(&store, 5, 100).await;
    let (begins, begun) = tokio::sync::oneshot::channel();
    let (go_on, goes_on) = channel();
    let writing = crate::store::answered(|then| {
        let work = move |connection: &rusqlite::Connection| {
            begins.send(()).unwrap();
            goes_on.recv().unwrap();
            // As SQLite does when the disk is full.
            connection.execute_batch("ROLLBACK")
        };
        store.writer.send(work, then);
    });
    let database = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
    let meanwhile = async {
        begun.await.unwrap();
        let second = ended(&store, 6, 100).await;
        go_on.send(()).unwrap();
        second
    };
    let (written, second) = tokio::join!(writing, meanwhile);
    assert_eq!(written.unwrap_err().code, Code::StorageFull);
    let both = "SELECT (SELECT applied FROM journal), (SELECT count(*) FROM ended_executions)";
    let patience = Instant::now() + std::time::Duration::from_secs(10);
    loop {
        let (applied, rows): (u64, u64) = database.query_row(both, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(applied, 2 * rows, "each has a record of its begin and one of its end");
        if rows == 2 {
            break;
        }
        assert!(Instant::now() < patience);
        tokio::task::yield_now().await;
    }
    assert_eq!(statuses(&store, &[first, second]).await, [Some(Status::Success); 2]);
}

#[tokio::test]
async fn while_the_database_is_another_programs_what_begins_is_refused_and_after_that_all_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let running = begun(&store, 1).await;
    store.writer.settle().await;
    let lock = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let id = ended(&store, 5, 100).await;
    let patience = Instant::now() + std::time::Duration::from_secs(60);
    while store.writer.backlog().trouble().is_none() {
        assert!(Instant::now() < patience, "the journal does not hear of it");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let args = crate::store::executions::tests::args();
    let refused = crate::store::answered(|then| store.open_execution(Arc::new(running), args, then));
    assert_eq!(refused.await.unwrap_err().code, Code::Unavailable);
    lock.execute_batch("ROLLBACK").unwrap();
    let found = || lock.query_row("SELECT count(*) FROM ended_executions", [], |row| row.get::<_, u32>(0)).unwrap();
    while found() == 0 {
        assert!(Instant::now() < patience, "nobody tries again");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(statuses(&store, &[id]).await, [Some(Status::Success)]);
}

#[tokio::test]
async fn a_start_takes_what_is_missing_in_the_order_of_its_numbers_wherever_it_stood() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let lock = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ids = [ended(&store, 5, 100).await, ended(&store, 6, 100).await, ended(&store, 7, 100).await];
    let left = left_by_a_kill(dir.path());
    let mut records = Opened::new(left.path()).unwrap().left;
    records.rotate_left(4);
    let mut connection = rusqlite::Connection::open(left.path().join(FILE_NAME)).unwrap();
    connection.execute("UPDATE journal SET applied = 2", []).unwrap();
    assert_eq!(crate::store::executions::recover(&mut connection, records).unwrap(), 6);
    let rows: u32 = connection.query_row("SELECT count(*) FROM ended_executions", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 2, "{ids:?}: the first was said to be there");
}
