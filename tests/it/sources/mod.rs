//! Skills that the host fetches from elsewhere.

/// The commands that install, pull and push.
mod commands;
/// Skill folders, in zips and in repositories.
mod folders;
/// Artefacts, in registries that answer as they like.
mod registries;
/// Artefacts, in a real registry.
mod registry;

pub(crate) use self::registry::Registry;
/// A server to fetch from.
mod site;

use reqwest::Method;
use serde_json::{Value, json};
use sha2::Digest as _;

use crate::support::{Host, Reply, guest, reply, until};
use crate::tls::Authority;

use self::site::{Site, moved};

/// A host that trusts `authority`, on which the operator opened the machine's own loopback.
fn host_with(authority: &Authority, more: &[&str]) -> Host {
    let ca_file = authority.file("ca.pem");
    let mut arguments = vec!["--egress-allow-cidrs", "127.0.0.1/32", "--egress-ca-file", ca_file.to_str().unwrap()];
    arguments.extend(more);
    Host::start_with(&arguments)
}

/// Makes a key that may write and read, with this network ceiling.
async fn key(host: &Host, network: &[&str]) -> String {
    let body = json!({ "name": "k", "ceilings": { "network": network } });
    let made = host.send(Method::POST, "/api/keys", body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.body["secret"].as_str().unwrap().to_owned()
}

async fn install_as(host: &Host, key: &str, body: Value) -> Reply {
    reply(host.request_as(Some(key), Method::POST, "/api/skills/install").body(body.to_string())).await
}

async fn install(host: &Host, source: &str, name: &str) -> Reply {
    install_as(host, host.key(), json!({ "source": source, "name": name, "version": "1.0.0" })).await
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(sha2::Sha256::digest(bytes)))
}

/// Nothing that was begun is left in the host's directory.
async fn is_tidy(host: &Host) {
    let temporary = host.dir.path().join("data/tmp");
    until(async || (std::fs::read_dir(&temporary).unwrap().count() == 0).then_some(())).await;
}

#[tokio::test]
async fn a_component_at_a_url_becomes_a_skill_that_says_where_it_came_from() {
    let authority = Authority::new();
    let site = Site::plain(&authority).await;
    let mut host = host_with(&authority, &[]);
    let pinned = json!({ "source": site.url("/moved.wasm"), "name": "hello", "version": "1.0.0",
        "digest": digest(&guest("hello")), "manifest": { "tags": ["far"], "grants": { "kv": true } } });
    let made = install_as(&host, host.key(), pinned.clone()).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let source = json!({ "kind": "url", "from": site.url("/moved.wasm"), "digest": digest(&guest("hello")) });
    assert_eq!((&made.body["source"], &made.body["sourceProvider"]), (&source, &json!("url")));
    assert_eq!((&made.body["tags"], &made.body["grants"]["kv"]), (&json!(["far"]), &json!(true)));
    assert_eq!(install_as(&host, host.key(), pinned).await.status, 200);
    host.kill_and_restart();
    assert_eq!(host.get("/api/skills/hello").await.body["source"], source);
    assert_eq!(host.outcome("hello", json!({ "name": "Ada" }), json!({})).await, "success -");
    // A version is what it is, wherever it comes from; and what was uploaded has no source.
    let again = host.upload("other", guest("hello")).await;
    assert_eq!((again.status.as_u16(), &again.body["source"]), (201, &Value::Null));
    let same = install(&host, &site.url("/hello.wasm"), "other").await;
    assert_eq!((same.status.as_u16(), &same.body["source"]), (200, &Value::Null), "{}", same.body);
    assert_eq!(install(&host, &site.url("/signed.wasm?sig=abc"), "signed").await.status, 201);
    let signed = host.get("/api/skills/signed").await.body.to_string();
    assert!(signed.contains("/signed.wasm") && !signed.contains("sig=abc"), "{signed}");
    assert!(!host.log().contains("sig=abc"));
}

