use std::path::Path;

use reqwest::Method;
use serde_json::json;

use self::pack::{Item, zip};
use crate::power::strays;
use crate::support::{Host, Reply, command, guest, reply, run};

#[path = "../../src/registry/archive/pack.rs"]
mod pack;

/// A `SKILL.md` with front matter as Agent Skills have it.
fn skill_md(name: &str, text: &str) -> String {
    format!(
        "---\nname: {name}\ndescription: Says it again. Use it to try things.\nlicense: Apache-2.0\nmetadata:\n  \
         author: someone\n---\n\n# {name}\n\n{text}\n\n```json skill\n{{ \"name\": \"{name}\", \"version\": \"1.0.0\" }}\n```\n"
    )
}

/// A skill folder below `folder` whose component is `echo`.
fn folder(folder: &str, skill_md: &str) -> Vec<Item> {
    let file = |name: &str, content: &[u8]| Item::new(&format!("{folder}{name}"), content);
    vec![
        file("SKILL.md", skill_md.as_bytes()),
        file("echo.wasm", &guest("echo")),
        file("references/more.md", b"More."),
        file("scripts/run.sh", b"exit 1"),
        file("assets/é.txt", b"e"),
        file("tests/one.json", b"{}"),
    ]
}

async fn send(host: &Host, query: &str, archive: Vec<u8>) -> Reply {
    let request = host.request_as(Some(host.key()), Method::POST, &format!("/api/skills{query}"));
    reply(request.header("content-type", "application/zip").body(archive)).await
}

async fn text(host: &Host, reference: &str) -> (u16, String) {
    let path = format!("/api/skills/{reference}/skill.md");
    let got = host.request_as(Some(host.key()), Method::GET, &path).send().await.unwrap();
    (got.status().as_u16(), got.text().await.unwrap())
}

#[tokio::test]
async fn a_zipped_folder_becomes_a_skill_that_runs_and_keeps_its_text() {
    let host = Host::start();
    let written = skill_md("echo", "Ünïcode, and \u{202e} what is not.\r");
    let made = send(&host, "", zip(&folder("echo-1.0/", &written))).await;
    assert_eq!((made.status.as_u16(), &made.body["name"]), (201, &json!("echo")), "{}", made.body);
    assert_eq!(host.outcome("echo", json!({ "a": 1 }), json!({})).await, "success -");
    let path = "/api/skills/echo/skill.md";
    let got = host.request_as(Some(host.key()), Method::GET, path).send().await.unwrap();
    let header = |name: &str| got.headers().get(name).unwrap().to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/markdown; charset=utf-8");
    assert_eq!(header("content-disposition"), "attachment; filename=\"echo-1.0.0.md\"");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("content-security-policy"), "sandbox");
    assert_eq!(got.text().await.unwrap(), written);
    let component = host.request_as(Some(host.key()), Method::GET, "/api/skills/echo/component").send().await.unwrap();
    assert_eq!(component.bytes().await.unwrap(), guest("echo"));
    assert_eq!(strays(&host).await, Ok(()));
}

#[tokio::test]
async fn a_version_has_one_text_for_ever() {
    let mut host = Host::start();
    let written = skill_md("echo", "One.");
    assert_eq!(send(&host, "", zip(&folder("", &written))).await.status, 201);
    // How it is packed is nothing of the skill.
    let stored = [Item::stored("x/echo.wasm", &guest("echo")), Item::stored("x/SKILL.md", written.as_bytes())];
    assert_eq!(send(&host, "", zip(&stored)).await.status, 200);
    let other = send(&host, "", zip(&folder("", &skill_md("echo", "Two.")))).await;
    assert_eq!(other.summary(), "409 conflict");
    assert_eq!(host.upload("echo", guest("echo")).await.summary(), "409 conflict");
    assert_eq!(text(&host, "echo").await, (200, written.clone()));
    // A deleted version's text is gone, and comes back with it alone.
    assert_eq!(host.send(Method::DELETE, "/api/skills/echo@1.0.0", json!({})).await.status, 204);
    assert_eq!(text(&host, "echo").await.0, 404);
    let other = send(&host, "", zip(&folder("", &skill_md("echo", "Two.")))).await;
    assert_eq!(other.summary(), "409 conflict");
    assert_eq!(send(&host, "", zip(&folder("", &written))).await.status, 201);
    host.kill_and_restart();
    assert_eq!(text(&host, "echo@1").await, (200, written));
}

