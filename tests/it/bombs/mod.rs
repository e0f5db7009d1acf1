//! Components that are too much work to compile: the worker that has one is killed by its
//! limits, and nobody else notices.

pub(crate) mod shapes;

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;

use crate::power::strays;
use crate::support::{Host, Reply, guest, reply};

/// Most memory the host may ever have had in use, in MiB.
const HOST_MEMORY: u64 = 300;
/// Longest wait for something that must happen.
const PATIENCE: Duration = Duration::from_secs(300);

fn host(limits: &[&str]) -> Host {
    Host::start_with(limits)
}

/// Waits for what must come.
async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The compile workers of a host.
pub(crate) fn workers(host: &Host) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let child = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse::<u32>().ok()?;
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        (parent == host.pid() && command.contains("compile-worker")).then_some(pid)
    };
    pids.filter_map(child).collect()
}

fn is_alive(pid: u32) -> bool {
    std::fs::exists(format!("/proc/{pid}")).unwrap()
}

/// How an upload ended, also where that took longer than its reply.
async fn end(host: &Host, name: &str, reply: Reply) -> String {
    if reply.status != 202 {
        return format!("{} {}", reply.summary(), reply.body["detail"].as_str().unwrap_or_default());
    }
    let began = Instant::now();
    loop {
        let skill = host.get(&format!("/api/skills/{name}")).await.body;
        if skill["state"] != "compiling" {
            return format!("{} {}", skill["state"].as_str().unwrap(), skill["problem"].as_str().unwrap_or_default());
        }
        assert!(began.elapsed() < PATIENCE, "{name} is compiled for ever");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_compile_bomb_is_killed_by_its_limits_while_another_owner_uploads() {
    let host = host(&["--compile-timeout-ms", "20000", "--compile-memory-mb", "1024"]);
    let made = host.send(Method::POST, "/api/keys", json!({ "name": "other", "owner": "other", "scopes": [] })).await;
    let other = made.body["secret"].as_str().unwrap().to_owned();
    // As many bombs as there are workers, all by one owner.
    let host = &host;
    let bombs = [("slow-a", 100_000), ("slow-b", 100_001)].map(|(name, depth)| (name, shapes::deep_blocks(depth)));
    let bombs = bombs.map(|(name, bytes)| async move { end(host, name, host.upload(name, bytes).await).await });
    let neighbour = async {
        let killed = until("a worker at each bomb", || Some(workers(host)).filter(|found| found.len() == 2)).await;
        let request = host.request_as(Some(&other), Method::POST, "/api/skills?name=echo&version=1.0.0");
        let request = request.header("content-type", "application/wasm").body(guest("echo"));
        let uploaded = reply(request).await;
        // A busy machine answers 202 first.
        let path = format!("/api/skills/{}", uploaded.body["id"].as_str().unwrap());
        crate::support::until(async || (host.get(&path).await.body["state"] == "ready").then_some(())).await;
        for pid in &killed {
            assert!(is_alive(*pid), "worker {pid} ended before the other upload did: the bomb is too small");
        }
        killed
    };
    let (ends, killed) = tokio::join!(join_all(bombs), neighbour);
    for end in ends {
        assert!(end.contains("compiling it took more than 20000 ms"), "{end}");
    }
    for pid in killed {
        assert!(!is_alive(pid), "worker {pid} is still there");
        assert!(host.log().contains(&format!("Compile worker {pid} was killed")));
    }
    assert!(host.peak_mib() < HOST_MEMORY, "{} MiB", host.peak_mib());
    assert_eq!(host.upload("hello", guest("hello")).await.status, 201);
    assert_eq!(host.outcome("hello", json!({ "name": "Ada" }), json!({})).await, "success -");
    assert_eq!(strays(host).await, Ok(()));
}

#[tokio::test]
async fn every_compile_bomb_ends_in_an_answer_and_leaves_nothing_behind() {
    let host = host(&["--compile-timeout-ms", "4000", "--compile-memory-mb", "512"]);
    let too_much = &["compiling it took more than"][..];
    let fine = &["201", "ready", "compiling it took more than"][..];
    let bombs = [
        ("instances", shapes::nested_instances(6), too_much),
        ("instances-that-compile", shapes::nested_instances(4), &["65537 core module instances"]),
        ("blocks", shapes::deep_blocks(150_000), too_much),
        ("body", shapes::long_body(100_000), fine),
        ("jump-tables", shapes::jump_tables(4_000, 50), fine),
        ("functions", shapes::tiny_functions(300_000), too_much),
        ("types", shapes::types(100_000), fine),
        ("data", shapes::data_segments(50_000), fine),
        ("doubling-types", shapes::doubling_types(60), &["type size exceeds the limit"]),
        ("deep-types", shapes::deep_component_types(45), fine),
        ("deep-components", shapes::deep_components(80), fine),
        ("bottomless-types", shapes::bottomless_types(1_000_000), &["invalid_component"]),
    ];
    let host = &host;
    let uploads = bombs.map(|(name, bytes, right)| async move {
        let end = end(host, name, host.upload(name, bytes).await).await;
        println!("{name}: {end}");
        assert!(right.iter().any(|part| end.contains(part)), "{name}: {end}");
    });
    join_all(uploads).await;
    assert!(workers(host).is_empty());
    assert!(host.peak_mib() < HOST_MEMORY, "{} MiB", host.peak_mib());
    assert_eq!(host.upload("hello", guest("hello")).await.status, 201);
    assert_eq!(host.outcome("hello", json!({ "name": "Ada" }), json!({})).await, "success -");
    assert_eq!(strays(host).await, Ok(()));
}

/// Bytes of all code that a host keeps.
fn code_bytes(host: &Host) -> u64 {
    let engines = std::fs::read_dir(host.dir.path().join("data/cache")).unwrap();
    let files = engines.flat_map(|engine| std::fs::read_dir(engine.unwrap().path()).unwrap());
    files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

#[tokio::test]
async fn what_is_small_where_it_is_uploaded_is_not_large_on_the_disk() {
    let host = Host::start();
    // Sixteen memories of nearly 16 MiB with next to nothing in them.
    let gaps = shapes::sparse_memories(16, 16_711_676);
    assert!(gaps.len() < 4096, "{}", gaps.len());
    let uploaded = host.upload("gaps", gaps).await;
    assert_eq!(uploaded.status, 201, "{}", uploaded.body);
    assert!(code_bytes(&host) < 1 << 20, "{} bytes", code_bytes(&host));
    // Each small enough to be laid out whole; all together they are not.
    let many = shapes::sparse_memories(500, 65_000);
    let refused = end(&host, "many", host.upload("many", many).await).await;
    assert!(refused.contains("its code would take"), "{refused}");
    assert!(code_bytes(&host) < 1 << 20, "{} bytes", code_bytes(&host));
    // What a toolchain makes comes nowhere near it.
    let word_count = guest("word-count");
    let most = 8 * word_count.len() as u64;
    let before = code_bytes(&host);
    assert_eq!(host.upload("word-count", word_count).await.status, 201);
    assert!(code_bytes(&host) - before < most, "{} bytes", code_bytes(&host) - before);
}
