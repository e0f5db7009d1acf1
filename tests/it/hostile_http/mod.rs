use std::path::Path;
mod bombs;

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Host, Reply, guest, reply};

/// Long enough for any machine; a test that needs it has failed.
const AT_LAST: Duration = Duration::from_secs(60);

/// What the program may use more than at rest, in MiB, while it refuses something.
const HEADROOM_MIB: u64 = 160;

fn key(host: &Host) -> String {
    std::fs::read_to_string(host.dir.path().join("data/admin.key")).unwrap()
}

async fn post(host: &Host, method: Method, path: &str, body: impl Into<reqwest::Body>) -> Reply {
    reply(host.request_as(Some(&key(host)), method, path).body(body)).await
}

/// A request over HTTP/2, where an early answer reaches a client that is still sending.
fn early(host: &Host, key: &str, path: &str) -> reqwest::RequestBuilder {
    let client = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let url = host.request_as(None, Method::GET, path).build().unwrap().url().clone();
    client.post(url).bearer_auth(key)
}

/// A connection to the server on which anything can be sent.
async fn connect(host: &Host) -> TcpStream {
    let url = host.request_as(None, Method::GET, "/").build().unwrap().url().clone();
    TcpStream::connect((url.host_str().unwrap(), url.port().unwrap())).await.unwrap()
}

/// Sends bytes as they are and gives the status line of the answer; none if the server hung up.
async fn raw(host: &Host, request: &[u8]) -> Option<u16> {
    let mut stream = connect(host).await;
    stream.write_all(request).await.unwrap();
    let mut said = [0; 16];
    let read = tokio::time::timeout(AT_LAST, stream.read_exact(&mut said)).await.expect("the server answers");
    read.ok()?;
    std::str::from_utf8(&said[9..12]).unwrap().parse().ok()
}

