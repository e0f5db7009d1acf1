use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use skillvisor::{Code, Host as Library, HostOptions};

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

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn where_others_could_put_code_no_host_starts() {
    let dir = Host::start().with("hello").await.stop();
    let data = dir.path().join("data");
    for (open, mode) in [("", 0o777), ("data", 0o770), ("data/cache", 0o777), ("data/blobs", 0o722)] {
        set_mode(&dir.path().join(open), mode);
        let doctor = run(&mut command(&data, &["doctor"]));
        assert!(doctor.stdout.contains("group or others may write it"), "{open}: {}", doctor.stdout);
        let refused = Library::open(HostOptions::new(&data, env!("CARGO_BIN_EXE_skillvisor"))).await;
        let refused = refused.err().unwrap_or_else(|| panic!("it starts with {open:?} at {mode:o}"));
        assert_eq!(refused.code, Code::Unavailable);
        assert!(refused.detail.contains("group or others may write it"), "{open}: {}", refused.detail);
        set_mode(&dir.path().join(open), 0o700);
    }
    // Where only a file's owner can rename it, as in /tmp, it is safe.
    set_mode(dir.path(), 0o1777);
    let host = Host::start_in(dir, &[]);
    assert_eq!(host.outcome("hello", json!({ "name": "Ada" }), json!({})).await, "success -");
}

#[tokio::test]
async fn code_that_others_could_have_written_is_made_anew() {
    let dir = Host::start().with("hello").await.stop();
    let engines = std::fs::read_dir(dir.path().join("data/cache")).unwrap().map(|engine| engine.unwrap().path());
    let files = engines.flat_map(|engine| std::fs::read_dir(engine).unwrap()).map(|file| file.unwrap().path());
    let code = files.filter(|file| file.extension().is_some_and(|kind| kind == "cwasm")).collect::<Vec<_>>();
    let [code] = code.as_slice() else { panic!("{code:?}") };
    let whole = std::fs::read(code).unwrap();
    std::fs::write(code, "something else").unwrap();
    set_mode(code, 0o666);
    let host = Host::start_in(dir, &[]);
    assert_eq!(host.outcome("hello", json!({ "name": "Ada" }), json!({})).await, "success -");
    assert!(std::fs::read(code).unwrap() == whole);
    assert_eq!(std::fs::metadata(code).unwrap().permissions().mode() & 0o077, 0);
}

#[test]
fn a_directory_that_cannot_be_one_is_a_wrong_setting() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("notes.txt");
    std::fs::write(&file, "mine").unwrap();
    for data in [file.clone(), file.join("below")] {
        let refused = run(&mut command(&data, &["serve", "--listen", "127.0.0.1:0"])).expect(2);
        let said = refused.stderr;
        assert!(said.contains("--data-dir") && said.contains("is not a directory"), "{said}");
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
}
