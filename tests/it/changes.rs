use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, Reply, guest, reply, until};

/// Uploads a guest with a manifest.
async fn register(host: &Host, key: &str, manifest: &Value, name: &str) -> Reply {
    let form = reqwest::multipart::Form::new()
        .text("manifest", manifest.to_string())
        .part("component", reqwest::multipart::Part::bytes(guest(name)));
    reply(host.request_as(Some(key), Method::POST, "/api/skills").multipart(form)).await
}

/// A new key: its secret and its id.
async fn new_key(host: &Host, body: Value) -> (String, String) {
    let made = host.send(Method::POST, "/api/keys", body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let text = |name: &str| made.body[name].as_str().unwrap().to_owned();
    (text("secret"), text("id"))
}

#[tokio::test]
async fn of_changes_at_one_time_none_is_lost() {
    let host = Host::start().with("hello").await;
    let patch = |body: Value| host.send(Method::PATCH, "/api/skills/hello", body);
    for round in 0..20 {
        let (enabled, mode, tag) = (round % 2 == 0, ["auto", "on"][round % 2], format!("round-{round}"));
        tokio::join!(
            patch(json!({ "enabled": enabled })),
            patch(json!({ "mode": mode })),
            patch(json!({ "tags": [&tag] })),
        );
        let skill = host.get("/api/skills/hello").await.body;
        let found = (&skill["enabled"], &skill["mode"], &skill["tags"][0]);
        assert_eq!(found, (&json!(enabled), &json!(mode), &json!(tag)), "round {round}");
    }
}

#[tokio::test]
async fn a_change_does_not_bring_a_deleted_skill_back() {
    let host = Host::start();
    // Its code stays for the sake of this one, and is not compiled again in each round.
    host.upload("keeper", guest("hello")).await;
    until(async || ready(&host, "keeper").await).await;
    for round in 0..20 {
        assert_eq!(host.upload("hello", guest("hello")).await.status, 201);
        let patch = |enabled: bool| host.send(Method::PATCH, "/api/skills/hello", json!({ "enabled": enabled }));
        let delete = || host.send(Method::DELETE, "/api/skills/hello@1.0.0", Value::Null);
        let (one, two, first, second) = tokio::join!(patch(false), patch(true), delete(), delete());
        for patched in [one, two] {
            assert!([200, 404].contains(&patched.status.as_u16()), "{}", patched.body);
        }
        let mut ends = [first.status.as_u16(), second.status.as_u16()];
        ends.sort_unstable();
        assert_eq!(ends, [204, 404], "round {round}");
        assert_eq!(host.get("/api/skills/hello").await.summary(), "404 not_found", "round {round}");
    }
}

#[tokio::test]
async fn a_key_registers_only_what_its_allow_list_names() {
    let host = Host::start();
    let (key, _) = new_key(&host, json!({ "name": "k", "skills": ["a"] })).await;
    let named = |name: &str| json!({ "name": name, "version": "1.0.0" });
    assert_eq!(register(&host, &key, &named("b"), "hello").await.summary(), "404 not_found");
    let made = register(&host, &key, &named("a"), "hello").await;
    assert!(made.status.is_success(), "{}", made.body);
    let mut manifest = named("b");
    manifest["handler"] = made.body["digest"].clone();
    let by_digest = host.request_as(Some(&key), Method::POST, "/api/skills/skillssh").body(manifest.to_string());
    assert_eq!(reply(by_digest).await.summary(), "404 not_found");
}

#[tokio::test]
async fn a_version_that_comes_back_has_the_limits_of_who_brings_it_also_after_a_restart() {
    let mut host = Host::start();
    let key = |memory: u64| json!({ "name": "k", "owner": "team", "ceilings": { "limits": { "memoryMb": memory } } });
    let ((wide, _), (narrow, id)) = (new_key(&host, key(128)).await, new_key(&host, key(64)).await);
    let manifest = json!({ "name": "hello", "version": "1.0.0" });
    assert_eq!(register(&host, &wide, &manifest, "hello").await.body["limits"]["memoryMb"], 128);
    let deleted = host.request_as(Some(&wide), Method::DELETE, "/api/skills/hello@1.0.0");
    assert_eq!(reply(deleted).await.status, 204);
    let back = register(&host, &narrow, &manifest, "hello").await;
    assert_eq!((back.status.as_u16(), &back.body["limits"]["memoryMb"]), (201, &json!(64)));
    host.kill_and_restart();
    let mut after = host.get(&format!("/api/skills/{}", back.body["id"].as_str().unwrap())).await.body;
    assert_eq!((&after["registeredBy"], &after["limits"]["memoryMb"]), (&json!(id), &json!(64)));
    after["updatedAt"] = back.body["updatedAt"].clone();
    assert_eq!(after, back.body);
}

async fn ready(host: &Host, name: &str) -> Option<()> {
    (host.get(&format!("/api/skills/{name}")).await.body["state"] == "ready").then_some(())
}

#[tokio::test]
async fn registering_by_digest_waits_no_longer_than_is_asked_for() {
    let host = Host::start();
    // On a busy machine it takes longer than an upload waits.
    host.upload("image-thumb", guest("image-thumb")).await;
    until(async || ready(&host, "image-thumb").await).await;
    let digest = host.get("/api/skills/image-thumb").await.body["digest"].clone();
    let dir = host.stop();
    std::fs::remove_dir_all(dir.path().join("data/cache")).unwrap();
    // It compiles everything again.
    let host = Host::start_in(dir, &[]);
    let manifest = json!({ "name": "thumb", "version": "1.0.0", "handler": digest });
    let request = host.request_as(Some(host.key()), Method::POST, "/api/skills/skillssh");
    let made = reply(request.header("prefer", "respond-async").body(manifest.to_string())).await;
    assert_eq!((made.status.as_u16(), &made.body["state"]), (202, &json!("compiling")));
    until(async || ready(&host, "thumb").await).await;
}

/// Every page of a listing, by name and version.
async fn pages(host: &Host, query: &str, mut between: impl AsyncFnMut(&str)) -> Vec<Vec<String>> {
    let (mut pages, mut path) = (Vec::new(), format!("/api/skills?{query}"));
    loop {
        let page = host.get(&path).await;
        assert_eq!(page.status, 200, "{}", page.body);
        let skills = page.body["skills"].as_array().unwrap();
        let address =
            |skill: &Value| format!("{}@{}", skill["name"].as_str().unwrap(), skill["version"].as_str().unwrap());
        pages.push(skills.iter().map(address).collect::<Vec<_>>());
        let Some(next) = page.body["nextCursor"].as_str() else { return pages };
        between(pages.last().unwrap().last().unwrap()).await;
        path = format!("/api/skills?{query}&cursor={next}");
    }
}

#[tokio::test]
async fn a_listing_goes_on_where_it_was_when_the_last_skill_of_a_page_is_deleted() {
    let host = Host::start();
    let names: Vec<_> = (0..5).map(|number| format!("skill-{number}")).collect();
    for name in &names {
        assert!(host.upload(name, guest("hello")).await.status.is_success());
    }
    let delete = async |last: &str| {
        let path = format!("/api/skills/{last}");
        assert_eq!(host.send(Method::DELETE, &path, Value::Null).await.status, 204);
    };
    let listed = pages(&host, "limit=2", delete).await.concat();
    assert_eq!(listed, names.iter().map(|name| format!("{name}@1.0.0")).collect::<Vec<_>>());
    for garbage in ["x", "00", "skill-1"] {
        let page = host.get(&format!("/api/skills?cursor={garbage}")).await;
        assert_eq!(page.summary(), "400 malformed", "{garbage}");
    }
}

#[tokio::test]
async fn a_page_of_skills_with_long_schemas_is_short() {
    let host = Host::start();
    for number in 0..8 {
        let long = json!({ "description": "x".repeat(200_000) });
        let schema = json!({ "input": long, "output": long });
        let manifest = json!({ "name": "hello", "version": format!("1.0.{number}"), "schema": schema });
        let made = register(&host, host.key(), &manifest, "hello").await;
        assert!(made.status.is_success(), "{}", made.body["detail"]);
    }
    let pages = pages(&host, "limit=500", async |_| {}).await;
    let sizes: Vec<_> = pages.iter().map(Vec::len).collect();
    assert_eq!(sizes, [5, 3], "each is 800 KB long");
}
