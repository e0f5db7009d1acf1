use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Host, guest};

use super::{digest, install, install_as, key};

/// The registry of Debian's package docker-registry.
const PROGRAM: &str = "docker-registry";
/// `ada` and `open-sesame`, as htpasswd -B writes them.
const HTPASSWD: &str = "ada:$2b$05$abcdefghijklmnopqrstuutXu9KzOt.1yBoZUeFWoT/914/JfszCO\n";

/// A real registry on a port of its own. It ends when dropped.
pub(crate) struct Registry {
    child: Child,
    pub(crate) address: String,
    _dir: TempDir,
}

impl Registry {
    /// Starts one, where it is installed: where it is not, that is told, and in CI it is a failure.
    #[expect(
        clippy::disallowed_methods,
        clippy::print_stderr,
        reason = "no setting of the program; whoever tests should know"
    )]
    pub(crate) fn start(is_private: bool) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut config = json!({
            "version": 0.1, "log": { "level": "info", "formatter": "json" },
            "storage": { "filesystem": { "rootdirectory": dir.path().join("storage") } },
            "http": { "addr": "127.0.0.1:0" },
        });
        if is_private {
            let file = dir.path().join("htpasswd");
            std::fs::write(&file, HTPASSWD).unwrap();
            config["auth"] = json!({ "htpasswd": { "realm": "it", "path": file } });
        }
        // JSON is YAML too.
        let file = dir.path().join("config.yml");
        std::fs::write(&file, config.to_string()).unwrap();
        let started =
            Command::new(PROGRAM).arg("serve").arg(&file).stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(_) => {
                let advice = "docker-registry is not installed; scripts/registry installs it";
                assert!(std::env::var_os("CI").is_none(), "{advice}");
                eprintln!("left out: {advice}");
                return None;
            }
        };
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let address = loop {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "the registry does not start");
            if let Some((_, rest)) = line.split_once("listening on ") {
                break rest.split(['"', ' ', ',', '\n']).next().unwrap().to_owned();
            }
        };
        // A pipe that nobody reads would hold it up.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Some(Self { child, address, _dir: dir })
    }

    /// A host that may fetch from here.
    pub(super) fn host(&self) -> Host {
        Host::start_with(&["--egress-allow-cidrs", "127.0.0.1/32", "--registry-insecure-hosts", &self.address])
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/v2/{path}", self.address)
    }

    /// Puts bytes into a repository, as any client does.
    async fn put(&self, repository: &str, bytes: Vec<u8>) -> Value {
        let client = Client::new();
        let begun = client.post(self.url(&format!("{repository}/blobs/uploads/"))).send().await.unwrap();
        let location = begun.headers()["location"].to_str().unwrap().to_owned();
        let (digest, size) = (digest(&bytes), bytes.len());
        let put = client.put(location).query(&[("digest", &digest)]).body(bytes).send().await.unwrap();
        assert_eq!(put.status(), StatusCode::CREATED);
        json!({ "digest": digest, "size": size })
    }

    /// Puts a manifest there; gives its digest.
    async fn tag(&self, place: &str, kind: &str, manifest: &Value) -> String {
        let url = self.url(place);
        let put = Client::new().put(url).header("content-type", kind).body(manifest.to_string()).send().await.unwrap();
        assert_eq!(put.status(), StatusCode::CREATED, "{}", put.text().await.unwrap());
        digest(manifest.to_string().as_bytes())
    }

    /// A manifest, as the registry has it.
    pub(super) async fn manifest(&self, repository: &str, tag: &str) -> (String, Value) {
        let accept = "application/vnd.oci.image.manifest.v1+json";
        let url = self.url(&format!("{repository}/manifests/{tag}"));
        let got: Response = Client::new().get(url).header("accept", accept).send().await.unwrap();
        let text = got.text().await.unwrap();
        (digest(text.as_bytes()), serde_json::from_str(&text).unwrap())
    }

    pub(super) async fn blob(&self, repository: &str, digest: &Value) -> Vec<u8> {
        let url = self.url(&format!("{repository}/blobs/{}", digest.as_str().unwrap()));
        Client::new().get(url).send().await.unwrap().bytes().await.unwrap().to_vec()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn typed(mut descriptor: Value, kind: &str, title: Option<&str>) -> Value {
    descriptor["mediaType"] = kind.into();
    if let Some(title) = title {
        descriptor["annotations"] = json!({ "org.opencontainers.image.title": title });
    }
    descriptor
}

/// The artefacts of `wkg`, of `oras` and of tools for images, and one for several platforms.
#[tokio::test]
async fn artefacts_of_every_kind_are_installed_from_a_registry() {
    let Some(registry) = Registry::start(false) else { return };
    let (oci, docker) =
        ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json");
    let layer = registry.put("team/hello", guest("hello")).await;
    let config = registry.put("team/hello", b"{}".to_vec()).await;
    let manifest = |kind: &str, config_kind: &str, layer_kind: &str, title| {
        json!({ "schemaVersion": 2, "mediaType": kind, "config": typed(config.clone(), config_kind, None),
            "layers": [typed(layer.clone(), layer_kind, title)] })
    };
    let wkg = manifest(oci, "application/vnd.wasm.config.v0+json", "application/wasm", None);
    let oras = manifest(
        oci,
        "application/vnd.oci.empty.v1+json",
        "application/vnd.oci.image.layer.v1.tar",
        Some("hello.wasm"),
    );
    let image = manifest(docker, "application/vnd.docker.container.image.v1+json", "application/wasm", None);
    let mut digests = Vec::new();
    for (tag, kind, manifest) in [("1.0.0", oci, &wkg), ("1.1.0", oci, &oras), ("1.2.0", docker, &image)] {
        digests.push(registry.tag(&format!("team/hello/manifests/{tag}"), kind, manifest).await);
    }
    let size = wkg.to_string().len();
    let entry = json!({ "mediaType": oci, "digest": digests[0], "size": size,
        "platform": { "architecture": "wasm", "os": "wasip2" } });
    let index =
        json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry] });
    digests.push(registry.tag("team/hello/manifests/2.0.0", "application/vnd.oci.image.index.v1+json", &index).await);

    let host = registry.host();
    let source = |tag: &str| format!("{}/team/hello:{tag}", registry.address);
    for (tag, manifest_digest) in ["1.0.0", "1.1.0", "1.2.0", "2.0.0"].iter().zip(&digests) {
        let made = install_as(&host, host.key(), json!({ "source": source(tag) })).await;
        assert_eq!(made.status, 201, "{tag}: {}", made.body);
        assert_eq!((&made.body["name"], &made.body["version"]), (&json!("hello"), &json!(tag)), "{}", made.body);
        let from = json!({ "kind": "oci", "from": source(tag), "manifestDigest": manifest_digest,
            "digest": digest(&guest("hello")) });
        assert_eq!((&made.body["source"], &made.body["sourceProvider"]), (&from, &json!("oci")));
    }
    let ran = host.run("hello@1.1.0", json!({ "name": "Ada" }), json!({})).await.body;
    assert_eq!((&ran["status"], &ran["digest"]), (&json!("success"), &json!(digest(&guest("hello")))));
    let pinned = format!("oci://{}/team/hello@{}", registry.address, digests[0]);
    assert_eq!(install(&host, &pinned, "pinned").await.status, 201);
    assert_eq!(install(&host, &source("3.0.0"), "none").await.summary(), "404 not_found");
    // Without the operator's word, nobody speaks to it in the clear.
    let strict = Host::start_with(&["--egress-allow-cidrs", "127.0.0.1/32"]);
    assert_eq!(install(&strict, &source("1.0.0"), "strict").await.summary(), "503 unavailable");
}

#[tokio::test]
async fn a_private_registry_wants_to_know_who_asks() {
    let Some(registry) = Registry::start(true) else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hello.wasm");
    std::fs::write(&file, guest("hello")).unwrap();
    let host = registry.host();
    let source = format!("{}/team/hello:1.0.0", registry.address);
    let body = |login: Option<(&str, &str)>| {
        let mut body = json!({ "source": source });
        if let Some((username, password)) = login {
            body["username"] = username.into();
            body["password"] = password.into();
        }
        body
    };
    for login in [None, Some(("ada", "wrong"))] {
        let refused = install_as(&host, host.key(), body(login)).await;
        assert_eq!(refused.summary(), "403 denied", "{}", refused.body);
    }
    let pushed = super::commands::push(&file, &registry, Some(("ada", "open-sesame")));
    pushed.expect(0);
    let ceiling = format!("http://{}", registry.address);
    let key = key(&host, &[&ceiling]).await;
    let made = install_as(&host, &key, body(Some(("ada", "open-sesame")))).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert!(!host.log().contains("open-sesame"));
}
