use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Host, until};

/// Most memory the host may have in use after a hostile guest, in MiB.
const HOST_MEMORY: u64 = 400;
/// Most memory that a guest may make the host use besides its own, in MiB.
const FLOOD_MEMORY: u64 = 80;
/// Most that it may use itself meanwhile, in MiB; three of the floods are big there too.
const FLOOD_GUEST: u64 = 160;

#[tokio::test]
async fn every_limit_bites_and_has_its_own_word() {
    let host = Host::start();
    for (guest, args, limits, outcome) in [
        ("spin", json!({}), json!({ "timeoutMs": 200, "fuel": 1_000_000_000_000_u64 }), "timeout timeout"),
        ("spin", json!({}), json!({ "fuel": 10_000_000 }), "error out_of_fuel"),
        ("fuel-burner", json!({}), json!({ "fuel": 10_000_000 }), "error out_of_fuel"),
        ("memory-hog", json!({ "abort": true }), json!({ "memoryMb": 32 }), "error out_of_memory"),
        ("slow-host-call", json!({}), json!({ "timeoutMs": 200 }), "timeout timeout"),
        ("start-loop", json!({}), json!({ "timeoutMs": 200, "fuel": 1_000_000_000_000_u64 }), "timeout timeout"),
        ("post-return-loop", json!({}), json!({ "timeoutMs": 200, "fuel": 1_000_000_000_000_u64 }), "timeout timeout"),
        ("bulk-copy", json!({}), json!({ "timeoutMs": 2000, "fuel": 1_000_000_000 }), "error out_of_fuel"),
        ("stack-overflow", json!({}), json!({}), "error trap"),
        ("trap", json!({ "kind": "unreachable" }), json!({}), "error trap"),
        ("trap", json!({ "kind": "divide" }), json!({}), "error trap"),
        ("trap", json!({ "kind": "exit0" }), json!({}), "error trap"),
        ("output-flood", json!({ "bytes": 5_000_000 }), json!({}), "error output_too_large"),
        ("bad-output", json!({}), json!({}), "error invalid_output"),
        ("refuse", json!({ "code": "no", "message": "never" }), json!({}), "error skill_error"),
    ] {
        let uploaded = host.upload(guest, crate::support::guest(guest)).await;
        assert!(uploaded.status.is_success(), "{guest}: {}", uploaded.body);
        assert_eq!(host.outcome(guest, args, limits).await, outcome, "{guest}");
        assert!(host.peak_mib() < HOST_MEMORY, "{guest}: {} MiB", host.peak_mib());
    }
}

/// Everything that a guest can hand to the host to keep, or to copy.
#[tokio::test]
async fn no_flood_makes_the_host_grow_by_what_the_guest_may_not_have_itself() {
    let host = Host::start().with("resource-flood").await;
    // What it takes to run this guest at all, with its own memory.
    host.outcome("resource-flood", json!({ "kind": "random", "bytes": 1 }), json!({})).await;
    let before = host.peak_mib();
    for (args, outcome) in [
        (json!({ "kind": "pollables" }), "error trap"),
        (json!({ "kind": "fields" }), "error trap"),
        (json!({ "kind": "random" }), "error trap"),
        // Not without end: a host that fails here must not take the machine along.
        (json!({ "kind": "bodies", "count": 300 }), "success -"),
        (json!({ "kind": "requests", "count": 400 }), "success -"),
        (json!({ "kind": "message" }), "error output_too_large"),
        (json!({ "kind": "list" }), "error output_too_large"),
        (json!({ "kind": "alias" }), "error output_too_large"),
    ] {
        let ended = host.outcome("resource-flood", args.clone(), json!({})).await;
        let grown = host.peak_mib() - before;
        let most = if outcome == "error output_too_large" { FLOOD_MEMORY + FLOOD_GUEST } else { FLOOD_MEMORY };
        assert!(grown < most, "{args}: {grown} MiB");
        assert_eq!(ended, outcome, "{args}");
    }
}

#[tokio::test]
async fn a_deadline_ends_a_guest_soon_after_it_passes() {
    let host = Host::start().with("spin").await;
    let began = Instant::now();
    let reply = host.run("spin", json!({}), json!({ "timeoutMs": 300, "fuel": 1_000_000_000_000_u64 })).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(reply.body["killed"], true);
    assert!(reply.body["error"]["message"].as_str().unwrap().contains("300 ms"), "{}", reply.body);
    assert!(reply.body["usage"]["fuel"].as_u64().unwrap() >= 10_000_000, "{}", reply.body["usage"]);
}

#[tokio::test]
async fn a_run_whose_caller_left_ends_and_says_what_it_used() {
    let host = Host::start().with("spin").await;
    let limits = json!({ "timeoutMs": 60_000, "fuel": 1_000_000_000_000_u64 });
    let left = tokio::time::timeout(Duration::from_millis(500), host.run("spin", json!({}), limits)).await;
    assert!(left.is_err());
    let list = until(async || {
        let list = host.get("/api/skills/executions?status=cancelled").await;
        (list.body["total"] == 1).then_some(list.body)
    })
    .await;
    let usage = &list["executions"][0]["usage"];
    assert!(usage["fuel"].as_u64().unwrap() >= 10_000_000, "{usage}");
    assert!(usage["memoryPeakBytes"].as_u64().unwrap() > 0, "{usage}");
}

