use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, command, guest, reply, run, until};

async fn new_key(host: &Host, name: &str, scopes: Value) -> String {
    let made = host.send(Method::POST, "/api/keys", json!({ "name": name, "scopes": scopes })).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.body["secret"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn no_key_and_a_wrong_key_are_refused_alike() {
    let host = Host::start();
    for path in ["/api/skills", "/api/skills/executions", "/api/keys", "/api/skills/x"] {
        let without = reply(host.request_as(None, Method::GET, path)).await;
        let wrong = reply(host.request_as(Some("sk_wrong"), Method::GET, path)).await;
        assert_eq!(without.summary(), "401 unauthenticated", "{path}");
        assert_eq!(without.body, wrong.body, "{path}");
        let bare = reply(host.request_as(None, Method::GET, path).header("authorization", host.key())).await;
        let detail = bare.body["detail"].as_str().unwrap();
        assert!(bare.status == 401 && detail.contains("`Authorization: Bearer KEY`"), "{}", bare.body);
    }
}

#[tokio::test]
async fn what_belongs_to_another_owner_is_as_absent() {
    let host = Host::start().with("hello").await;
    let run = host.run("hello", json!({}), json!({})).await;
    let stranger = new_key(&host, "stranger", json!([])).await;
    let foreign = format!("/api/skills/executions/{}", run.body["id"].as_str().unwrap());
    let skill = host.get("/api/skills/hello").await.body["id"].as_str().unwrap().to_owned();
    for (path, absent) in [
        (foreign.as_str(), "/api/skills/executions/00000000-0000-7000-8000-000000000000"),
        (&format!("/api/skills/{skill}"), "/api/skills/00000000-0000-7000-8000-000000000000"),
        ("/api/skills/hello", "/api/skills/nothing"),
    ] {
        let mut one = reply(host.request_as(Some(&stranger), Method::GET, path)).await;
        let mut other = reply(host.request_as(Some(&stranger), Method::GET, absent)).await;
        // What the stranger asked for is told back, and is all the difference there is.
        assert_eq!((one.body["instance"].take(), other.body["instance"].take()), (json!(path), json!(absent)));
        assert_eq!((one.summary().as_str(), one.body), ("404 not_found", other.body), "{path}");
    }
    let list = reply(host.request_as(Some(&stranger), Method::GET, "/api/skills")).await;
    assert_eq!(list.body["total"], 0);
}

#[tokio::test]
async fn a_key_does_what_its_scopes_say_until_it_is_revoked() {
    let host = Host::start();
    let reader = new_key(&host, "reader", json!(["skills:read"])).await;
    let upload = host.request_as(Some(&reader), Method::POST, "/api/skills?name=a&version=1.0.0");
    let upload = upload.header("content-type", "application/wasm").body(guest("image-thumb"));
    assert_eq!(reply(upload).await.summary(), "403 insufficient_scope");
    let keys = host.get("/api/keys").await;
    let id = keys.body["keys"][1]["id"].as_str().unwrap();
    let rotated = host.send(Method::POST, &format!("/api/keys/{id}/rotate"), json!({})).await;
    let list = |key: String| reply(host.request_as(Some(&key), Method::GET, "/api/skills"));
    assert_eq!(list(reader).await.status, 401);
    let renewed = rotated.body["secret"].as_str().unwrap().to_owned();
    assert_eq!(list(renewed.clone()).await.status, 200);
    assert_eq!(host.send(Method::DELETE, &format!("/api/keys/{id}"), json!(null)).await.status, 204);
    assert_eq!(list(renewed).await.status, 401);
}

/// The id of the first admin key.
async fn admin_id(host: &Host) -> String {
    host.get("/api/keys").await.body["keys"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn after_the_first_admin_key_is_rotated_the_local_command_line_goes_on() {
    let host = Host::start();
    let data = host.dir.path().join("data");
    let old = std::fs::read_to_string(data.join("admin.key")).unwrap();
    let id = admin_id(&host).await;
    let rotated = run(&mut command(&data, &["keys", "rotate", &id])).expect(0);
    let file = std::fs::read_to_string(data.join("admin.key")).unwrap();
    assert_eq!(file, rotated.stdout.trim());
    assert_ne!(file, old);
    run(&mut command(&data, &["keys", "list"])).expect(0);
    assert_eq!(reply(host.request_as(Some(&old), Method::GET, "/api/keys")).await.status, 401);
    let again = Host::start_in(host.stop(), &[]);
    assert_eq!(again.get("/api/keys").await.status, 200);
    assert!(!again.dir.path().join("data/admin.key.new").exists());
}

#[tokio::test]
async fn rotating_another_key_leaves_the_admins_file_alone() {
    let host = Host::start();
    let file = host.dir.path().join("data/admin.key");
    let before = std::fs::read_to_string(&file).unwrap();
    let made = host.send(Method::POST, "/api/keys", json!({ "name": "second", "scopes": ["admin"] })).await;
    let path = format!("/api/keys/{}/rotate", made.body["id"].as_str().unwrap());
    assert_eq!(host.send(Method::POST, &path, json!({})).await.status, 200);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
}

#[tokio::test]
async fn a_revoked_first_admin_key_leaves_no_file_and_the_next_start_makes_a_new_one() {
    let host = Host::start();
    let data = host.dir.path().join("data");
    let id = admin_id(&host).await;
    run(&mut command(&data, &["keys", "revoke", &id])).expect(0);
    assert!(!data.join("admin.key").exists());
    let without = run(&mut command(&data, &["list"])).expect(3);
    assert!(without.stderr.contains("SKILLVISOR_KEY"), "{}", without.stderr);
    let again = Host::start_in(host.stop(), &[]);
    assert_eq!(again.get("/api/keys").await.body["total"], 2);
}

#[tokio::test]
async fn the_old_secret_works_for_the_time_of_grace_and_no_longer() {
    let host = Host::start();
    let made = host.send(Method::POST, "/api/keys", json!({ "name": "agent" })).await;
    let old = made.body["secret"].as_str().unwrap();
    let path = format!("/api/keys/{}/rotate", made.body["id"].as_str().unwrap());
    let shown = async || host.get(path.trim_end_matches("/rotate")).await.body;
    assert_eq!(shown().await["graceUntil"], json!(null));
    let rotated = host.send(Method::POST, &path, json!({ "graceSeconds": 4 })).await;
    let until_then = rotated.body["graceUntil"].as_str().unwrap();
    assert_eq!(shown().await["graceUntil"], until_then);
    let new = rotated.body["secret"].as_str().unwrap();
    assert_eq!((&rotated.body["id"], &rotated.body["owner"]), (&made.body["id"], &made.body["owner"]));
    let status = async |key: &str| reply(host.request_as(Some(key), Method::GET, "/api/skills")).await.status;
    assert_eq!((status(old).await.as_u16(), status(new).await.as_u16()), (200, 200));
    let data = host.dir.path().join("data");
    let told = run(&mut command(&data, &["keys", "show", made.body["id"].as_str().unwrap()])).expect(0).stdout;
    assert!(told.contains(&format!("works until {until_then}")), "{told}");
    until(async || (status(old).await == 401).then_some(())).await;
    assert_eq!(status(new).await, 200);
    let told = run(&mut command(&data, &["keys", "show", made.body["id"].as_str().unwrap()])).expect(0).stdout;
    assert!(!told.contains("works until"), "{told}");
    host.send(Method::POST, &path, json!({})).await;
    assert_eq!(shown().await["graceUntil"], json!(null));
    assert_eq!(status(new).await, 401);
}

/// By its name, it means its own and global ones, as everybody.
#[tokio::test]
async fn an_admin_key_names_another_owners_skill_by_its_id() {
    let host = Host::start();
    let upload = |owner: &str| {
        let path = format!("/api/skills?name=hello&version=1.0.0&owner={owner}");
        let upload = host.request_as(Some(host.key()), Method::POST, &path);
        reply(upload.header("content-type", "application/wasm").body(guest("hello")))
    };
    let made = upload("team").await;
    assert_eq!(made.status, 201, "{}", made.body);
    let id = made.body["id"].as_str().unwrap();
    assert_eq!(host.get("/api/skills/hello").await.summary(), "404 not_found");
    let missing = run(&mut command(&host.dir.path().join("data"), &["show", "hello"])).expect(4);
    assert!(missing.stderr.contains("an admin key names another owner's skill by its id"), "{}", missing.stderr);
    let listed = host.get("/api/skills?owner=team").await.body;
    assert_eq!((&listed["total"], &listed["skills"][0]["id"]), (&json!(1), &json!(id)));
    let by_id = format!("/api/skills/{id}");
    assert_eq!(host.get(&by_id).await.body["owner"], "team");
    assert_eq!(host.get(&format!("{by_id}/component?")).await.status, 200);
    let ran = host.run(id, json!({}), json!({})).await;
    assert_eq!((&ran.body["status"], &ran.body["owner"]), (&json!("success"), &json!("admin")));
    // Its own goes before by name, and the other's stays what the id says.
    let own = upload("admin").await;
    assert_eq!(host.get("/api/skills/hello").await.body["id"], own.body["id"]);
    let off = host.send(Method::PATCH, &by_id, json!({ "enabled": false })).await;
    assert_eq!((off.status.as_u16(), &off.body["owner"]), (200, &json!("team")));
    assert_eq!(host.send(Method::DELETE, &by_id, json!(null)).await.status, 204);
    assert_eq!(host.get(&by_id).await.summary(), "404 not_found");
    assert_eq!(host.get("/api/skills/hello").await.status, 200);
}

#[test]
fn a_chosen_admin_key_holds_while_there_is_no_other() {
    const FIRST: &str = "first-0123456789abcdef0123456789abcdef";
    const OTHER: &str = "other-0123456789abcdef0123456789abcdef";
    let dir = tempfile::tempdir().unwrap();
    let with =
        |variable: &str, value: &str, arguments: &[&str]| run(command(dir.path(), arguments).env(variable, value));
    let short = with("SKILLVISOR_ADMIN_KEY", "too-short", &["keys", "list"]).expect(2);
    assert!(short.stderr.contains("at least 32"), "{}", short.stderr);
    with("SKILLVISOR_ADMIN_KEY", FIRST, &["keys", "list"]).expect(0);
    assert!(!dir.path().join("admin.key").exists(), "who chose it has it");
    with("SKILLVISOR_KEY", FIRST, &["keys", "list"]).expect(0);
    let other = with("SKILLVISOR_ADMIN_KEY", OTHER, &["keys", "list"]).expect(3);
    assert!(other.stderr.contains("SKILLVISOR_ADMIN_KEY is not in force"), "{}", other.stderr);
    assert!(!other.stderr.contains(OTHER) && !other.stderr.contains(FIRST), "{}", other.stderr);
    let file = dir.path().join("chosen");
    std::fs::write(&file, FIRST).unwrap();
    with("SKILLVISOR_ADMIN_KEY_FILE", file.to_str().unwrap(), &["keys", "list"]).expect(0);
}

#[tokio::test]
async fn what_would_hold_nobody_back_is_refused() {
    let host = Host::start().with("hello").await;
    let never = json!({ "rates": { "executionsPerMinute": 0 } });
    let refused = host.send(Method::POST, "/api/keys", json!({ "name": "k", "ceilings": never })).await;
    assert_eq!(refused.summary(), "400 malformed");
    assert_eq!(refused.body["errors"][0]["pointer"], "/ceilings/rates/executionsPerMinute");
    assert_eq!(host.get("/api/keys").await.body["total"], 1);

    let key = host.send(Method::POST, "/api/keys", json!({ "name": "k" })).await;
    let path = format!("/api/keys/{}", key.body["id"].as_str().unwrap());
    let unknown = host.send(Method::DELETE, &format!("{path}?quarantin=true"), Value::Null).await;
    assert_eq!(unknown.summary(), "400 malformed");
    assert_eq!(host.get(&path).await.body["revokedAt"], Value::Null);
}

#[tokio::test]
async fn a_key_that_nothing_could_be_done_with_is_not_made() {
    let host = Host::start();
    for (field, value, pointer) in [
        ("ceilings", json!({ "limits": { "memoryMb": 0 } }), "/ceilings/limits/memoryMb"),
        ("ceilings", json!({ "limits": { "fuel": 0 } }), "/ceilings/limits/fuel"),
        ("expiresAt", json!("2020-01-01T00:00:00Z"), "/expiresAt"),
    ] {
        let mut key = json!({ "name": "k" });
        key[field] = value;
        let refused = host.send(Method::POST, "/api/keys", key).await;
        assert_eq!(
            (refused.summary().as_str(), &refused.body["errors"][0]["pointer"]),
            ("400 malformed", &json!(pointer))
        );
    }
    assert_eq!(host.get("/api/keys").await.body["total"], 1);
}

#[tokio::test]
async fn an_allow_list_holds_for_executions_and_for_components_too() {
    let host = Host::start();
    let key = async |body: Value| {
        let made = host.send(Method::POST, "/api/keys", body).await;
        made.body["secret"].as_str().unwrap().to_owned()
    };
    let whole = key(json!({ "name": "whole", "owner": "team" })).await;
    let narrow = key(json!({ "name": "narrow", "owner": "team", "skills": ["hello", "nothing"] })).await;
    let post = |key: &str, path: &str, body: Value| {
        reply(host.request_as(Some(key), Method::POST, path).body(body.to_string()))
    };
    let get = |key: &str, path: &str| reply(host.request_as(Some(key), Method::GET, path));
    let mut digests = Vec::new();
    let mut runs = Vec::new();
    for name in ["echo", "hello"] {
        let path = format!("/api/skills?name={name}&version=1.0.0");
        let upload = host.request_as(Some(&whole), Method::POST, &path).body(guest(name));
        let made = reply(upload.header("content-type", "application/wasm")).await;
        digests.push(made.body["digest"].clone());
        let ran = post(&whole, "/api/skills/executions", json!({ "skillId": name, "args": {} })).await;
        runs.push(format!("/api/skills/executions/{}", ran.body["id"].as_str().unwrap()));
    }

    assert_eq!(get(&narrow, &runs[0]).await.summary(), "404 not_found");
    assert_eq!(get(&narrow, &runs[1]).await.status, 200);
    assert_eq!(get(&whole, &runs[0]).await.status, 200);
    for (query, seen) in
        [("", [1, 2]), ("?skill=echo", [0, 1]), ("?skill=echo@1.0.0", [0, 1]), ("?skill=hello", [1, 1])]
    {
        let path = format!("/api/skills/executions{query}");
        for (key, seen) in [&narrow, &whole].into_iter().zip(seen) {
            let page = get(key, &path).await.body;
            let rows = page["executions"].as_array().unwrap().len();
            assert_eq!((&page["total"], rows), (&json!(seen), seen), "{query}: {page}");
        }
    }

    let manifest = |digest: &Value| json!({ "name": "hello", "version": "2.0.0", "handler": digest });
    let refused = post(&narrow, "/api/skills/skillssh", manifest(&digests[0])).await;
    assert_eq!(refused.summary(), "422 unknown_component");
    let made = post(&narrow, "/api/skills/skillssh", manifest(&digests[1])).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let again = json!({ "name": "again", "version": "1.0.0", "handler": digests[0] });
    assert_eq!(post(&whole, "/api/skills/skillssh", again).await.status, 201);
}
