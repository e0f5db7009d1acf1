use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{command, guest, run};
use crate::tls::Authority;

use super::site::{Page, Site, moved};
use super::{digest, host_with, install_as, key};

/// A repository with two skills and something else.
struct Repository(TempDir);

impl Repository {
    fn new() -> Self {
        let repository = Self(tempfile::tempdir().unwrap());
        repository.git(&["init", "--quiet"]);
        for name in ["hello", "spin", "claim"] {
            let folder = repository.0.path().join("skills").join(name);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("SKILL.md"), skill_md(name)).unwrap();
            std::fs::write(folder.join("it.wasm"), guest(if name == "claim" { "hello" } else { name })).unwrap();
        }
        std::fs::write(repository.0.path().join("README.md"), "Skills.").unwrap();
        repository.git(&["add", "."]);
        let who = ["-c", "user.name=it", "-c", "user.email=it@it.example"];
        repository.git(&[&who[..], &["commit", "--quiet", "--message", "Skills"]].concat());
        repository
    }

    fn git(&self, arguments: &[&str]) -> Vec<u8> {
        let none = Path::new("/dev/null");
        let mut git = Command::new("git");
        git.arg("-C").arg(self.0.path()).args(arguments);
        git.env("GIT_CONFIG_GLOBAL", none).env("GIT_CONFIG_SYSTEM", none);
        let ended = git.output().unwrap();
        assert!(ended.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ended.stderr));
        ended.stdout
    }

    /// All of it, as git hosts give it.
    fn archive(&self) -> Vec<u8> {
        self.git(&["archive", "--format=zip", "--prefix=skills-main/", "HEAD"])
    }

    /// One folder of it.
    fn folder(&self, name: &str) -> Vec<u8> {
        self.git(&["archive", "--format=zip", &format!("HEAD:skills/{name}")])
    }
}

fn skill_md(name: &str) -> String {
    let mut manifest = json!({ "name": name, "version": "2.0.0", "tags": ["from-afar"] });
    if name == "claim" {
        manifest["owner"] = "system".into();
    }
    format!("---\nname: {name}\ndescription: A skill.\n---\n\n```json skill\n{manifest}\n```\n")
}

