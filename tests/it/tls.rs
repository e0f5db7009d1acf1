use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use reqwest::Certificate;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::support::{Ended, Host, command, reply, run, until};

/// An operator's own authority, and the files that it gave out.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: TempDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Self { issuer, dir: tempfile::tempdir().unwrap() };
        std::fs::write(authority.file("ca.pem"), authority.issuer.pem()).unwrap();
        authority.renew();
        authority
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Gives out another certificate for this machine, into the same files.
    fn renew(&self) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.file("cert.pem"), cert.pem()).unwrap();
        std::fs::write(self.file("key.pem"), key.serialize_pem()).unwrap();
    }

    fn arguments(&self) -> [String; 4] {
        let path = |name: &str| self.file(name).to_str().unwrap().to_owned();
        ["--tls-cert".into(), path("cert.pem"), "--tls-key".into(), path("key.pem")]
    }

    pub(crate) fn start(&self) -> Host {
        let arguments = self.arguments();
        let mut host = Host::start_with(&arguments.each_ref().map(String::as_str));
        let ca = Certificate::from_pem(self.issuer.pem().as_bytes()).unwrap();
        host.client = reqwest::Client::builder().tls_certs_only([ca]).build().unwrap();
        host
    }

    /// A connection that has shaken hands, and offered `protocol`.
    async fn connect(&self, host: &Host, protocol: &[u8]) -> tokio_rustls::client::TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(address(host)).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }
}

fn address(host: &Host) -> String {
    host.url.trim_start_matches("https://").to_owned()
}

fn data(host: &Host) -> PathBuf {
    host.dir.path().join("data")
}

/// `list` from a directory of no host, with a server and a key by name.
fn named(data_dir: &Path, url: &str, key: &str, ca: Option<&Path>) -> Ended {
    let mut command = command(data_dir, &["list"]);
    command.env("SKILLVISOR_URL", url).env("SKILLVISOR_KEY", key);
    if let Some(ca) = ca {
        command.env("SKILLVISOR_CA_FILE", ca);
    }
    run(&mut command)
}

#[tokio::test]
async fn the_api_speaks_tls_with_the_operators_certificate() {
    let authority = Authority::new();
    let host = authority.start().with("hello").await;
    assert!(host.url.starts_with("https://127.0.0.1:"), "{}", host.url);
    assert_eq!(host.outcome("hello", serde_json::json!({}), serde_json::json!({})).await, "success -");
    let server: serde_json::Value =
        serde_json::from_slice(&std::fs::read(data(&host).join("server.json")).unwrap()).unwrap();
    assert_eq!(server["url"], host.url.as_str());
    let stranger = reqwest::Client::new().get(format!("{}/livez", host.url)).send().await;
    assert!(stranger.unwrap_err().is_connect());
}

