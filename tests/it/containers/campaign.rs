use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::campaign;
use crate::support::Host;

use super::{engines, host, left, register, until_no_client_is_left, until_there_are};

/// Lanes of runs side by side.
const LANES: usize = 10;
/// Runs of each lane when no campaign asks for more.
const RUNS: usize = 5;

/// One run after the other until they are all done or the host is gone; how many were answered.
async fn lane(host: &Host, lane: usize, runs: usize) -> usize {
    for run in 0..runs {
        let args = json!({ "lane": lane, "run": run });
        let body = json!({ "skillId": "cat", "args": args, "limits": { "timeoutMs": 300_000 } });
        let request = host.request_as(Some(host.key()), Method::POST, "/api/skills/executions").body(body.to_string());
        let Ok(response) = request.send().await else { return run };
        let Ok(bytes) = response.bytes().await else { return run };
        let ran: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((&ran["status"], &ran["output"]), (&json!("success"), &args), "{ran}");
    }
    runs
}

#[tokio::test]
async fn parallel_runs_and_a_host_killed_meanwhile_leave_no_container_and_no_open_record() {
    let runs = campaign::size(RUNS);
    for engine in engines() {
        let mut host = host(engine);
        register(&host, "cat", &["cat"]).await;
        register(&host, "sleep", &["sleep", "1000"]).await;
        let half = join_all((0..LANES).map(|number| lane(&host, number, runs / 2))).await;
        assert_eq!(half, [runs / 2; LANES], "{engine}");
        let body = json!({ "skillId": "sleep", "args": {}, "mode": "async" });
        for _ in 0..LANES {
            assert_eq!(host.send(Method::POST, "/api/skills/executions", body.clone()).await.status, 202);
        }
        until_there_are(engine, &host, LANES).await;
        host.kill_and_restart();
        let rest = join_all((0..LANES).map(|number| lane(&host, number, runs - runs / 2))).await;
        assert_eq!(rest, [runs - runs / 2; LANES], "{engine}");
        until_there_are(engine, &host, 0).await;
        let count = async |status: &str| {
            let page = host.get(&format!("/api/skills/executions?limit=1&status={status}")).await;
            page.body["total"].as_u64().unwrap()
        };
        let all = (LANES * runs) as u64;
        assert_eq!((count("success").await, count("error").await, count("running").await), (all, LANES as u64, 0));
        assert_eq!(left(engine, &host), [""; 0], "{engine}");
        until_no_client_is_left(&host).await;
    }
}
