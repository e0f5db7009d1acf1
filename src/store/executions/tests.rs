use super::*;
use crate::model::{Door, redacted_copy};
use crate::telemetry::Telemetry;

/// An execution that began at `created_at`.
async fn begun(store: &Store, created_at: i64) -> Execution {
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
        exit_code: None,
        error: None,
        denials: Vec::new(),
        attempts: 1,
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
    let args = (Digest::of(b"{}"), "{}".to_owned());
    let new =
        NewExecution { execution: Arc::new(execution.clone()), args_digest: args.0, args_bytes: 2, args_copy: args.1 };
    store.open_execution(new).await.unwrap();
    execution
}

/// An execution that ended at `finished_at`, with an output of `bytes` bytes.
async fn ended(store: &Store, finished_at: i64, bytes: usize) -> ExecutionId {
    let text = format!("\"{}\"", "x".repeat(bytes - 2));
    let mut execution = begun(store, 0).await;
    execution.status = Status::Success;
    execution.finished_at = Some(finished_at);
    let output_copy = Some(redacted_copy(&text, 64));
    let output_digest = Some(Digest::of(text.as_bytes()));
    execution.output = RawValue::from_string(text).ok();
    let id = execution.id;
    store
        .close_execution(FinishedExecution { execution: Arc::new(execution), output_digest, output_copy })
        .await
        .unwrap();
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