#[tokio::test]
async fn what_is_no_component_or_does_not_come_as_it_should_is_refused_and_leaves_nothing() {
    let authority = Authority::new();
    let site = Site::plain(&authority).await;
    let host = host_with(&authority, &["--install-timeout-ms", "2500", "--upload-max-bytes", "1MiB"]);
    for (path, refusal) in [
        ("/html.wasm", "422 invalid_component"),
        ("/empty.wasm", "422 invalid_component"),
        ("/text.wasm", "422 invalid_component"),
        ("/none.wasm", "404 not_found"),
        ("/private.wasm", "403 denied"),
        ("/broken.wasm", "503 unavailable"),
        ("/inward.wasm", "403 denied"),
        ("/clear.wasm", "403 denied"),
        ("/loop.wasm", "503 unavailable"),
        ("/file.wasm", "503 unavailable"),
        ("/drip.wasm", "503 unavailable"),
        ("/endless.wasm", "413 too_large"),
        ("/short.wasm", "503 unavailable"),
        ("/headers.wasm", "503 unavailable"),
    ] {
        let refused = install(&host, &site.url(path), "bad").await;
        assert_eq!(refused.summary(), refusal, "{path}: {}", refused.body);
        let said = refused.body.to_string();
        for secret in ["top secret", "stack trace", "meta-data", "169.254.169.254/"] {
            assert!(path == "/inward.wasm" || path == "/clear.wasm" || !said.contains(secret), "{path}: {said}");
        }
    }
    let pin = json!({ "source": site.url("/hello.wasm"), "name": "bad", "version": "1.0.0", "digest": digest(b"x") });
    assert_eq!(install_as(&host, host.key(), pin).await.summary(), "409 digest_mismatch");
    assert_eq!(host.get("/api/skills/bad").await.status, 404);
    is_tidy(&host).await;
    assert_eq!(std::fs::read_dir(host.dir.path().join("data/blobs")).unwrap().count(), 0);
}

#[tokio::test]
async fn nothing_is_fetched_from_inside_for_anybody() {
    let authority = Authority::new();
    let site = Site::plain(&authority).await;
    let ca_file = authority.file("ca.pem");
    let host = Host::start_with(&["--egress-ca-file", ca_file.to_str().unwrap()]);
    let port = site.address.port();
    for source in [
        "http://169.254.169.254/latest/meta-data/x.wasm".to_owned(),
        "https://169.254.169.254/latest/meta-data/x.wasm".to_owned(),
        site.url("/hello.wasm"),
        format!("https://localhost:{port}/hello.wasm"),
        format!("https://[::1]:{port}/hello.wasm"),
        format!("https://[::ffff:127.0.0.1]:{port}/hello.wasm"),
        format!("localhost:{port}/team/hello:1.0"),
        "oci://169.254.169.254/a/b".to_owned(),
        "oci://10.0.0.1:5000/a/b".to_owned(),
    ] {
        let refused = install(&host, &source, "bad").await;
        assert_eq!(refused.summary(), "403 denied", "{source}: {}", refused.body);
    }
    for source in ["https://0x7f.1/x.wasm", "https://user:pw@a.example/x.wasm", "file:///etc/passwd", "nothing", ""] {
        let refused = install(&host, source, "bad").await;
        assert_eq!(refused.summary(), "400 malformed", "{source}: {}", refused.body);
        assert_eq!(refused.body["errors"][0]["pointer"], "/source");
    }
    assert!(site.requests().is_empty());
}

#[tokio::test]
async fn a_key_installs_as_far_as_its_network_ceiling_goes_and_each_redirect_is_held_against_it() {
    let authority = Authority::new();
    let far = Site::plain(&authority).await;
    let to = far.url("/hello.wasm");
    let near = Site::start(&authority, move |path, _| (path == "/away.wasm").then(|| moved(&to))).await;
    let host = host_with(&authority, &[]);
    let none = key(&host, &[]).await;
    let one = key(&host, &[&near.origin()]).await;
    let both = key(&host, &[&near.origin(), &format!("GET {}/hello.wasm", far.origin())]).await;
    let away = json!({ "source": near.url("/away.wasm"), "name": "away", "version": "1.0.0",
        "username": "ada", "password": "open-sesame" });
    let refused = install_as(&host, &none, away.clone()).await;
    assert_eq!(refused.summary(), "403 denied", "{}", refused.body);
    assert!(near.requests().is_empty());
    let refused = install_as(&host, &one, away.clone()).await;
    assert_eq!(refused.summary(), "403 denied", "{}", refused.body);
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("skillvisor keys create NAME --network {}", far.origin())), "{detail}");
    assert!(far.requests().is_empty());
    assert_eq!(install_as(&host, &both, away).await.status, 201);
    // Who we are is for the first origin alone.
    let basic = "authorization: Basic YWRhOm9wZW4tc2VzYW1l";
    assert!(near.requests().iter().all(|head| head.contains(basic)));
    assert!(far.requests().iter().all(|head| !head.to_ascii_lowercase().contains("authorization")));
    assert!(!host.log().contains("open-sesame"));
    let files = [host.dir.path().join("data/skillvisor.db"), host.dir.path().join("data/skillvisor.db-wal")];
    for file in files.iter().filter_map(|file| std::fs::read(file).ok()) {
        assert!(!file.windows(11).any(|bytes| bytes == b"open-sesame"));
    }
}