#[tokio::test]
async fn an_answer_after_the_deadline_is_a_timeout() {
    let host = Host::start().with("slow-host-call").await;
    for ms in [5, 20, 50] {
        let reply = host.run("slow-host-call", json!({ "ms": ms }), json!({ "timeoutMs": ms })).await;
        assert_eq!(reply.body["status"], "timeout", "{}", reply.body);
    }
}

#[tokio::test]
async fn each_call_gets_a_fresh_instance() {
    let host = Host::start().with("state-leak").await;
    for _ in 0..3 {
        assert_eq!(host.run("state-leak", json!({}), json!({})).await.body["output"]["count"], 1);
    }
}

#[tokio::test]
async fn nothing_is_granted() {
    let host = Host::start().with("wasi-probe").await;
    let probe = host.run("wasi-probe", json!({}), json!({})).await;
    let output = &probe.body["output"];
    for attempt in ["write", "tcpConnect", "udpSend", "resolve", "readHostFile", "http"] {
        assert!(output[attempt]["error"].is_string(), "{attempt}: {output}");
    }
}

#[tokio::test]
async fn a_component_of_too_many_instances_is_refused() {
    let host = Host::start();
    let reply = host.upload("many-instances", crate::support::guest("many-instances")).await;
    assert_eq!(reply.summary(), "422 invalid_component", "{}", reply.body);
}

/// A component that loops, with as many memories as one may have.
const MEMORIES: &str = r#"(component
    (import "skillvisor:skill/types@0.1.0" (instance $types
      (type $record (record (field "code" string) (field "message" string)))
      (export "skill-error" (type (eq $record)))))
    (alias export $types "skill-error" (type $skill-error))
    (type $run (func (param "args" string) (result (result string (error $skill-error)))))
    (core module $one (memory 1))
    (core instance (instantiate $one)) (core instance (instantiate $one)) (core instance (instantiate $one))
    (core instance (instantiate $one)) (core instance (instantiate $one)) (core instance (instantiate $one))
    (core instance (instantiate $one))
    (core module $guest (memory (export "memory") 1)
      (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
      (func (export "run") (param i32 i32) (result i32) (loop $again (br $again)) unreachable))
    (core instance $guest (instantiate $guest))
    (func (export "run") (type $run) (canon lift (core func $guest "run")
      (memory (core memory $guest "memory")) (realloc (core func $guest "realloc")))))"#;

#[tokio::test]
async fn runs_with_many_memories_leave_room_for_all_others() {
    let host = Host::start_with(&["--concurrency-host", "9", "--concurrency-per-owner", "9"]).with("echo").await;
    let uploaded = host.upload("memories", wat::parse_str(MEMORIES).unwrap()).await;
    assert_eq!(uploaded.status, 201, "{}", uploaded.body);
    let limits = || json!({ "timeoutMs": 3000, "fuel": 1_000_000_000_000_u64 });
    let greedy = futures_util::future::join_all((0..8).map(|_| host.outcome("memories", json!({}), limits())));
    let other = async {
        let list = "/api/skills/executions?status=running";
        crate::support::until(async || (host.get(list).await.body["total"] == 8).then_some(())).await;
        host.outcome("echo", json!({}), json!({})).await
    };
    let (greedy, other) = tokio::join!(greedy, other);
    assert_eq!(greedy, ["timeout timeout"; 8]);
    assert_eq!(other, "success -");
}

#[tokio::test]
async fn a_run_that_had_to_wait_is_told_which_of_its_limits_ended_it() {
    let host = Host::start_with(&["--concurrency-host", "1"]).with("spin").await;
    let endless = |limits: serde_json::Value| {
        let mut limits = limits;
        limits["fuel"] = json!(1_000_000_000_000_u64);
        host.run("spin", json!({}), limits)
    };
    let first = endless(json!({ "timeoutMs": 1500 }));
    let second = async {
        let list = "/api/skills/executions?status=running";
        crate::support::until(async || (host.get(list).await.body["total"] == 1).then_some(())).await;
        endless(json!({ "timeoutMs": 2400, "attemptTimeoutMs": 2300 })).await
    };
    let (_, second) = tokio::join!(first, second);
    let message = second.body["error"]["message"].as_str().unwrap();
    assert!(message.ends_with("2400 ms (limits.timeoutMs)"), "{message}");
    let alone = endless(json!({ "timeoutMs": 2400, "attemptTimeoutMs": 300 })).await;
    let message = alone.body["error"]["message"].as_str().unwrap();
    assert!(message.ends_with("300 ms (limits.attemptTimeoutMs)"), "{message}");
}