#[tokio::test]
async fn a_zip_is_taken_as_any_other_upload() {
    let host = Host::start();
    let archive = zip(&folder("", &skill_md("echo", "")));
    let post = |query: &str| {
        let request = host.request_as(Some(host.key()), Method::POST, &format!("/api/skills{query}"));
        request.header("content-type", "application/zip").body(archive.clone())
    };
    let later = reply(post("?version=2.0.0").header("prefer", "respond-async")).await;
    assert_eq!((later.status.as_u16(), &later.body["state"]), (202, &json!("compiling")));
    assert_eq!(later.body["version"], "2.0.0");
    let system = reply(post("?owner=system")).await;
    assert_eq!((system.status.as_u16(), &system.body["owner"]), (201, &json!("system")));
    let tar =
        host.request_as(Some(host.key()), Method::POST, "/api/skills").header("content-type", "application/x-tar");
    assert_eq!(reply(tar.body(archive.clone())).await.summary(), "415 unsupported_media_type");
    let reader = json!({ "name": "reader", "owner": "other", "scopes": ["skills:read"] });
    let reader = host.send(Method::POST, "/api/keys", reader).await.body["secret"].as_str().unwrap().to_owned();
    let writer = json!({ "name": "writer", "owner": "other", "scopes": ["skills:write"] });
    let writer = host.send(Method::POST, "/api/keys", writer).await.body["secret"].as_str().unwrap().to_owned();
    for (key, query, expected) in [
        (None, "", "401 unauthenticated"),
        (Some(&reader), "", "403 insufficient_scope"),
        (Some(&writer), "?owner=system", "403 forbidden"),
    ] {
        let request = host.request_as(key.map(String::as_str), Method::POST, &format!("/api/skills{query}"));
        let request = request.header("content-type", "application/zip").body(archive.clone());
        assert_eq!(reply(request).await.summary(), expected);
    }
}

