use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use skillvisor::CatalogueSettings;
use skillvisor::face::http::{HttpOptions, Pace, Server};
use skillvisor::host::{Host, HostOptions};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::support::until;

pub(crate) const NEVER: Duration = Duration::from_secs(3600);
/// No patience at all: what waits for this is over soon.
pub(crate) const SHORT: Duration = Duration::from_millis(100);
/// Long enough for any machine; a test that needs it has failed.
pub(crate) const AT_LAST: Duration = Duration::from_secs(60);

/// A server of this process with a pace of its own.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    key: String,
    dir: TempDir,
    _stop: oneshot::Sender<()>,
}

impl Serving {
    pub(crate) async fn with(pace: Pace) -> Self {
        Self::with_uploads_to(64 << 20, pace).await
    }

    /// Takes components of at most `max_upload_bytes`.
    async fn with_uploads_to(max_upload_bytes: u64, pace: Pace) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = HostOptions::new(dir.path().join("data"), env!("CARGO_BIN_EXE_skillvisor"));
        options.catalogue = CatalogueSettings::off();
        let host = Host::open(options).await.unwrap();
        let listen = "127.0.0.1:0".parse().unwrap();
        let server = Server::bind(
            host,
            HttpOptions {
                listen,
                tls: None,
                metrics_listen: None,
                max_upload_bytes,
                pace,
                behind_proxy: false,
                allowed_hosts: Vec::new(),
                allowed_origins: Vec::new(),
            },
        )
        .await
        .unwrap();
        let address = server.url().trim_start_matches("http://").parse().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(server.run(async { drop(stopped.await) }, Duration::ZERO));
        let key = std::fs::read_to_string(dir.path().join("data/admin.key")).unwrap();
        Self { address, key, dir, _stop: stop }
    }

    /// Head of a request whose body has `length` bytes.
    fn head(&self, path: &str, length: usize) -> Vec<u8> {
        let key = &self.key;
        format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/wasm\r\n\
             Content-Length: {length}\r\n\r\n"
        )
        .into_bytes()
    }

    /// Sends `first`, then `more` again and again, until the server ends the connection; gives
    /// what the server said.
    async fn trickle(&self, first: &[u8], more: &[u8]) -> String {
        let (mut read, mut write) = TcpStream::connect(self.address).await.unwrap().into_split();
        write.write_all(first).await.unwrap();
        let more = more.to_vec();
        let writing = tokio::spawn(async move {
            while !more.is_empty() && write.write_all(&more).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            if more.is_empty() {
                std::future::pending::<()>().await;
            }
        });
        let mut said = Vec::new();
        let ended = tokio::time::timeout(AT_LAST, read.read_to_end(&mut said)).await;
        writing.abort();
        assert!(ended.is_ok(), "the server still waits");
        String::from_utf8_lossy(&said).into_owned()
    }

    /// Whether the server still does its work.
    pub(crate) async fn is_well(&self) -> bool {
        let request = reqwest::get(format!("http://{}/readyz", self.address));
        request.await.is_ok_and(|reply| reply.status() == 200)
    }
}

/// Asserts that an answer is a 408 problem that ends the connection.
fn assert_timeout(said: &str) {
    let (head, body) = said.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {said:?}"));
    assert!(head.starts_with("HTTP/1.1 408 "), "{head}");
    assert!(head.to_ascii_lowercase().contains("\r\nconnection: close"), "{head}");
    let problem: Value = serde_json::from_str(body).unwrap();
    assert_eq!(problem["code"], "request_timeout");
}

#[tokio::test]
async fn whoever_is_slow_over_the_head_of_a_request_loses_the_connection() {
    let pace =
        Pace { head: SHORT, body_pause: NEVER, body_grace: NEVER, body_bytes_per_second: 1, answer_pause: NEVER };
    let serving = Serving::with(pace).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for (first, more) in [
        (&b""[..], &b""[..]),
        (b"P", b""),
        (b"GET /livez HTTP/1.1\r\n", b"X-Header: x\r\n"),
        (b"GET /", b"a"),
        (preface, b""),
        (&preface[..20], b""),
    ] {
        let said = serving.trickle(first, more).await;
        assert!(!said.contains(" 200 "), "{first:?}: {said}");
        assert!(serving.is_well().await);
    }
}

