use super::*;
use serde_json::value::RawValue;

use crate::model::{Door, ExpiredResult, Said, SkillId, Streams, Usage, redacted_copy};
use crate::store::answered;
use crate::telemetry::Telemetry;

/// An execution that began at `created_at`.
pub(in crate::store) async fn begun(store: &Store, created_at: i64) -> Execution {
    let execution = Execution {
        id: ExecutionId::generate(),
        owner: OwnerId::admin(),
        skill: SkillId::generate(),
        skill_address: "a@1.0.0".into(),
        function: "run".into(),
        digest: Digest::of(b""),
        status: Status::Running,
        output: None,
        expired: None,
        streams: Streams::default(),
        said: Said::default(),
        exit_code: None,
        error: None,
        denials: Vec::new(),
        attempts: 1,
        earlier: Vec::new(),
        interceptors: Vec::new(),
        usage: Usage::default(),
        parent_id: None,
        session_id: None,
        door: Door::Http,
        key_id: KeyId::generate(),
        created_at,
        started_at: Some(created_at),
        finished_at: None,
        duration_us: None,
    };
    answered(|then| store.open_execution(Arc::new(execution.clone()), args(), then)).await.unwrap();
    execution
}

pub(in crate::store) fn args() -> Arc<ArgsRecord> {
    Arc::new(ArgsRecord { digest: Digest::of(b"{}"), bytes: 2, copy: "{}".to_owned() })
}

/// An execution that ended at `finished_at`, with an output of `bytes` bytes.
pub(in crate::store) async fn ended(store: &Store, finished_at: i64, bytes: usize) -> ExecutionId {
    let execution = begun(store, 0).await;
    end(store, execution, finished_at, bytes).await
}

/// The same for one that has begun.
pub(in crate::store) async fn end(
    store: &Store,
    mut execution: Execution,
    finished_at: i64,
    bytes: usize,
) -> ExecutionId {
    let text = format!("\"{}\"", "x".repeat(bytes - 2));
    execution.status = Status::Success;
    execution.finished_at = Some(finished_at);
    let output_copy = Some(redacted_copy(&text, 64));
    let output_digest = Some(Digest::of(text.as_bytes()));
    execution.output = RawValue::from_string(text).ok();
    let id = execution.id;
    let finished = FinishedExecution {
        execution: Arc::new(execution),
        args: args(),
        output_digest,
        output_copy,
        counts: false,
        told: Vec::new(),
        waited: false,
    };
    answered(|then| store.close_execution(Arc::new(finished), then)).await.unwrap();
    id
}

#[tokio::test]
async fn results_are_forgotten_by_their_end_and_some_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Telemetry::new()).unwrap();
    let far = i64::MAX >> 16;
    let (late, early) = (ended(&store, far, 10).await, ended(&store, 5, 10).await);
    for bytes in [9 << 20, 5 << 20, 3 << 20, 10] {
        ended(&store, 5, bytes).await;
    }
    // The ids are of today, and each is older than what is asked for.
    let mut purged = Vec::new();
    while let Some(count) = Some(store.purge_results(far, 3).await.unwrap()).filter(|count| *count > 0) {
        purged.push(count);
    }
    assert_eq!(purged, [1, 1, 2, 1], "by bytes, and at most three");
    let gone = store.execution(early, None).await.unwrap().unwrap();
    let expired = ExpiredResult { output_copy: Some("\"xxxxxxxx\"".into()), output_bytes: Some(10) };
    assert!(gone.output.is_none() && gone.expired == Some(expired), "{gone:?}");
    let kept = store.execution(late, None).await.unwrap().unwrap();
    assert!(kept.output.is_some() && kept.expired.is_none(), "{kept:?}");
}

#[tokio::test]
async fn what_a_clock_that_was_set_back_interrupts_took_no_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Telemetry::new()).unwrap();
    let id = begun(&store, 5_000).await.id;
    assert_eq!(store.interrupt_open_executions(1_000).await.unwrap(), 1);
    assert_eq!(store.execution(id, None).await.unwrap().unwrap().duration_us, Some(0));
}

#[tokio::test]
async fn an_execution_is_seen_once_open_and_ended_and_closed_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Telemetry::new()).unwrap();
    let older = ended(&store, 5, 10).await;
    let mut execution = begun(&store, 7).await;
    let listed = async |status| {
        let filter = ExecutionFilter { owner: Some(OwnerId::admin()), status, limit: 10, ..ExecutionFilter::default() };
        let page = store.executions(filter).await.unwrap();
        assert_eq!(page.total, page.executions.len() as u64);
        page.executions.iter().map(|execution| (execution.id, execution.status)).collect::<Vec<_>>()
    };
    let id = execution.id;
    let before = [(id, Status::Running), (older, Status::Success)];
    assert_eq!(listed(None).await, before);
    assert_eq!(listed(Some(Status::Running)).await, before[..1]);
    assert_eq!(store.execution(id, None).await.unwrap().unwrap().finished_at, None);
    execution.status = Status::Cancelled;
    execution.finished_at = Some(9);
    let finished = FinishedExecution {
        execution: Arc::new(execution),
        args: args(),
        output_digest: None,
        output_copy: None,
        counts: false,
        told: Vec::new(),
        waited: false,
    };
    let finished = Arc::new(finished);
    for _ in 0..2 {
        answered(|then| store.close_execution(Arc::clone(&finished), then)).await.unwrap();
        assert_eq!(listed(None).await, [(id, Status::Cancelled), before[1]]);
        assert_eq!(listed(Some(Status::Running)).await, []);
    }
    assert_eq!(store.execution(id, None).await.unwrap().unwrap().finished_at, Some(9));
    assert_eq!(store.interrupt_open_executions(11).await.unwrap(), 0);
}