#[tokio::test]
async fn a_text_of_another_owner_is_as_absent_as_none() {
    let host = Host::start().with("hello").await;
    let made = send(&host, "", zip(&folder("", &skill_md("echo", "Mine.")))).await;
    let id = made.body["id"].as_str().unwrap().to_owned();
    let other = host.send(Method::POST, "/api/keys", json!({ "name": "other", "owner": "other" })).await;
    let secret = other.body["secret"].as_str().unwrap();
    let mut answers = Vec::new();
    for reference in [id.as_str(), "echo", "echo@1.0.0", "absent", "01980000-0000-7000-8000-000000000000"] {
        let path = format!("/api/skills/{reference}/skill.md");
        let mut refused = reply(host.request_as(Some(secret), Method::GET, &path)).await;
        assert_eq!(refused.summary(), "404 not_found", "{reference}");
        // Which it was: the path that was asked for, and the number of the request.
        for field in ["instance", "requestId"] {
            refused.body.as_object_mut().unwrap().remove(field);
        }
        answers.push(refused.body);
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    let without = host.get("/api/skills/hello/skill.md").await;
    assert_eq!(without.summary(), "404 not_found");
    assert!(without.body["detail"].as_str().unwrap().contains("SKILL.md"));
}

#[tokio::test]
async fn a_bad_zip_is_refused_and_leaves_nothing() {
    let host = Host::start_with(&["--upload-max-bytes", "16MiB"]);
    assert_eq!(host.upload("first", guest("echo")).await.status, 201);
    let before = host.peak_mib();
    let good = folder("", &skill_md("echo", ""));
    let with = |more: Item| zip(&[&good[..], &[more]].concat());
    let zeros = vec![0; 40 << 20];
    let mut noise = vec![0; 15 << 20];
    getrandom::fill(&mut noise).unwrap();
    for (archive, expected) in [
        (b"PK".to_vec(), "400 malformed"),
        (with(Item::new("../../escaped", b"x")), "400 malformed"),
        (with(Item::new("/tmp/escaped", b"x")), "400 malformed"),
        (with(Item { mode: 0o120_777, ..Item::new("link", b"/etc/passwd") }), "400 malformed"),
        (with(Item::new("Skill.md", b"x")), "400 malformed"),
        (with(Item { flags: 1, ..Item::new("x", b"x") }), "400 malformed"),
        // Found out only once all of its component has been taken.
        (with(Item { crc: 1, ..Item::new("x", b"x") }), "400 malformed"),
        (with(Item::new("bomb", &zeros)), "413 too_large"),
        (with(Item { size: 1000, ..Item::new("bomb", &zeros) }), "400 malformed"),
        (zip(&[Item::stored("noise", &noise), Item::stored("more", &noise[..2 << 20])]), "413 too_large"),
        (zip(&[good[0].clone(), Item::stored("a.wasm", &noise)]), "422 invalid_component"),
        (zip(&[good[0].clone()]), "422 invalid_component"),
        (zip(&[good[1].clone()]), "422 invalid_manifest"),
        (zip(&[Item::new("SKILL.md", b"# Read this"), Item::new("references/a.md", b"a")]), "422 not_supported"),
    ] {
        let refused = send(&host, "", archive).await;
        assert_eq!(refused.summary(), expected, "{}", refused.body);
        assert!(!refused.body.to_string().contains(host.dir.path().to_str().unwrap()), "{}", refused.body);
    }
    let grown = host.peak_mib() - before;
    assert!(grown < 48, "{grown} MiB");
    assert_eq!(host.get("/api/skills").await.body["total"], 1);
    assert_eq!(strays(&host).await, Ok(()));
    assert!(!Path::new("/tmp/escaped").exists());
    assert_eq!(send(&host, "", zip(&good)).await.status, 201);
}

#[test]
fn the_command_line_pushes_folders_and_zips_with_their_text() {
    let host = Host::start();
    let data = host.dir.path().join("data");
    let dir = tempfile::tempdir().unwrap();
    let written = skill_md("echo", "Pushed.");
    std::fs::write(dir.path().join("SKILL.md"), &written).unwrap();
    std::fs::write(dir.path().join("echo.wasm"), guest("echo")).unwrap();
    let packed = tempfile::tempdir().unwrap();
    let archive = packed.path().join("echo.zip");
    std::fs::write(&archive, zip(&folder("echo/", &written))).unwrap();
    let push =
        |path: &Path, more: &[&str]| run(&mut command(&data, &[&["push", path.to_str().unwrap()], more].concat()));
    let made = push(dir.path(), &["--json"]).expect(0).json();
    // The same skill, however it came.
    let again = push(&archive, &[]).expect(0).stdout;
    assert!(again.starts_with("unchanged echo@1.0.0"), "{again}");
    push(&archive, &["--version", "1.1.0"]).expect(0);
    push(&archive, &["--manifest", "m.json"]).expect(2);
    std::fs::write(dir.path().join("SKILL.md"), skill_md("echo", "Changed.")).unwrap();
    push(dir.path(), &[]).expect(5);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for reference in [made["id"].as_str().unwrap(), "echo@1.0.0", "echo@1.1.0"] {
        assert_eq!(runtime.block_on(text(&host, reference)), (200, written.clone()), "{reference}");
    }
}