#[tokio::test]
async fn client_and_server_agree_on_the_version_of_http() {
    let authority = Authority::new();
    let host = authority.start();
    let mut one = authority.connect(&host, b"http/1.1").await;
    assert_eq!(one.get_ref().1.alpn_protocol(), Some(b"http/1.1".as_slice()));
    one.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = vec![0; 15];
    one.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 200 OK");

    let mut two = authority.connect(&host, b"h2").await;
    assert_eq!(two.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    // The preface and an empty SETTINGS frame; the answer begins with the server's own (RFC 9113, section 3.4).
    two.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut frame = [0; 9];
    two.read_exact(&mut frame).await.unwrap();
    assert_eq!(frame[3], 4, "{frame:?}");
}

#[tokio::test]
async fn who_speaks_without_tls_to_a_port_with_it_is_told_so_and_hurts_nobody() {
    let authority = Authority::new();
    let host = authority.start();
    let plain = format!("http://{}", address(&host));
    for path in ["/livez", "/api/skills", "/nowhere"] {
        let answer = reply(reqwest::Client::new().get(format!("{plain}{path}"))).await;
        assert_eq!(answer.summary(), "400 malformed");
        let detail = answer.body["detail"].as_str().unwrap();
        assert!(detail.contains("speaks TLS") && detail.contains("https://"), "{detail}");
    }
    // Also who does have a key gets nothing but that.
    let (elsewhere, key) = (tempfile::tempdir().unwrap(), host.key().to_owned());
    let listed = named(elsewhere.path(), &plain, &key, None).expect(6);
    assert!(listed.stderr.contains("use a URL with https://"), "{}", listed.stderr);
    assert_eq!(host.get("/api/skills").await.status, 200);
}

#[test]
fn the_command_line_says_so_where_a_port_does_not_speak_tls() {
    let host = Host::start();
    let elsewhere = tempfile::tempdir().unwrap();
    let url = host.url.replace("http://", "https://");
    let failed = named(elsewhere.path(), &url, host.key(), None).expect(8);
    assert!(failed.stderr.contains("that port does not speak TLS"), "{}", failed.stderr);
}

#[test]
fn the_command_line_says_what_is_wrong_with_an_authoritys_certificate_as_a_servers_own() {
    let authority = Authority::new();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    std::fs::write(authority.file("cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(authority.file("key.pem"), key.serialize_pem()).unwrap();
    let host = authority.start();
    let elsewhere = tempfile::tempdir().unwrap();
    let failed = named(elsewhere.path(), &host.url, host.key(), Some(&authority.file("cert.pem"))).expect(8);
    assert!(failed.stderr.contains("CA:TRUE") && failed.stderr.contains("CA:FALSE"), "{}", failed.stderr);
    // Whoever has the directory knows the certificate itself.
    run(&mut command(&data(&host), &["list"])).expect(0);
}

#[test]
fn authorities_of_the_way_out_that_cannot_be_read_stop_the_start_as_a_setting() {
    let authority = Authority::new();
    let key = authority.file("key.pem");
    for (file, why) in [(key.to_str().unwrap(), "has no certificate in it"), ("/nonexistent.pem", "cannot be read")] {
        let dir = tempfile::tempdir().unwrap();
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--egress-ca-file", file];
        let ended = run(&mut command(dir.path(), &arguments)).expect(2);
        let named = format!("egress.ca_file = \"{file}\" (--egress-ca-file): ");
        assert!(ended.stderr.contains(&named) && ended.stderr.contains(why), "{}", ended.stderr);
        assert!(!dir.path().join("lock").exists(), "nothing was opened");
    }
}

#[tokio::test]
async fn those_who_never_shake_hands_keep_nobody_waiting() {
    let authority = Authority::new();
    let host = authority.start();
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(TcpStream::connect(address(&host)).await.unwrap());
    }
    let answer = tokio::time::timeout(Duration::from_secs(5), host.get("/api/skills")).await;
    assert_eq!(answer.expect("an answer beside those who wait").status, 200);
    // The server ends them by itself.
    let mut first = idle.remove(0);
    let ended = tokio::time::timeout(Duration::from_secs(20), first.read(&mut [0; 16])).await;
    assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
}

#[test]
fn files_that_cannot_be_used_stop_the_start_with_the_reason() {
    let (authority, other) = (Authority::new(), Authority::new());
    let path = |authority: &Authority, name: &str| authority.file(name).to_str().unwrap().to_owned();
    let (cert, key, foreign) = (path(&authority, "cert.pem"), path(&authority, "key.pem"), path(&other, "key.pem"));
    for (cert, key, why) in [
        (&cert, &foreign, "they do not belong together"),
        (&key, &key, "has no certificate in it"),
        (&cert, &cert, "has no private key in it"),
        (&cert, &"/nonexistent/key.pem".to_owned(), "tls.key: cannot read /nonexistent/key.pem"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key];
        let ended = run(&mut command(dir.path(), &arguments)).expect(2);
        assert!(ended.stderr.contains(why), "{why}: {}", ended.stderr);
        assert!(!dir.path().join("lock").exists(), "nothing was opened");
    }
}

#[test]
fn an_address_that_others_can_reach_needs_tls_or_a_proxy_in_front() {
    let dir = tempfile::tempdir().unwrap();
    let refused = run(&mut command(dir.path(), &["serve", "--listen", "0.0.0.0:0"])).expect(2);
    assert!(refused.stderr.contains("tls.cert and tls.key"), "{}", refused.stderr);
    let metrics = ["serve", "--listen", "127.0.0.1:0", "--metrics-listen", "0.0.0.0:0"];
    assert!(run(&mut command(dir.path(), &metrics)).expect(2).stderr.contains("asks for no key"));

    let proxied = Host::start_with(&["--listen", "0.0.0.0:0", "--behind-proxy"]);
    run(&mut command(&data(&proxied), &["list"])).expect(0);
    let authority = Authority::new();
    let arguments = authority.arguments();
    let [cert, cert_path, key, key_path] = arguments.each_ref().map(String::as_str);
    let open = Host::start_with(&["--listen", "0.0.0.0:0", cert, cert_path, key, key_path]);
    run(&mut command(&data(&open), &["list"])).expect(0);
}

#[test]
fn the_command_line_trusts_the_local_servers_certificate_and_the_operators_authority() {
    let authority = Authority::new();
    let host = authority.start();
    run(&mut command(&data(&host), &["list"])).expect(0);
    let key = std::fs::read_to_string(data(&host).join("admin.key")).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let named = |ca: Option<&Path>| named(elsewhere.path(), &host.url, &key, ca);
    named(Some(&authority.file("ca.pem"))).expect(0);
    let distrust = named(None).expect(8);
    assert!(distrust.stderr.contains("SKILLVISOR_CA_FILE"), "{}", distrust.stderr);
    named(Some(&Authority::new().file("ca.pem"))).expect(8);
    named(Some(&authority.file("key.pem"))).expect(2);
}

#[test]
fn the_local_command_line_sends_no_key_to_another_certificate() {
    let authority = Authority::new();
    let host = authority.start();
    let file = data(&host).join("server.json");
    let server = std::fs::read_to_string(&file).unwrap();
    let mut forged: serde_json::Value = serde_json::from_str(&server).unwrap();
    assert!(forged["certificate"].is_string(), "{forged}");
    forged["certificate"] = format!("sha256:{}", "0".repeat(64)).into();
    std::fs::write(&file, forged.to_string()).unwrap();
    // The lock is held, and whoever serves there is not who wrote the file.
    run(&mut command(&data(&host), &["list"])).expect(9);
}

#[tokio::test]
async fn a_renewed_certificate_is_taken_on_sighup_and_a_bad_one_is_not() {
    let authority = Authority::new();
    let host = authority.start();
    let shown = async || {
        let connection = authority.connect(&host, b"http/1.1").await;
        connection.get_ref().1.peer_certificates().unwrap()[0].clone()
    };
    let first = shown().await;
    let pid = rustix::process::Pid::from_raw(host.pid().cast_signed()).unwrap();
    authority.renew();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    let second = until(async || Some(shown().await).filter(|certificate| *certificate != first)).await;
    run(&mut command(&data(&host), &["list"])).expect(0);

    std::fs::write(authority.file("cert.pem"), "no certificate").unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    let log = host.dir.path().join("log");
    until(async || std::fs::read_to_string(&log).unwrap().contains("stays as it was").then_some(())).await;
    assert_eq!(shown().await, second);
}
