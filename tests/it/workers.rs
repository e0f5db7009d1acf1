use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use skillvisor::model::Digest;

use crate::bombs::shapes::deep_blocks;
use crate::power::strays;
use crate::support::{Host, guest, until};

/// Blocks that take a worker seconds.
const LONG: usize = 20_000;

/// A host with a guest, and with nothing left to compile.
async fn with(name: &str) -> Host {
    let host = Host::start();
    let uploaded = host.upload(name, guest(name)).await;
    assert!(uploaded.status.is_success(), "{}", uploaded.body);
    assert_eq!(strays(&host).await, Ok(()));
    host
}

/// The compile worker that works on something in this directory.
fn worker_in(dir: &Path) -> Option<Pid> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_ours = |pid: &i32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split('\0').skip(1);
        words.next() == Some("compile-worker") && words.next().is_some_and(|file| Path::new(file).starts_with(dir))
    };
    Pid::from_raw(pids.find(is_ours)?)
}

/// Whether a worker has put its limits on, and with that tied itself to its host.
fn is_fenced(worker: Pid) -> bool {
    let limits = std::fs::read_to_string(format!("/proc/{worker}/limits")).unwrap_or_default();
    limits.lines().any(|line| line.starts_with("Max open files") && line.split_whitespace().nth(3) == Some("64"))
}

/// Has a host compile what takes long, and stops the worker. It outlives the host as long as it can write
/// to somebody: that is what is given, too.
async fn stopped_worker(host: &Host) -> (Pid, File) {
    let upload = host.request_as(Some(host.key()), Method::POST, "/api/skills?name=slow&version=1.0.0");
    let upload = upload.header("content-type", "application/wasm").body(deep_blocks(LONG));
    // Who left would have it cancelled.
    tokio::spawn(upload.send());
    let data = host.dir.path().to_owned();
    let worker = until(async || worker_in(&data)).await;
    kill_process(worker, Signal::STOP).unwrap();
    let reads = File::open(format!("/proc/{}/fd/1", worker.as_raw_nonzero())).unwrap();
    (worker, reads)
}

/// Waits until a process has ended. Who should take note of that may not do so.
async fn ended(process: Pid) {
    until(async || {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
        stat.map_or(true, |stat| stat.contains(") Z ")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_worker_that_outlives_its_host_leaves_nothing_behind_where_the_next_host_has_cleared_up() {
    let mut host = with("hello").await;
    let (worker, reads) = stopped_worker(&host).await;
    host.kill_and_restart();
    assert_eq!(strays(&host).await, Ok(()));
    kill_process(worker, Signal::CONT).unwrap();
    // It comes to its end, or ends because nobody hears it any more.
    drop(reads);
    ended(worker).await;
    assert_eq!(strays(&host).await, Ok(()));
}

/// What keeps the directory clean should the worker come to its end all the same.
#[tokio::test]
async fn a_worker_writes_into_the_file_it_was_given_and_makes_no_other() {
    let host = with("hello").await;
    let engine = std::fs::read_dir(host.dir.path().join("data/cache")).unwrap().next().unwrap().unwrap().file_name();
    let dir = tempfile::tempdir().unwrap();
    let [component, given] = ["component.wasm", "code"].map(|name| dir.path().join(name));
    std::fs::write(&component, guest("hello")).unwrap();
    let file = File::create(&given).unwrap();
    let mut code = File::open(&given).unwrap();
    std::fs::remove_file(&given).unwrap();
    let ended = Command::new(env!("CARGO_BIN_EXE_skillvisor"))
        .args([Path::new("compile-worker"), &component])
        .args([&Digest::of(&guest("hello")).hex(), engine.to_str().unwrap(), "2048", "60"])
        .current_dir(dir.path())
        .stdin(Stdio::from(file))
        .output()
        .unwrap();
    let said = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success() && said.ends_with("\"compiled\"\n"), "{said}");
    let mut written = Vec::new();
    code.read_to_end(&mut written).unwrap();
    assert!(written.starts_with(b"\x7fELF"), "{} bytes", written.len());
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [component]);
}

#[tokio::test]
async fn a_worker_that_has_much_to_do_ends_with_its_host() {
    let mut host = Host::start();
    let data = host.dir.path().to_owned();
    let work = host.upload("slow", deep_blocks(100_000));
    let worker = until(async || worker_in(&data).filter(|worker| is_fenced(*worker)));
    let worker = tokio::select! {
        reply = work => panic!("there is little to do: {}", reply.body),
        worker = worker => worker,
    };
    host.kill_and_restart();
    // Left alone, it would work for two minutes.
    ended(worker).await;
    assert_eq!(strays(&host).await, Ok(()));
}
