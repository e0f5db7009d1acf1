//! Components that were valid once: whatever was done to them, the host has a word for it.

mod mutator;
mod tree;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use reqwest::Method;
use serde_json::{Value, json};

use self::mutator::Mutator;
use crate::campaign::{self, Random};
use crate::power::strays;
use crate::support::Host;

/// Mutants when no campaign asks for more: a twentieth of a campaign.
const MUTANTS: usize = 500;
/// Uploads at a time.
const UPLOADS: usize = 4;
/// Longest life of one mutant, from its upload to its deletion.
const PATIENCE: Duration = Duration::from_secs(120);
/// Most memory the host may ever have had in use, in MiB.
const HOST_MEMORY: u64 = 500;

/// Uploads a mutant and, if it is taken, runs it once and deletes it; says how that went.
async fn life(host: &Host, number: usize, bytes: Vec<u8>) -> String {
    let name = format!("m{number}");
    let uploaded = host.upload(&name, bytes).await;
    match uploaded.status.as_u16() {
        201 | 202 => {}
        422 => return uploaded.summary(),
        _ => panic!("mutant {number}: {} {}", uploaded.summary(), uploaded.body),
    }
    let limits = json!({ "timeoutMs": 500, "fuel": 5_000_000, "memoryMb": 32, "outputBytes": 65_536 });
    let path = format!("/api/skills/{name}@1.0.0");
    while host.get(&path).await.body["state"] == "compiling" {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut run = host.run(&name, json!({}), limits.clone()).await;
    if run.status == 422 {
        // Its `run` is of another type now, and called as such.
        run = host.run(&name, json!({ "args": "{}" }), limits).await;
    }
    let outcome = match run.status.as_u16() {
        200 => {
            let status = run.body["status"].as_str().unwrap();
            let code = run.body["error"]["code"].as_str().unwrap_or("-");
            assert!(["success", "error", "timeout"].contains(&status), "mutant {number}: {}", run.body);
            assert!(!["internal", "unavailable"].contains(&code), "mutant {number}: {}", run.body);
            format!("{status} {code}")
        }
        // It could not be compiled after all, or wants what this test does not know.
        409 => run.summary(),
        422 if run.body["code"] == "invalid_args" => run.summary(),
        _ => panic!("mutant {number}: {} {}", run.summary(), run.body),
    };
    assert_eq!(host.send(Method::DELETE, &path, Value::Null).await.status, 204, "mutant {number}");
    outcome
}

#[tokio::test]
async fn every_mutant_of_a_component_gets_a_typed_outcome() {
    let seed = campaign::seed();
    let count = campaign::size(MUTANTS);
    println!("CAMPAIGN_SEED={seed} CAMPAIGN_SIZE={count}");
    let host = Host::start();
    let mutator = Mutator::new();
    let began = Instant::now();
    let lives = (0..count).map(|number| {
        // Each has a seed of its own: the order in which they end does not matter.
        let bytes = mutator.next(&mut Random::new(seed.wrapping_add(number as u64)));
        let life = life(&host, number, bytes);
        async move { tokio::time::timeout(PATIENCE, life).await.unwrap_or_else(|_| panic!("mutant {number} hangs")) }
    });
    let ends: Vec<_> = futures_util::stream::iter(lives).buffer_unordered(UPLOADS).collect().await;
    let mut outcomes = BTreeMap::<_, usize>::new();
    for end in ends {
        *outcomes.entry(end).or_default() += 1;
    }
    let (seconds, peak) = (began.elapsed().as_secs(), host.peak_mib());
    println!("{count} mutants in {seconds} s, host at most {peak} MiB: {outcomes:?}");
    assert!(peak < HOST_MEMORY, "{peak} MiB");
    let log = host.log();
    let bad = |line: &&str| line.contains("panicked") || line.contains("\"level\":\"ERROR\"");
    assert_eq!(log.lines().find(bad), None);
    assert_eq!(strays(&host).await, Ok(()));
    assert_eq!(host.upload("hello", crate::support::guest("hello")).await.status, 201);
}
