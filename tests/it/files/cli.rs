use super::*;

use crate::support::{command, run};

#[tokio::test]
async fn files_are_put_listed_got_and_removed_from_the_command_line() {
    let host = Host::start();
    let data = host.dir.path().join("data");
    let here = tempfile::tempdir().unwrap();
    let local = here.path().join("big.bin");
    let content: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    std::fs::write(&local, &content).unwrap();
    let files = |arguments: &[&str]| {
        let arguments: Vec<_> = std::iter::once("files").chain(arguments.iter().copied()).collect();
        run(command(&data, &arguments).current_dir(here.path()))
    };
    let text = local.to_str().unwrap();
    let put = files(&["put", text, "in/", "--json"]).expect(0).json();
    assert_eq!((&put["path"], &put["size"]), (&json!("in/big.bin"), &json!(content.len())));
    files(&["put", text]).expect(0);
    let listed = files(&["ls", "--json"]).expect(0).json();
    let paths: Vec<_> = listed["entries"].as_array().unwrap().iter().map(|entry| entry["path"].clone()).collect();
    assert_eq!(paths, ["big.bin", "in"]);
    assert!(files(&["ls", "in"]).expect(0).stdout.contains("in/big.bin"));
    files(&["get", "in/big.bin", "copy"]).expect(0);
    assert_eq!(std::fs::read(here.path().join("copy")).unwrap(), content);
    files(&["get", "none"]).expect(4);
    assert!(!here.path().join("none").exists() && !here.path().join("none.part").exists());
    files(&["get", "../admin.key"]).expect(2);
    files(&["get", "in"]).expect(2);
    files(&["ls", "big.bin"]).expect(2);
    files(&["rm", "in"]).expect(5);
    files(&["rm", "--recursive", "in"]).expect(0);
    assert_eq!(files(&["rm", "big.bin", "--json"]).expect(0).json(), json!({ "removed": "big.bin" }));
    assert_eq!(files(&["ls", "--json"]).expect(0).json()["total"], 0);
    let small = key(&host, "small", json!({ "storage": { "fileBytes": 10 } })).await;
    let full = run(command(&data, &["files", "put", text]).env("SKILLVISOR_KEY", &small));
    assert!(full.expect(7).stderr.contains("quota"));
}
