use serde_json::{Value, json};

use crate::support::{Host, until};

#[tokio::test]
async fn a_killed_host_has_every_acknowledged_run_and_leaves_none_open() {
    let mut host = Host::start().with("hello").await;
    let slow = host.upload("slow-host-call", crate::support::guest("slow-host-call")).await;
    assert_eq!(slow.status, 201);
    let mut acknowledged = Vec::new();
    for n in 0..50 {
        let run = host.run("hello", json!({ "name": n.to_string() }), json!({})).await;
        acknowledged.push((run.body["id"].as_str().unwrap().to_owned(), run.body["output"].clone()));
    }
    let open = host.run("slow-host-call", json!({}), json!({}));
    let _ = tokio::time::timeout(std::time::Duration::from_millis(300), open).await;
    host.kill_and_restart();
    for (id, output) in &acknowledged {
        let found = host.get(&format!("/api/skills/executions/{id}")).await;
        assert_eq!((&found.body["status"], &found.body["output"]), (&json!("success"), output));
    }
    let running = host.get("/api/skills/executions?status=running").await;
    assert_eq!(running.body["executions"], Value::Array(Vec::new()));
    // The skill is there without being compiled again.
    let again = host.run("hello", json!({}), json!({})).await;
    assert_eq!(again.body["status"], "success", "{}", again.body);
}

/// Nobody else can write into the database of the host until this ends, as on a full disk.
fn locked(host: &Host) -> rusqlite::Connection {
    let database = rusqlite::Connection::open(host.dir.path().join("data/skillvisor.db")).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    database
}

#[tokio::test]
async fn a_run_whose_end_the_database_did_not_take_is_there_after_a_kill() {
    let mut host = Host::start().with("hello").await;
    let database = locked(&host);
    let run = host.run("hello", json!({ "name": "Ada" }), json!({})).await;
    assert_eq!(run.body["status"], "success", "{}", run.body);
    let none: u32 = database.query_row("SELECT count(*) FROM skill_executions", [], |row| row.get(0)).unwrap();
    assert_eq!(none, 0);
    drop(database);
    host.kill_and_restart();
    let found = host.get(&format!("/api/skills/executions/{}", run.body["id"].as_str().unwrap())).await;
    assert_eq!((&found.body["status"], &found.body["output"]), (&json!("success"), &run.body["output"]));
}

#[tokio::test]
async fn an_end_that_could_not_be_written_down_is_written_down_later() {
    let host = Host::start().with("hello").await;
    let database = locked(&host);
    // Longer than what the journal takes.
    let name = "n".repeat(100_000);
    let run = host.run("hello", json!({ "name": name }), json!({})).await;
    assert_eq!(run.summary(), "503 unavailable");
    database.execute_batch("ROLLBACK").unwrap();
    let statuses = async || host.get("/api/skills/executions").await.body["executions"][0]["status"].clone();
    until(async || (statuses().await == "success").then_some(())).await;
}