#[tokio::test]
async fn a_page_of_one_owner_is_one_walk_along_an_index_whatever_else_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Telemetry::new()).unwrap();
    let owned = || ExecutionFilter { owner: Some(OwnerId::admin()), limit: 50, ..ExecutionFilter::default() };
    const OWNER: &str = "ended_executions_owner (owner=? AND id<?)";
    let with_status = |status| ExecutionFilter { status: Some(status), ..owned() };
    for (filter, walk) in [
        (owned(), OWNER),
        (with_status(Status::Success), OWNER),
        (with_status(Status::Timeout), "ended_executions_unsuccessful (owner=? AND status=? AND id<?)"),
        (with_status(Status::Cancelled), "ended_executions_unsuccessful (owner=? AND status=? AND id<?)"),
        (
            ExecutionFilter { session: Some("s".into()), ..owned() },
            "ended_executions_session (owner=? AND session_id=? AND id<?)",
        ),
        (ExecutionFilter { key: Some(KeyId::generate()), ..owned() }, OWNER),
        (ExecutionFilter { skill: Some("a".into()), ..owned() }, OWNER),
        (ExecutionFilter { skill: Some("a@1.0.0".into()), ..owned() }, OWNER),
        (ExecutionFilter { names: Some(vec!["a".parse().unwrap()]), ..owned() }, OWNER),
        (ExecutionFilter { since: Some(5), ..owned() }, OWNER),
        (ExecutionFilter { before: Some(ExecutionId::generate()), ..owned() }, OWNER),
    ] {
        one_walk(&store, filter, walk).await;
    }
    let all = ExecutionFilter { limit: 50, ..ExecutionFilter::default() };
    let plan = plan(&store, page_text(Conditions::of(&all), &all)).await;
    assert!(plan.contains(&"SEARCH ended_executions USING PRIMARY KEY (id<?)".to_owned()), "{plan:?}");
}

/// Of those that have ended, a page is one walk along this index, in its order; only the few that are open
/// are sorted.
async fn one_walk(store: &Store, filter: ExecutionFilter, walk: &str) {
    let plan = plan(store, page_text(Conditions::of(&filter), &filter)).await;
    let open = plan.iter().position(|step| step == "RIGHT").unwrap();
    let ended: Vec<_> = plan[..open].iter().filter(|step| !step.contains("json_each")).collect();
    assert_eq!(ended[..2], ["MERGE (UNION ALL)", "LEFT"], "{plan:?}");
    assert_eq!(*ended[2], format!("SEARCH ended_executions USING INDEX {walk}"), "{plan:?}");
    let sorts = ended.iter().any(|step| step.contains("TEMP B-TREE") || step.starts_with("SCAN"));
    assert!(!sorts, "{plan:?}");
    assert!(plan[open..].contains(&"SCAN open_executions".to_owned()), "{plan:?}");
}

async fn plan(store: &Store, (text, values): (String, Vec<Sql>)) -> Vec<String> {
    let plan = store.read(move |connection| {
        let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {text}"))?;
        explain.query_map(params_from_iter(values), |row| row.get::<_, String>("detail"))?.collect()
    });
    plan.await.unwrap()
}

#[tokio::test]
async fn totals_are_right_whether_they_are_known_or_counted() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Telemetry::new()).unwrap();
    for at in 1..=5 {
        ended(&store, at, 10).await;
    }
    begun(&store, 7).await;
    store.interrupt_open_executions(9).await.unwrap();
    begun(&store, 10).await;
    let total = async |owner: Option<&str>, status, since| {
        let owner = owner.map(|owner| owner.parse().unwrap());
        store.executions(ExecutionFilter { owner, status, since, ..ExecutionFilter::default() }).await.unwrap().total
    };
    for owner in [None, Some("admin")] {
        // What every execution has, so that all are looked at.
        for since in [None, Some(0)] {
            assert_eq!(total(owner, None, since).await, 7);
            assert_eq!(total(owner, Some(Status::Success), since).await, 5);
            assert_eq!(total(owner, Some(Status::Error), since).await, 1);
            assert_eq!(total(owner, Some(Status::Running), since).await, 1);
        }
    }
    store.checkpoint(20).await.unwrap();
    store.purge_audit(21, 4).await.unwrap();
    let left = total(None, None, Some(0)).await;
    assert!(left < 7);
    assert_eq!(total(Some("admin"), None, None).await, left);
    let erasure = store.begin_erasure(OwnerId::admin(), 1).await.unwrap();
    store.erase_records(erasure.clone(), 0).await.unwrap();
    assert_eq!(total(Some("admin"), None, None).await, 1, "what is open");
    assert_eq!(total(Some(erasure.pseudonym.as_str()), None, None).await, left - 1);
    assert_eq!(total(None, None, None).await, left);
}