#[tokio::test]
async fn a_connection_that_has_been_used_does_not_stay_idle_for_ever() {
    let pace =
        Pace { head: SHORT, body_pause: NEVER, body_grace: NEVER, body_bytes_per_second: 1, answer_pause: NEVER };
    let serving = Serving::with(pace).await;
    let said = serving.trickle(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", b"").await;
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
}

#[tokio::test]
async fn a_body_that_pauses_is_answered_with_408_on_every_route_that_reads_one() {
    let pace =
        Pace { head: NEVER, body_pause: SHORT, body_grace: NEVER, body_bytes_per_second: 1, answer_pause: NEVER };
    let serving = Serving::with(pace).await;
    for path in ["/api/skills?name=a&version=1.0.0", "/api/skills/skillssh", "/api/skills/executions", "/api/keys"] {
        let mut first = serving.head(path, 20_000);
        first.extend_from_slice(b"{\"name\":");
        assert_timeout(&serving.trickle(&first, b"").await);
        assert!(serving.is_well().await);
    }
}

#[tokio::test]
async fn a_body_that_trickles_is_answered_with_408_and_leaves_nothing_on_the_disk() {
    let pace =
        Pace { head: NEVER, body_pause: NEVER, body_grace: SHORT, body_bytes_per_second: 1 << 30, answer_pause: NEVER };
    let serving = Serving::with(pace).await;
    let first = serving.head("/api/skills?name=a&version=1.0.0", 20_000_000);
    assert_timeout(&serving.trickle(&first, b"x").await);
    let form = "POST /api/skills HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\
        Content-Type: multipart/form-data; boundary=b\r\nAuthorization: Bearer ";
    let part = "--b\r\nContent-Disposition: form-data; name=\"component\"\r\n\r\n";
    let first = format!("{form}{}\r\n\r\n{:x}\r\n{part}\r\n", serving.key, part.len());
    assert_timeout(&serving.trickle(first.as_bytes(), b"1\r\nx\r\n").await);
    for folder in ["tmp", "blobs"] {
        let left: Vec<_> = std::fs::read_dir(serving.dir.path().join("data").join(folder)).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[tokio::test]
async fn unfinished_uploads_of_one_owner_have_a_bound_and_leave_room_for_the_others() {
    const LARGEST: usize = 1 << 20;
    let pace =
        Pace { head: NEVER, body_pause: NEVER, body_grace: NEVER, body_bytes_per_second: 1, answer_pause: NEVER };
    let serving = Serving::with_uploads_to(LARGEST as u64, pace).await;
    let url = format!("http://{}/api", serving.address);
    let client = reqwest::Client::new();
    let another = client.post(format!("{url}/keys")).bearer_auth(&serving.key);
    let another = another.body(r#"{"name":"other","owner":"other","scopes":["skills:write"]}"#).send().await.unwrap();
    let another: Value = another.json().await.unwrap();
    let another = another["secret"].as_str().unwrap_or_else(|| panic!("{another}"));
    let upload = async |key: &str| {
        let request = client.post(format!("{url}/skills?name=a&version=1.0.0")).bearer_auth(key);
        let reply = request.header("content-type", "application/wasm").body(vec![0; LARGEST]).send().await.unwrap();
        reply.json::<Value>().await.unwrap()["code"].as_str().unwrap().to_owned()
    };
    let mut stalled = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(serving.address).await.unwrap();
        stream.write_all(&serving.head("/api/skills?name=a&version=1.0.0", LARGEST)).await.unwrap();
        stream.write_all(&vec![0; LARGEST - 1]).await.unwrap();
        stalled.push(stream);
    }
    let folder = serving.dir.path().join("data/tmp");
    let on_disk = || -> u64 {
        // A file may go away between being listed and being looked at.
        std::fs::read_dir(&folder)
            .unwrap()
            .filter_map(|file| file.unwrap().metadata().ok())
            .map(|file| file.len())
            .sum()
    };
    let full = 8 * (LARGEST as u64 - 1);
    until(async || (on_disk() == full).then_some(())).await;
    assert_eq!(upload(&serving.key).await, "queue_full");
    // Nothing is wrong with the others' but what is in them.
    assert_eq!(upload(another).await, "invalid_component");
    stalled.clear();
    until(async || (on_disk() == 0).then_some(())).await;
    until(async || (upload(&serving.key).await == "invalid_component").then_some(())).await;
}
