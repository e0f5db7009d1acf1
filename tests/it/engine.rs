use serde_json::json;

use crate::support::Host;

#[tokio::test]
async fn a_slowed_guest_gets_through_a_part_of_the_work_and_ends_at_its_deadline() {
    let host = Host::start().with("spin").await.with("hello").await;
    let work_at = async |percent: u64| {
        let limits = json!({ "timeoutMs": 800, "fuel": 1_000_000_000_000_u64, "cpuPercent": percent });
        let ended = host.run("spin", json!({}), limits).await;
        assert_eq!(ended.body["error"]["code"], "timeout", "{}", ended.body);
        ended.body["usage"]["fuel"].as_u64().unwrap()
    };
    let (slow, whole, more) = (work_at(4).await, work_at(100).await, work_at(400).await);
    assert!(slow * 3 < whole && slow * 3 < more, "{slow} of {whole} and of {more}");
    // What needs less than its share is there as ever.
    assert_eq!(host.outcome("hello", json!({ "name": "Ada" }), json!({ "cpuPercent": 1 })).await, "success -");
}