fn files(host: &Host, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(host.dir.path().join("data").join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Uploads `echo` with a manifest.
async fn form(host: &Host, manifest: &Value) -> Reply {
    let form = reqwest::multipart::Form::new()
        .text("manifest", manifest.to_string())
        .part("component", reqwest::multipart::Part::bytes(guest("echo")));
    reply(host.request_as(Some(&key(host)), Method::POST, "/api/skills").multipart(form)).await
}

/// Every route that reads JSON, and a body for it with a hole for anything.
const JSON_ROUTES: &[(&str, &str, &str)] = &[
    ("POST", "/api/skills/executions", r#"{"skillId":"echo","args":HOLE}"#),
    ("POST", "/api/skills/executions", r#"{"skillId":"echo","limits":{"timeoutMs":HOLE}}"#),
    ("POST", "/api/skills/skillssh", r#"{"name":"x","version":"1.0.0","schema":HOLE}"#),
    ("POST", "/api/skills/skillssh", r#"{"name":"x","version":"1.0.0","grants":{"config":HOLE}}"#),
    ("PATCH", "/api/skills/echo", r#"{"tags":HOLE}"#),
    ("POST", "/api/keys", r#"{"name":"x","ceilings":HOLE}"#),
    ("POST", "/api/keys/x/rotate", r#"{"graceSeconds":HOLE}"#),
];

/// Head of a request with an admin key.
fn head(host: &Host, method: &str, target: &str, headers: &str) -> Vec<u8> {
    format!("{method} {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n{headers}\r\n", key(host))
        .into_bytes()
}

#[tokio::test]
async fn a_body_that_is_announced_as_a_gigabyte_is_refused_before_it_is_sent() {
    let host = Host::start();
    for (path, kind) in [
        ("/api/skills?name=a&version=1.0.0", "application/wasm"),
        ("/api/skills", "multipart/form-data; boundary=b"),
        ("/api/skills/skillssh", "application/json"),
        ("/api/skills/executions", "application/json"),
        ("/api/keys", "application/json"),
    ] {
        let headers = format!("Content-Type: {kind}\r\nContent-Length: 1073741824\r\nExpect: 100-continue\r\n");
        // Whoever is told to go on has been believed.
        assert_eq!(raw(&host, &head(&host, "POST", path, &headers)).await, Some(413), "{path}");
    }
    assert_eq!((files(&host, "tmp"), files(&host, "blobs")), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn a_body_that_goes_on_for_a_gigabyte_is_cut_off_and_leaves_nothing() {
    let host = Host::start();
    let before = host.resident_mib();
    let part = "--b\r\nContent-Disposition: form-data; name=\"component\"\r\n\r\n";
    let endless_header = "--b\r\nContent-Disposition: form-data; name=\"";
    for (path, kind, start) in [
        ("/api/skills?name=a&version=1.0.0", "application/wasm", ""),
        ("/api/skills", "multipart/form-data; boundary=b", part),
        ("/api/skills", "multipart/form-data; boundary=b", endless_header),
        ("/api/skills", "multipart/form-data; boundary=b", "no boundary, ever"),
        ("/api/skills/executions", "application/json", "{\"args\":\""),
        ("/api/keys", "application/json", "{\"name\":\""),
    ] {
        let headers = format!("Content-Type: {kind}\r\nTransfer-Encoding: chunked\r\n");
        let mut stream = connect(&host).await;
        stream.write_all(&head(&host, "POST", path, &headers)).await.unwrap();
        if !start.is_empty() {
            stream.write_all(format!("{:x}\r\n{start}\r\n", start.len()).as_bytes()).await.unwrap();
        }
        let chunk = [b"100000\r\n".to_vec(), vec![b'x'; 1 << 20], b"\r\n".to_vec()].concat();
        let mut sent = 0;
        let mut peak = before;
        while sent < 1024 && stream.write_all(&chunk).await.is_ok() {
            sent += 1;
            peak = peak.max(host.resident_mib());
        }
        println!("{path} ({kind}): cut off after {sent} MiB, resident at most {peak} MiB");
        assert!(sent < 256, "{path}: {sent} MiB were taken");
        assert!(peak < before + HEADROOM_MIB, "{path}: {before} MiB, then {peak} MiB");
        assert_eq!((files(&host, "tmp"), files(&host, "blobs")), (Vec::new(), Vec::new()), "{path}");
    }
    assert_eq!(host.get("/api/skills").await.body["total"], 0);
}

#[tokio::test]
async fn what_is_not_text_is_a_problem_wherever_it_stands() {
    let host = Host::start().with("echo").await;
    for path in ["/api/skills/%ff", "/api/skills/executions/%c3%28", "/api/keys/%ff", "/problems/%80"] {
        assert_eq!(host.get(path).await.summary(), "400 malformed", "{path}");
    }
    for path in ["/api/skills?q=%ff", "/api/skills/executions?skill=%ff%00", "/api/skills/executions?session=%c0%80"] {
        assert_eq!(host.get(path).await.status, 200, "{path}");
    }
    for path in
        ["/api/skills/executions?limit=99999999999999999999", "/api/skills/executions?since=%ff", "/api/skills?nope=1"]
    {
        assert_eq!(host.get(path).await.summary(), "400 malformed", "{path}");
    }
    for (request, status) in [
        (&b"GET /api/skills HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\n\r\n"[..], Some(401)),
        (b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", Some(400)),
        (b"GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n", Some(400)),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\r\n\r\n", Some(400)),
    ] {
        assert_eq!(raw(&host, request).await, status, "{}", String::from_utf8_lossy(request));
    }
    let mut upload = head(&host, "POST", "/api/skills?name=a&version=1.0.0", "Content-Length: 1\r\nPrefer: \u{e9}\r\n");
    assert_eq!(raw(&host, &upload).await, Some(415));
    upload = head(&host, "POST", "/api/skills?name=a&version=1.0.0", "Content-Length: 1\r\nContent-Type: \u{e9}\r\n");
    assert_eq!(raw(&host, &upload).await, Some(415));
    assert_eq!(
        post(&host, Method::POST, "/api/skills/executions", b"\xff{}".to_vec()).await.summary(),
        "400 malformed"
    );
    let long = format!("/{}", "x".repeat(70_000));
    let huge = head(&host, "GET", "/livez", &format!("X: {}\r\n", "x".repeat(1 << 20)));
    for (request, refusal) in [(head(&host, "GET", &long, ""), 414), (huge, 431)] {
        let status = raw(&host, &request).await;
        assert!(status.is_none() || status == Some(refusal) || status == Some(431), "{status:?}");
    }
    assert_eq!(host.get("/livez").await.status, 200);
}

#[tokio::test]
async fn no_name_reaches_beyond_its_place() {
    let host = Host::start().with("echo").await;
    let names =
        ["../x", "..", "%2e%2e%2fx", "a%00b", "a/b", "a%2fb", "CON", "a%20b", "%c3%a9", "a%0d%0aX:%20y", "-", "a--b"];
    let long = "a".repeat(20_000);
    for name in names.into_iter().chain([long.as_str()]) {
        let upload = post_wasm(&host, name, "1.0.0").await;
        assert_eq!(upload.summary(), "422 invalid_manifest", "{name:.40}: {}", upload.body);
        // The client itself resolves `..`; these are sent as they are.
        for method in ["GET", "DELETE"] {
            let target = format!("/api/skills/{name}@1.0.0");
            let status = raw(&host, &head(&host, method, &target, "")).await;
            assert!(matches!(status, Some(404 | 405)), "{method} {target:.60}: {status:?}");
        }
        let run = host.run(name, json!({}), json!({})).await;
        assert_eq!(run.summary(), "404 not_found", "{name:.40}");
    }
    for reserved in ["executions", "skillssh"] {
        let upload = post_wasm(&host, reserved, "1.0.0").await;
        assert_eq!(upload.status, 422, "{reserved}: {}", upload.body);
    }
    assert_eq!(files(&host, "blobs").len(), 1);
    assert_eq!(files(&host, "tmp"), Vec::<String>::new());
    assert!(!Path::new(host.dir.path()).join("x").exists());
}

async fn post_wasm(host: &Host, name: &str, version: &str) -> Reply {
    let path = format!("/api/skills?name={name}&version={version}");
    let request = host.request_as(Some(&key(host)), Method::POST, &path).header("content-type", "application/wasm");
    reply(request.body(guest("echo"))).await
}

#[tokio::test]
async fn a_version_is_semver_or_is_refused_at_its_place() {
    let host = Host::start();
    let long = format!("1.0.0-{}", "9".repeat(5000));
    let large = format!("{}.0.0", "9".repeat(30));
    for version in [
        "1", "1.0", "v1.0.0", "01.0.0", "1.0.0.0", "^1", "*", "latest", "1.0.0%20", "-1.0.0", "1.0.0-", "1.0.0%2b", "",
        "%00", &long, &large,
    ] {
        let refused = post_wasm(&host, "a", version).await;
        assert_eq!(refused.summary(), "422 invalid_manifest", "{version:.40}: {}", refused.body);
        assert_eq!(refused.body["errors"][0]["pointer"], "/version", "{version:.40}");
    }
    assert_eq!(post_wasm(&host, "a", "1.0.0-rc.1%2bbuild.7").await.status, 201);
    let tags: Vec<_> = (0..65).map(|n| format!("t{n}")).collect();
    let many = json!({ "name": "b", "version": "1.0.0", "tags": tags });
    assert_eq!(form(&host, &many).await.body["errors"][0]["pointer"], "/tags");
    let change = host.send(Method::PATCH, "/api/skills/a@1.0.0-rc.1", json!({ "tags": tags })).await;
    assert_eq!(change.summary(), "404 not_found", "{}", change.body);
    let change = host.send(Method::PATCH, "/api/skills/a", json!({ "tags": tags })).await;
    assert_eq!(change.summary(), "422 invalid_manifest", "{}", change.body);
    let source = json!({ "name": "b", "version": "1.0.0", "sourceProvider": "x".repeat(129) });
    assert_eq!(form(&host, &source).await.body["errors"][0]["pointer"], "/sourceProvider");
}

#[tokio::test]
async fn of_many_simultaneous_uploads_of_the_same_bytes_one_makes_the_skill() {
    let host = Host::start();
    let uploads = (0..16).map(|_| host.upload("same", guest("echo")));
    let mut statuses: Vec<_> =
        futures_util::future::join_all(uploads).await.iter().map(|reply| reply.status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![200; 15], vec![201]].concat());
    assert_eq!((files(&host, "blobs").len(), files(&host, "tmp").len()), (1, 0));
    assert_eq!(host.outcome("same", json!({ "a": 1 }), json!({})).await, "success -");
}

#[tokio::test]
async fn of_many_simultaneous_uploads_of_different_bytes_one_makes_the_skill_and_the_rest_leave_nothing() {
    let host = Host::start();
    let variants = (0..16).map(|n| {
        // A custom section of its own makes each another component.
        let name = format!("n{n:02}");
        [guest("echo"), vec![0, 5, 3], name.as_bytes()[..3].to_vec(), vec![7]].concat()
    });
    let replies = futures_util::future::join_all(variants.map(|bytes| host.upload("other", bytes))).await;
    let mut summaries: Vec<_> = replies.iter().map(Reply::summary).collect();
    summaries.sort_unstable();
    assert_eq!(summaries, [vec!["201 -"], vec!["409 conflict"; 15]].concat());
    assert_eq!(files(&host, "tmp"), Vec::<String>::new());
    let made = replies.iter().find(|reply| reply.status == 201).unwrap();
    let hex = made.body["digest"].as_str().unwrap().trim_start_matches("sha256:").to_owned();
    assert_eq!(files(&host, "blobs"), [hex]);
    assert_eq!(host.outcome("other", json!({ "a": 1 }), json!({})).await, "success -");
}

#[tokio::test]
async fn a_component_that_is_cut_anywhere_is_refused_and_not_kept() {
    let host = Host::start();
    let whole = guest("echo");
    for step in 0..24 {
        let length = whole.len() * step / 24;
        let refused = host.upload("cut", whole[..length].to_vec()).await;
        assert_eq!(refused.summary(), "422 invalid_component", "{length} bytes: {}", refused.body);
    }
    let mut longer = whole;
    longer.push(0);
    assert_eq!(host.upload("cut", longer).await.summary(), "422 invalid_component");
    assert_eq!((files(&host, "tmp"), files(&host, "blobs")), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn an_upload_is_what_its_content_type_says() {
    let host = Host::start();
    let path = "/api/skills?name=a&version=1.0.0";
    for kind in ["application/json", "text/plain", "application/wasm2", "application/octet-stream", "*/*", ""] {
        let request = host.request_as(Some(&key(&host)), Method::POST, path).header("content-type", kind);
        assert_eq!(reply(request.body(vec![0; 100])).await.summary(), "415 unsupported_media_type", "{kind}");
    }
    let none = host.request_as(Some(&key(&host)), Method::POST, path).body(vec![0; 100]);
    assert_eq!(reply(none).await.summary(), "415 unsupported_media_type");
    for (kind, body) in [
        ("multipart/form-data", "x"),
        ("multipart/form-data; boundary=b", "x"),
        ("multipart/form-data; boundary=b", "--b--\r\n"),
        (
            "multipart/form-data; boundary=b",
            "--b\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\nx\r\n--b--\r\n",
        ),
        (
            "multipart/form-data; boundary=b",
            "--b\r\nContent-Disposition: form-data; name=\"manifest\"\r\n\r\n{\r\n--b--\r\n",
        ),
        ("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"component\"\r\n\r\nx"),
        ("multipart/form-data; boundary=b", "--b\r\n\r\nx\r\n--b--\r\n"),
    ] {
        let request = host.request_as(Some(&key(&host)), Method::POST, path).header("content-type", kind);
        assert_eq!(reply(request.body(body)).await.summary(), "400 malformed", "{kind} {body:?}");
    }
    let raw = host.request_as(Some(&key(&host)), Method::POST, path).header("content-type", "Application/WASM; v=1");
    assert_eq!(reply(raw.body(guest("echo"))).await.status, 201);
    assert_eq!(files(&host, "tmp"), Vec::<String>::new());
}

#[tokio::test]
async fn a_form_may_be_as_large_as_an_upload() {
    let host = Host::start();
    // Larger than what any JSON route takes; the section makes it a component that is valid.
    let padding = 20 << 20;
    let mut component = guest("echo");
    let mut length = padding + 2;
    component.push(0);
    while length >= 0x80 {
        component.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    component.extend([u8::try_from(length).unwrap(), 1, b'p']);
    component.resize(component.len() + padding, 0);
    let form = reqwest::multipart::Form::new()
        .text("manifest", json!({ "name": "large", "version": "1.0.0" }).to_string())
        .part("component", reqwest::multipart::Part::bytes(component));
    let made = reply(host.request_as(Some(&key(&host)), Method::POST, "/api/skills").multipart(form)).await;
    assert!(matches!(made.status.as_u16(), 201 | 202), "{}", made.body);
    let large = reqwest::multipart::Form::new().part("component", reqwest::multipart::Part::bytes(vec![0; 65 << 20]));
    let refused = reply(early(&host, &key(&host), "/api/skills").multipart(large)).await;
    assert_eq!(refused.summary(), "413 too_large");
}

#[tokio::test]
async fn a_refusal_reaches_a_client_of_http_2_that_is_still_sending() {
    let host = Host::start();
    for (bearer, status) in [(key(&host), 413), ("sk_wrong".to_owned(), 401)] {
        let chunk = vec![b'x'; 1 << 20];
        let body = futures_util::stream::repeat(chunk).take(1024).map(Ok::<_, std::convert::Infallible>);
        let request =
            early(&host, &bearer, "/api/skills?name=a&version=1.0.0").header("content-type", "application/wasm");
        let refused = reply(request.body(reqwest::Body::wrap_stream(body))).await;
        assert_eq!(refused.status.as_u16(), status, "{}", refused.body);
    }
    assert_eq!(files(&host, "tmp"), Vec::<String>::new());
}
