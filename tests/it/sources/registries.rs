use serde_json::{Value, json};

use crate::support::guest;
use crate::tls::Authority;

use super::site::{Page, Site, moved};
use super::{digest, host_with, install, install_as, key};

const WASM: &str = "application/wasm";

fn manifest(layers: &[(&str, &str, usize)]) -> Vec<u8> {
    let layers: Vec<Value> = layers
        .iter()
        .map(|(kind, digest, size)| json!({ "mediaType": kind, "digest": digest, "size": size }))
        .collect();
    json!({ "schemaVersion": 2, "layers": layers }).to_string().into_bytes()
}

fn ok(body: Vec<u8>) -> Page {
    ("200 OK", String::new(), body)
}

fn challenge(realm: &str) -> Page {
    ("401 Unauthorized", format!("www-authenticate: Bearer realm=\"{realm}\",service=\"it\"\r\n"), Vec::new())
}

/// A registry with a good artefact and with bad ones.
fn registry(path: &str, elsewhere: &str) -> Option<Page> {
    let hello = guest("hello");
    let named = digest(&hello);
    let good = manifest(&[(WASM, &named, hello.len())]);
    let rest = path.strip_prefix("/v2/")?;
    let (repository, rest) = rest.split_once("/manifests/").or_else(|| rest.split_once("/blobs/"))?;
    if rest == named {
        return Some(match repository {
            "lies" => ok(guest("spin")),
            "far" => moved(&format!("{elsewhere}/hello.wasm")),
            "inward" => moved("https://169.254.169.254/hello.wasm"),
            _ => ok(hello),
        });
    }
    Some(match repository {
        "good" | "lies" | "far" | "inward" => ok(good),
        "index" if rest == "latest" => {
            let entry = |digest: &str, architecture: &str| json!({ "mediaType": "x", "digest": digest, "size": 1, "platform": { "architecture": architecture, "os": "x" } });
            let entries = [entry(&digest(b"other"), "amd64"), entry(&digest(&good), "wasm")];
            ok(json!({ "schemaVersion": 2, "manifests": entries }).to_string().into_bytes())
        }
        "index" if rest == digest(&good) => ok(good),
        "image" => ok(manifest(&[("application/vnd.docker.image.rootfs.diff.tar.gzip", &named, 8)])),
        "two" => ok(manifest(&[(WASM, &named, 8), (WASM, &named, 8)])),
        "large" => ok(manifest(&[(WASM, &named, 1 << 40)])),
        "html" => ok(b"<!doctype html>".to_vec()),
        "told" => ("200 OK", format!("docker-content-digest: {}\r\n", digest(b"x")), good),
        "realm" => challenge("https://169.254.169.254/token"),
        "clear" => challenge("http://169.254.169.254/token"),
        "elsewhere" => challenge(&format!("{elsewhere}/token")),
        "again" => challenge(&format!("{elsewhere}/none")),
        "nonsense" => challenge("file:///etc/passwd"),
        _ => return None,
    })
}

#[tokio::test]
async fn artefacts_are_followed_to_their_component_or_refused() {
    let authority = Authority::new();
    let far =
        Site::start(&authority, |path, _| path.starts_with("/token?").then(|| ok(b"{\"token\":\"t\"}".to_vec()))).await;
    let elsewhere = far.origin();
    let site = Site::start(&authority, move |path, _| registry(path, &elsewhere)).await;
    let host = host_with(&authority, &[]);
    let source = |name: &str| format!("oci://{}/{name}", site.address);
    for name in ["good", "index", "far"] {
        let made = install(&host, &source(name), name).await;
        assert_eq!(made.status, 201, "{name}: {}", made.body);
        assert_eq!(made.body["source"]["kind"], "oci");
        assert!(made.body["source"]["manifestDigest"].as_str().unwrap().starts_with("sha256:"), "{}", made.body);
    }
    for (name, refusal) in [
        ("lies", "409 digest_mismatch"),
        ("told", "409 digest_mismatch"),
        ("inward", "403 denied"),
        ("image", "422 invalid_component"),
        ("two", "422 invalid_component"),
        ("html", "422 invalid_component"),
        ("large", "413 too_large"),
        ("none", "404 not_found"),
        ("realm", "403 denied"),
        // Refused before it is asked: a login would go there in the clear.
        ("clear", "503 unavailable"),
        ("again", "404 not_found"),
        ("nonsense", "503 unavailable"),
        // It gives a token, and the registry does not take it.
        ("elsewhere", "403 denied"),
    ] {
        let refused = install(&host, &source(name), "bad").await;
        assert_eq!(refused.summary(), refusal, "{name}: {}", refused.body);
    }
    let pinned = format!("{}@{}", source("good"), digest(b"another"));
    assert_eq!(install(&host, &pinned, "bad").await.summary(), "409 digest_mismatch");
}

#[tokio::test]
async fn a_token_is_fetched_from_where_the_registry_says_if_that_is_allowed_too() {
    let authority = Authority::new();
    let tokens = Site::start(&authority, |path, head| {
        let right = path == "/token?service=it&scope=repository%3Ateam%2Fhello%3Apull";
        let basic = head.contains("authorization: Basic YWRhOm9wZW4tc2VzYW1l\r\n");
        Some(if right && basic {
            ok(b"{\"access_token\":\"t0ken\"}".to_vec())
        } else {
            ("401 Unauthorized", String::new(), Vec::new())
        })
    })
    .await;
    let realm = tokens.url("/token");
    let site = Site::start(&authority, move |path, head| {
        let known = head.contains("authorization: Bearer t0ken\r\n");
        if known { registry(&path.replace("team/hello", "good"), "") } else { Some(challenge(&realm)) }
    })
    .await;
    let host = host_with(&authority, &[]);
    let (narrow, wide) = (key(&host, &[&site.origin()]).await, key(&host, &[&site.origin(), &tokens.origin()]).await);
    let body = |password: &str| json!({ "source": format!("oci://{}/team/hello:2.1.0", site.address), "username": "ada", "password": password });
    let refused = install_as(&host, &narrow, body("open-sesame")).await;
    assert_eq!(refused.summary(), "403 denied", "{}", refused.body);
    assert!(tokens.requests().is_empty());
    let refused = install_as(&host, &wide, body("wrong")).await;
    assert_eq!(refused.summary(), "403 denied", "{}", refused.body);
    let made = install_as(&host, &wide, body("open-sesame")).await;
    // Name and version are those of the reference: the component has none.
    assert_eq!((made.status.as_u16(), &made.body["name"]), (201, &json!("hello")), "{}", made.body);
    assert_eq!(made.body["version"], "2.1.0");
    assert!(!host.log().contains("open-sesame") && !host.log().contains("t0ken"));
}