fn ok(body: Vec<u8>) -> Option<Page> {
    Some(("200 OK", "content-type: application/zip\r\n".to_owned(), body))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_folder_of_a_repository_is_installed_from_a_git_host() {
    let authority = Authority::new();
    let archive = Repository::new().archive();
    let code = Site::start(&authority, move |path, _| match path {
        "/acme/skills/zip/HEAD" | "/acme/skills/zip/refs/tags/v1" => ok(archive.clone()),
        _ => None,
    })
    .await;
    let to = code.origin();
    let site = Site::start(&authority, move |path, _| {
        let reference = path.strip_prefix("/git/acme/skills/archive/")?.strip_suffix(".zip")?;
        Some(moved(&format!("{to}/acme/skills/zip/{reference}")))
    })
    .await;
    let base = site.url("/git/");
    let listed = format!("acme/*,{}/acme/*", code.origin());
    let host = host_with(&authority, &["--install-git-base-url", &base, "--install-allowed-sources", &listed]);
    let none = key(&host, &[]).await;
    let made = install_as(&host, &none, json!({ "source": "acme/skills", "skill": "hello" })).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let source = json!({ "kind": "git", "from": "acme/skills", "skill": "hello", "digest": digest(&guest("hello")),
        "skillMdDigest": digest(skill_md("hello").as_bytes()) });
    assert_eq!((&made.body["source"], &made.body["sourceProvider"]), (&source, &json!("git")));
    assert_eq!((&made.body["version"], &made.body["tags"]), (&json!("2.0.0"), &json!(["from-afar"])));
    let tagged = json!({ "source": "acme/skills", "skillId": "spin", "ref": "refs/tags/v1", "name": "other" });
    let made = install_as(&host, &none, tagged).await;
    assert_eq!((made.status.as_u16(), &made.body["source"]["ref"]), (201, &json!("refs/tags/v1")), "{}", made.body);
    for (more, refusal) in [
        (json!({ "source": "acme/skills" }), "422 invalid_manifest"),
        (json!({ "source": "acme/skills", "skill": "none" }), "404 not_found"),
        (json!({ "source": "acme/none", "skill": "hello" }), "404 not_found"),
        (json!({ "source": "evil/skills", "skill": "hello" }), "403 denied"),
        (json!({ "source": "acme/skills", "skill": "hello", "manifest": {} }), "422 invalid_manifest"),
        (json!({ "source": "acme/skills", "skill": "hello", "digest": digest(b"x") }), "409 digest_mismatch"),
        (json!({ "source": "acme/skills", "skill": "hello", "skillMdDigest": digest(b"x") }), "409 digest_mismatch"),
    ] {
        let refused = install_as(&host, &none, more.clone()).await;
        assert_eq!(refused.summary(), refusal, "{more}: {}", refused.body);
    }
    let dir = tempfile::tempdir().unwrap();
    let lock = dir.path().join("skills.lock");
    let data = host.dir.path().join("data");
    let install = ["install", "acme/skills", "--skill", "hello", "--lock", lock.to_str().unwrap()];
    run(&mut command(&data, &install)).expect(0);
    run(&mut command(&data, &["install", "--lock", lock.to_str().unwrap()])).expect(0);
    assert!(std::fs::read_to_string(&lock).unwrap().contains("skill = \"hello\""));
    super::is_tidy(&host).await;
}

#[tokio::test]
async fn a_zipped_skill_folder_at_a_url_is_installed_with_its_manifest() {
    let authority = Authority::new();
    let repository = Repository::new();
    let (one, all) = (repository.folder("hello"), repository.archive());
    let mut broken = one.clone();
    let middle = broken.len() / 2;
    broken[middle] ^= 1;
    let site = Site::start(&authority, move |path, _| match path {
        "/hello.zip" => ok(one.clone()),
        "/all.zip" => ok(all.clone()),
        "/broken.zip" => ok(broken.clone()),
        _ => None,
    })
    .await;
    let host = host_with(&authority, &[]);
    let install = async |path: &str, more: Value| {
        let mut body = json!({ "source": site.url(path) });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        install_as(&host, host.key(), body).await
    };
    let made = install("/hello.zip", json!({})).await;
    assert_eq!((made.status.as_u16(), &made.body["tags"]), (201, &json!(["from-afar"])), "{}", made.body);
    assert_eq!(host.outcome("hello", json!({ "name": "Ada" }), json!({})).await, "success -");
    assert_eq!(install("/all.zip", json!({ "skill": "spin" })).await.status, 201);
    assert_eq!(install("/all.zip", json!({})).await.summary(), "422 invalid_manifest");
    // A folder from elsewhere does not say whose it becomes, though an administrator's key might.
    let claim = install("/all.zip", json!({ "skill": "claim" })).await;
    assert_eq!(
        (claim.summary().as_str(), &claim.body["errors"][0]["pointer"]),
        ("422 invalid_manifest", &json!("/owner"))
    );
    assert_eq!(install("/broken.zip", json!({ "name": "broken" })).await.summary(), "400 malformed");
    super::is_tidy(&host).await;
}

// The site answers while a command is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_file_pins_the_text_of_a_folder_too() {
    let authority = Authority::new();
    let repository = Repository::new();
    let first = repository.folder("hello");
    let text = skill_md("hello").replace("A skill.", "Another one.");
    std::fs::write(repository.0.path().join("skills/hello/SKILL.md"), &text).unwrap();
    let who = ["-c", "user.name=it", "-c", "user.email=it@it.example"];
    repository.git(&[&who[..], &["commit", "--quiet", "--all", "--message", "Text"]].concat());
    let served = std::sync::Arc::new(parking_lot::Mutex::new(first));
    let shown = std::sync::Arc::clone(&served);
    let site = Site::start(&authority, move |path, _| (path == "/hello.zip").then(|| ok(shown.lock().clone()))?).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("skills.lock");
    let lock = ["--lock", file.to_str().unwrap()];
    let source = site.url("/hello.zip");
    let install = async |arguments: &[&str], exit| {
        let host = host_with(&authority, &[]);
        run(&mut command(&host.dir.path().join("data"), &[&["install"], arguments, &lock].concat())).expect(exit);
        std::fs::read_to_string(&file).unwrap()
    };
    let pins = |text: &str| format!("skillMdDigest = {:?}", digest(text.as_bytes()));
    let locked = install(&[&source], 0).await;
    assert!(locked.contains(&pins(&skill_md("hello"))), "{locked}");
    install(&[], 0).await;
    // The component is the same.
    *served.lock() = repository.folder("hello");
    install(&[], 5).await;
    assert_eq!(install(&[&source], 5).await, locked);
    assert!(install(&[&source, "--update"], 0).await.contains(&pins(&text)));
}