#[tokio::test]
async fn what_the_operator_lists_may_be_installed_by_everybody_who_may_write() {
    let authority = Authority::new();
    let site = Site::plain(&authority).await;
    let open = format!("{}/open/*", site.origin());
    let host = host_with(&authority, &["--install-allowed-sources", &open]);
    let none = key(&host, &[]).await;
    let body = |path: &str| json!({ "source": site.url(path), "name": "hello", "version": "1.0.0" });
    assert_eq!(install_as(&host, &none, body("/open/hello.wasm")).await.status, 201);
    assert_eq!(install_as(&host, &none, body("/hello.wasm")).await.summary(), "403 denied");
    assert_eq!(install_as(&host, &none, body("/open/%2e%2e/hello.wasm")).await.summary(), "400 malformed");
    let reader = json!({ "name": "r", "scopes": ["skills:read"], "ceilings": { "network": ["public"] } });
    let reader = host.send(Method::POST, "/api/keys", reader).await.body["secret"].as_str().unwrap().to_owned();
    assert_eq!(install_as(&host, &reader, body("/open/hello.wasm")).await.summary(), "403 insufficient_scope");
    let foreign = json!({ "source": site.url("/open/hello.wasm"), "name": "h", "version": "1.0.0", "owner": "other" });
    let before = site.requests().len();
    assert_eq!(install_as(&host, &none, foreign).await.summary(), "403 forbidden");
    assert_eq!(site.requests().len(), before);
}

#[tokio::test]
async fn who_leaves_while_something_is_fetched_leaves_nothing_behind() {
    let authority = Authority::new();
    let site = Site::plain(&authority).await;
    let host = host_with(&authority, &[]);
    let body = json!({ "source": site.url("/drip.wasm"), "name": "half", "version": "1.0.0" }).to_string();
    let asked = host.request_as(Some(host.key()), Method::POST, "/api/skills/install").body(body);
    let asked = tokio::spawn(asked.send());
    let temporary = host.dir.path().join("data/tmp");
    until(async || (std::fs::read_dir(&temporary).unwrap().count() == 1).then_some(())).await;
    asked.abort();
    is_tidy(&host).await;
    assert_eq!(host.get("/api/skills/half").await.status, 404);
}

#[tokio::test]
async fn a_body_says_what_it_means_or_is_refused() {
    let authority = Authority::new();
    let site = Site::plain(&authority).await;
    let host = host_with(&authority, &[]);
    let source = site.url("/hello.wasm");
    for (body, refusal) in [
        (json!({ "source": source, "sorce": 1 }), "400 malformed"),
        (json!({ "source": 7 }), "400 malformed"),
        (json!([source]), "400 malformed"),
        (json!({ "source": source, "username": "ada" }), "400 malformed"),
        (json!({ "source": source, "username": "a:b", "password": "x" }), "400 malformed"),
        (json!({ "source": source, "digest": "sha256:1" }), "400 malformed"),
        (json!({ "source": source, "manifest": { "handler": digest(b"x") } }), "422 invalid_manifest"),
        (json!({ "source": source, "name": "install", "version": "1.0.0" }), "422 reserved_name"),
        (json!({ "source": source, "ref": "main" }), "400 malformed"),
        (json!({ "source": "acme/skills", "ref": "a/../b" }), "400 malformed"),
        (json!({ "source": "acme/skills", "skill": ".." }), "400 malformed"),
        (json!({ "source": source, "manifest": [] }), "400 malformed"),
        (json!({ "source": source, "name": "no-version" }), "422 invalid_manifest"),
    ] {
        let refused = install_as(&host, host.key(), body.clone()).await;
        assert_eq!(refused.summary(), refusal, "{body}: {}", refused.body);
    }
}

#[tokio::test]
async fn the_body_that_omniroute_sends_is_a_manifest() {
    let host = Host::start().with("hello").await;
    let digest = host.get("/api/skills/hello").await.body["digest"].clone();
    let theirs = |handler: &Value| {
        json!({ "name": "theirs", "description": "Says hello.", "handlerCode": handler, "apiKeyId": "admin",
            "schema": { "input": { "name": "string" }, "output": {} } })
    };
    let made = install_as(&host, host.key(), theirs(&digest)).await;
    assert_eq!((made.status.as_u16(), &made.body["version"]), (201, &json!("1.0.0")), "{}", made.body);
    assert_eq!(install_as(&host, host.key(), theirs(&json!("echoHandler"))).await.summary(), "422 not_supported");
}
