use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use skillvisor::{Host as Library, HostOptions};

use crate::support::{Host, command, run};

/// Answers whatever it is asked with 200, and says whether it was asked anything.
fn stranger() -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            seen.store(true, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
        }
    });
    (url, asked)
}

#[tokio::test]
async fn whoever_took_a_dead_servers_port_is_sent_nothing_while_another_host_starts() {
    let dir = Host::start().kill();
    let data = dir.path().join("data");
    let (url, asked) = stranger();
    let left = json!({ "pid": 1, "url": url }).to_string();
    std::fs::write(data.join("server.json"), &left).unwrap();
    // It holds the lock and never says where it serves: the longest start there is.
    let host = Library::open(HostOptions::new(&data, env!("CARGO_BIN_EXE_skillvisor"))).await.unwrap();
    let ended = tokio::task::spawn_blocking(move || {
        let doctor = run(&mut command(&data, &["doctor"]));
        assert!(!doctor.stdout.contains("kill 1"), "{}", doctor.stdout);
        run(&mut command(&data, &["list"]))
    });
    ended.await.unwrap().expect(9);
    assert!(!asked.load(Ordering::SeqCst));
    drop(host);
}

fn modes(directory: &Path) -> Vec<(String, u32)> {
    let files = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    files
        .map(|file| (file.file_name().into_string().unwrap(), file.metadata().unwrap().permissions().mode() & 0o777))
        .collect()
}

#[tokio::test]
async fn in_a_directory_that_others_may_enter_nothing_is_theirs_to_read() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::DirBuilder::new().mode(0o755).create(&data).unwrap();
    let host = Host::start_in(dir, &[]).with("hello").await;
    let found = modes(&data);
    assert!(
        ["skillvisor.db", "skillvisor.db-wal", "lock"].iter().all(|name| found.iter().any(|(file, _)| file == name))
    );
    assert!(found.iter().all(|(_, mode)| mode & 0o077 == 0), "{found:?}");
    // As versions before this one left them.
    let dir = host.kill();
    for (name, _) in found.iter().filter(|(name, _)| name.starts_with("skillvisor.db") || name == "lock") {
        std::fs::set_permissions(data.join(name), std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    let host = Host::start_in(dir, &[]);
    assert!(modes(&data).iter().all(|(_, mode)| mode & 0o077 == 0), "{:?}", modes(&data));
    assert_eq!(host.get("/api/skills").await.body["total"], 1);
}
