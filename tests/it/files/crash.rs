use super::*;

use tokio::net::TcpStream;

use crate::support::until;

/// Begins to put a file of a mebibyte and stops half-way; gives the connection.
async fn half(host: &Host, path: &str) -> TcpStream {
    let address = host.url.trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let head = format!(
        "PUT /api/workspace/{path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\n\
         content-length: {}\r\n\r\n",
        host.key(),
        1 << 20
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b'n'; 512 << 10]).await.unwrap();
    stream
}

#[tokio::test]
async fn a_program_killed_while_a_file_comes_leaves_the_old_one_or_none_and_no_rest() {
    let mut host = Host::start();
    assert_eq!(put(&host, host.key(), "old", "as it was").await.status, 201);
    let streams = [half(&host, "old").await, half(&host, "new").await];
    let temporary = host.dir.path().join("data/tmp");
    let has_rest = async || {
        let files = std::fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
        (files.filter(|bytes| *bytes > 0).count() == 2).then_some(())
    };
    until(has_rest).await;
    host.kill_and_restart();
    drop(streams);
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    assert_eq!(bytes(&host, host.key(), "old").await, b"as it was");
    assert_eq!(get(&host, host.key(), "new").await.summary(), "404 not_found");
}

#[tokio::test]
async fn what_lies_there_is_counted_anew_after_a_crash() {
    let mut host = Host::start();
    let key = key(&host, "team", json!({ "storage": { "fileBytes": 1000, "files": 10 } })).await;
    assert_eq!(put(&host, &key, "a/b", vec![0; 900]).await.status, 201);
    host.kill_and_restart();
    assert_eq!(put(&host, &key, "c", vec![0; 200]).await.summary(), "507 storage_full");
    assert_eq!(put(&host, &key, "c", vec![0; 100]).await.status, 201);
    for number in 0..7 {
        assert_eq!(put(&host, &key, &format!("e{number}"), "").await.status, 201);
    }
    assert_eq!(put(&host, &key, "more", "").await.summary(), "507 storage_full");
}

#[tokio::test]
async fn a_client_that_leaves_half_way_gets_its_quota_back() {
    let host = Host::start_with(&["--workspace-max-bytes", "1MiB"]);
    drop(half(&host, "a").await);
    until(async || (std::fs::read_dir(host.dir.path().join("data/tmp")).unwrap().count() == 0).then_some(())).await;
    // The file goes first, then what it took.
    until(async || (put(&host, host.key(), "b", vec![0; 1 << 20]).await.status == 201).then_some(())).await;
}
