//! Lists of an audit with many executions. `scripts/campaign rows` makes a million of them.

use std::time::{Duration, Instant};

use crate::campaign;
use crate::support::Host;

/// Executions when no campaign asks for more.
const ROWS: usize = 3_000;
/// How often each list is asked for.
const TIMES: usize = 9;

/// Executions of two owners in turn, of which one in a hundred failed, and one in ten is of a session.
fn fill(host: Host, rows: usize) -> Host {
    let dir = host.stop();
    let database = rusqlite::Connection::open(dir.path().join("data/skillvisor.db")).unwrap();
    let insert = format!(
        "BEGIN;
         WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {rows})
         INSERT INTO ended_executions (id, owner, status, skill_id, skill, function, digest, key_id, door, session_id,
         attempts, created_at, queue_us, args_sha256, args_bytes, args_copy, fuel, memory_peak_bytes, egress_bytes,
         finished_at, duration_us, error_code, error_message, output_copy)
         SELECT unhex(printf('%012x7%03x8%015x', 1700000000000 + n, n % 4096, n)), iif(n % 2, 'a', 'b'),
         iif(n % 100 < 2, 'timeout', 'success'), zeroblob(16), iif(n % 1000 < 2, 'rare@1.0.0', 'often@1.0.0'), 'run',
         zeroblob(32), 'key_' || printf('%032d', n % 4), 'http', iif(n % 10 < 2, 's', NULL), 1, 1700000000000 + n, 0,
         zeroblob(32), 2, '{{\"name\":\"' || hex(randomblob(40)) || '\"}}', 1000, 65536, 0, 1700000000001 + n, 900,
         iif(n % 100 < 2, 'timeout', NULL), iif(n % 100 < 2, 'took too long', NULL), '{{}}' FROM n;
         INSERT INTO execution_counts SELECT owner, count(*) FROM ended_executions WHERE true GROUP BY owner
         ON CONFLICT DO UPDATE SET ended = excluded.ended;
         COMMIT"
    );
    database.execute_batch(&insert).unwrap();
    drop(database);
    Host::start_in(dir, &[])
}

#[tokio::test]
async fn pages_and_totals_of_many_executions_are_right_and_come_soon() {
    let rows = campaign::size(ROWS);
    let host = fill(Host::start(), rows);
    for (query, total) in [
        ("", rows),
        ("owner=a", rows / 2),
        ("owner=a&status=success", rows / 2 - rows / 100),
        ("owner=a&status=timeout", rows / 100),
        ("owner=a&status=running", 0),
        ("owner=a&session=s", rows / 10),
        ("owner=a&skill=often", rows / 2 - rows / 1000),
        ("owner=a&skill=rare", rows / 1000),
        ("owner=a&since=2023-11-14T22:13:20.000Z", rows / 2),
    ] {
        let (mut times, mut page) = (Vec::new(), serde_json::Value::Null);
        for _ in 0..TIMES {
            let begun = Instant::now();
            page = host.get(&format!("/api/skills/executions?limit=50&{query}")).await.body;
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        let median: Duration = times[TIMES / 2];
        println!("{rows} rows, {query:45} {:8.2} ms, {}", median.as_secs_f64() * 1e3, page["total"]);
        assert_eq!(page["total"], total, "{query}");
        let created: Vec<_> =
            page["executions"].as_array().unwrap().iter().map(|run| run["createdAt"].as_str()).collect();
        assert_eq!(created.len(), total.min(50), "{query}");
        assert!(created.is_sorted_by(|newer, older| newer > older), "{query}: {created:?}");
    }
}
