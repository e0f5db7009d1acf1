use serde_json::json;

use super::{register, version};
use crate::support::{Host, command, run};

#[tokio::test]
async fn a_damaged_row_is_left_out_and_reported_and_the_rest_works() {
    let host = Host::start();
    for number in ["1.0.0", "1.1.0"] {
        version(&host, host.key(), number, json!({})).await;
    }
    let dir = host.stop();
    let database = rusqlite::Connection::open(dir.path().join("data/skillvisor.db")).unwrap();
    database.execute("UPDATE skills SET grants = '{' WHERE version = '1.1.0'", []).unwrap();
    database.execute("INSERT INTO skill_aliases VALUES ('admin', 'echo', '^^', '1.0.0', 'k', 0)", []).unwrap();
    drop(database);
    let host = Host::start_in(dir, &[]);
    let log = host.log();
    assert!(log.contains("A row of `skills` cannot be read") && log.contains("A row of `skill_aliases`"), "{log}");
    assert_eq!(host.get("/api/skills").await.body["total"], 1);
    assert_eq!(host.outcome("echo", json!({}), json!({})).await, "success -");
    // What the version was cannot be told any more: nothing else may take its place.
    let again = register(&host, host.key(), json!({ "name": "echo", "version": "1.1.0" })).await;
    assert_eq!(again.summary(), "409 conflict");
    version(&host, host.key(), "1.1.1", json!({})).await;
    let data = host.dir.path().join("data");
    let doctor = run(&mut command(&data, &["doctor", "--json"])).expect(1).json();
    let checks = doctor["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "database").unwrap();
    assert_eq!(check["verdict"], "fail");
    assert!(check["found"].as_str().unwrap().starts_with("1 of 3 versions of skills cannot be read"), "{check}");
}
