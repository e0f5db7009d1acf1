use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::campaign::{self, Random};
use crate::power::strays;
use crate::support::{Host, guest, reply};

/// Callers that leave.
const CALLERS: usize = 40;
/// How long the host may take to clear away what they left.
const PATIENCE: Duration = Duration::from_secs(300);

/// A guest whose bytes nobody else has.
fn own_guest(number: usize) -> Vec<u8> {
    let mut bytes = guest("start-loop");
    // A custom section: id, length, name, content.
    bytes.extend([0, 3, 1, b'n', u8::try_from(number).unwrap()]);
    bytes
}

async fn settled(host: &Host) {
    let began = Instant::now();
    while let Err(stray) = strays(host).await {
        assert!(began.elapsed() < PATIENCE, "{stray}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn what_a_caller_began_and_left_is_whole_or_absent() {
    let seed = campaign::seed();
    println!("CAMPAIGN_SEED={seed}");
    let mut random = Random::new(seed);
    let host = Host::start();
    let began = Instant::now();
    assert_eq!(host.upload("whole", own_guest(CALLERS)).await.status, 201);
    let usual = usize::try_from(began.elapsed().as_micros()).unwrap();
    for number in 0..CALLERS {
        let name = format!("left-{number}");
        let patience = Duration::from_micros(random.below(usual) as u64);
        let left = tokio::time::timeout(patience, host.upload(&name, own_guest(number))).await;
        if left.is_ok() && random.chance(50) {
            let path = format!("/api/skills/{name}@1.0.0");
            let delete = host.send(Method::DELETE, &path, Value::Null);
            let _ = tokio::time::timeout(Duration::from_micros(random.below(3000) as u64), delete).await;
        }
    }
    settled(&host).await;
    for number in 0..CALLERS {
        let name = format!("left-{number}");
        let again = host.upload(&name, own_guest(number)).await;
        assert!([200, 201].contains(&again.status.as_u16()), "seed {seed}, {name}: {}", again.body);
        let limits = json!({ "fuel": 1_000_000 });
        assert_eq!(host.outcome(&name, json!({}), limits).await, "error out_of_fuel", "seed {seed}, {name}");
    }
    settled(&host).await;
    assert_eq!(host.get("/api/skills").await.body["total"], CALLERS + 1);
}

/// Makes, rotates and revokes a key, and leaves at some time.
async fn change_keys(host: &Host, random: &mut Random, usual: usize) {
    let mut patience = || Duration::from_micros(random.below(usual) as u64);
    let make = host.send(Method::POST, "/api/keys", json!({ "name": "left" }));
    let _ = tokio::time::timeout(patience(), make).await;
    let made = host.send(Method::POST, "/api/keys", json!({ "name": "stays" })).await;
    let path = format!("/api/keys/{}", made.body["id"].as_str().unwrap());
    let revoke = host.send(Method::DELETE, &path, Value::Null);
    let _ = tokio::time::timeout(patience(), revoke).await;
}

#[tokio::test]
async fn a_key_is_in_memory_what_it_is_on_the_disk_also_when_who_changed_it_left() {
    let seed = campaign::seed();
    println!("CAMPAIGN_SEED={seed}");
    let mut random = Random::new(seed);
    let mut host = Host::start();
    let began = Instant::now();
    let last = host.send(Method::POST, "/api/keys", json!({ "name": "last" })).await;
    let usual = usize::try_from(began.elapsed().as_micros()).unwrap();
    for _ in 0..CALLERS {
        change_keys(&host, &mut random, usual).await;
    }
    // Keys change one after the other: what was begun has ended when this has.
    let path = format!("/api/keys/{}", last.body["id"].as_str().unwrap());
    assert_eq!(host.send(Method::DELETE, &path, Value::Null).await.status, 204);
    let secret = last.body["secret"].as_str().unwrap();
    assert_eq!(reply(host.request_as(Some(secret), Method::GET, "/api/skills")).await.status, 401);
    let in_memory = host.get("/api/keys").await.body;
    host.kill_and_restart();
    assert_eq!(host.get("/api/keys").await.body, in_memory, "seed {seed}");
}
