//! Guests that ask for something over the network.

/// By WASI 0.3.
mod async_guests;
/// A server to ask.
mod upstream;

use std::time::{Duration, Instant};

use reqwest::{Method, multipart};
use serde_json::{Value, json};

use crate::support::{Host, Reply, guest, reply, until};
use crate::tls::Authority;

use self::upstream::Upstream;

/// A host on which the operator opened the machine's own loopback.
fn open_host() -> Host {
    Host::start_with(&["--egress-allow-cidrs", "127.0.0.1/32"])
}

/// Pushes `fetch` as `name` with these network grants.
async fn push(host: &Host, key: &str, name: &str, network: &[&str]) -> Reply {
    let manifest = json!({ "name": name, "version": "1.0.0", "grants": { "network": network } });
    let form = multipart::Form::new()
        .part("manifest", multipart::Part::text(manifest.to_string()).mime_str("application/json").unwrap())
        .part("component", multipart::Part::bytes(guest("fetch")).mime_str("application/wasm").unwrap());
    reply(host.request_as(Some(key), Method::POST, "/api/skills").multipart(form)).await
}

async fn pushed(host: Host, network: &[&str]) -> Host {
    let made = push(&host, host.key(), "fetch", network).await;
    assert!(made.status.is_success(), "{}", made.body);
    host
}

/// Makes a key with this ceiling.
async fn key(host: &Host, owner: &str, network: &[&str]) -> String {
    let body = json!({ "name": "k", "owner": owner, "ceilings": { "network": network } });
    let made = host.send(Method::POST, "/api/keys", body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.body["secret"].as_str().unwrap().to_owned()
}

/// Fetches as the owner of `key`, and gives the execution.
async fn fetch_as(host: &Host, key: &str, args: Value) -> Value {
    let body = json!({ "skillId": "fetch", "args": args });
    let ran = reply(host.request_as(Some(key), Method::POST, "/api/skills/executions").body(body.to_string())).await;
    assert_eq!(ran.status, 200, "{}", ran.body);
    ran.body
}

async fn get(host: &Host, url: &str) -> Value {
    fetch_as(host, host.key(), json!({ "url": url })).await
}

/// The word of `wasi:http` that the guest got instead of an answer.
#[track_caller]
fn refused(execution: &Value) -> String {
    assert_eq!(execution["error"]["detail"]["code"], "fetch-failed", "{execution}");
    let message = execution["error"]["message"].as_str().unwrap();
    message.trim_start_matches("ErrorCode::").split(['(', ' ']).next().unwrap().to_owned()
}

#[tokio::test]
async fn a_granted_request_goes_out_whole_and_its_answer_comes_back() {
    let upstream = Upstream::start().await;
    let rule = format!("GET,POST http://{}/v1/*", upstream.address);
    let host = pushed(open_host(), &[&rule]).await;
    let args = json!({
        "method": "POST", "url": upstream.url("/v1/%76?q=a%2fb"), "headers": { "x-mine": "1" }, "body": "x".repeat(10_000),
    });
    let execution = fetch_as(&host, host.key(), args).await;
    assert_eq!(execution["status"], "success", "{execution}");
    assert_eq!((&execution["output"]["status"], &execution["denials"]), (&json!(200), &json!([])));
    let sent = execution["output"]["body"].as_str().unwrap();
    assert!(sent.starts_with("POST /v1/v?q=a%2fb HTTP/1.1\r\n"), "{sent}");
    assert!(sent.contains(&format!("host: {}\r\n", upstream.address)) && sent.contains("x-mine: 1\r\n"), "{sent}");
    assert!(sent.ends_with(&"x".repeat(10_000)));
    let bytes = execution["usage"]["egressBytes"].as_u64().unwrap();
    assert!((20_200..21_000).contains(&bytes), "{bytes}");
    // What the reply said is what is remembered.
    let kept = host.get(&format!("/api/skills/executions/{}", execution["id"].as_str().unwrap())).await;
    assert_eq!(kept.body["usage"]["egressBytes"], bytes);
}

#[tokio::test]
async fn what_is_not_granted_is_denied_with_the_way_to_get_it() {
    let upstream = Upstream::start().await;
    let rule = format!("GET http://{}/v1/*", upstream.address);
    let host = pushed(open_host(), &[&rule]).await;
    for (method, path) in [("GET", "/v2/x?secret=1"), ("POST", "/v1/x"), ("GET", "/v1")] {
        let execution = fetch_as(&host, host.key(), json!({ "method": method, "url": upstream.url(path) })).await;
        assert_eq!(refused(&execution), "HttpRequestDenied");
        let denial = &execution["denials"][0];
        let path = path.split('?').next().unwrap();
        assert_eq!(denial["import"], "wasi:http/outgoing-handler");
        assert_eq!(denial["asked"], format!("{method} http://{}{path}", upstream.address));
        assert_eq!(denial["grant"], format!("network: {method} http://{}", upstream.address));
        assert!(denial["fix"].as_str().unwrap().contains("grants.network in the manifest"), "{denial}");
    }
    let dots = get(&host, &upstream.url("/v1/../v2")).await;
    assert_eq!((refused(&dots).as_str(), &dots["denials"][0]["grant"]), ("HttpRequestUriInvalid", &json!("none")));
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn a_skill_without_grants_reaches_nothing() {
    let upstream = Upstream::start().await;
    let host = pushed(open_host(), &[]).await;
    let execution = get(&host, &upstream.url("/")).await;
    assert_eq!(refused(&execution), "HttpRequestDenied");
    assert_eq!(execution["denials"].as_array().unwrap().len(), 1, "{execution}");
    assert_eq!((upstream.connections(), &execution["usage"]["egressBytes"]), (0, &json!(0)));
}

#[tokio::test]
async fn the_ceilings_of_who_registers_and_of_who_calls_hold_both() {
    let upstream = Upstream::start().await;
    let here = format!("http://{}", upstream.address);
    let host = open_host();
    let (narrow, wide) = (key(&host, "team", &["https://a.example"]).await, key(&host, "team", &["public"]).await);
    // Frozen: the wider key of the same owner calls, and still the registering key's ceiling holds.
    let made = push(&host, &narrow, "fetch", &["public"]).await;
    assert!(made.status.is_success(), "{}", made.body);
    let warning = "grants.network public: the ceilings of this key do not allow all of it";
    assert!(made.body["warnings"].as_array().unwrap().contains(&json!(warning)), "{}", made.body);
    let execution = fetch_as(&host, &wide, json!({ "url": upstream.url("/") })).await;
    assert_eq!(refused(&execution), "HttpRequestDenied");
    assert_eq!(execution["denials"][0]["grant"], format!("ceilings.network of the registering key: GET {here}"));
    let deleted = reply(host.request_as(Some(&wide), Method::DELETE, "/api/skills/fetch@1.0.0")).await;
    assert_eq!(deleted.status, 204, "{}", deleted.body);
    // The same version again, under the ceiling of who brings it back.
    assert!(push(&host, &wide, "fetch", &["public"]).await.status.is_success());
    let execution = fetch_as(&host, &wide, json!({ "url": upstream.url("/") })).await;
    assert_eq!(execution["status"], "success", "{execution}");
    let execution = fetch_as(&host, &narrow, json!({ "url": upstream.url("/") })).await;
    assert_eq!(execution["denials"][0]["grant"], format!("ceilings.network of the calling key: GET {here}"));
    let fix = execution["denials"][0]["fix"].as_str().unwrap();
    assert!(fix.starts_with(&format!("skillvisor keys create fetch --owner team --network 'GET {here}'")), "{fix}");
    assert_eq!(upstream.connections(), 1);
}

#[tokio::test]
async fn grants_hold_over_a_restart_and_a_request_may_go_without() {
    let upstream = Upstream::start().await;
    let mut host = pushed(open_host(), &["public"]).await;
    host.kill_and_restart();
    assert_eq!(get(&host, &upstream.url("/number")).await["output"]["body"], "1");
    let body = json!({ "skillId": "fetch", "args": { "url": upstream.url("/") }, "networkEnabled": false });
    let execution = host.send(Method::POST, "/api/skills/executions", body).await.body;
    assert_eq!(refused(&execution), "HttpRequestDenied");
    assert!(execution["denials"][0]["fix"].as_str().unwrap().contains("networkEnabled"), "{execution}");
}

#[tokio::test]
async fn what_the_operator_did_not_open_is_refused_whatever_is_granted() {
    let upstream = Upstream::start().await;
    let host = pushed(Host::start(), &["public"]).await;
    let by_name = format!("http://localhost:{}/", upstream.address.port());
    for url in [upstream.url("/"), by_name, "http://[::1]/".into(), "http://169.254.169.254/latest".into()] {
        let execution = get(&host, &url).await;
        assert_eq!(refused(&execution), "DestinationIpProhibited", "{url}");
        assert_eq!(execution["denials"][0]["grant"], "egress.allow_cidrs", "{url}");
        assert!(!execution["denials"][0]["fix"].to_string().contains("127.0.0.1"), "{execution}");
    }
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn a_redirect_is_shown_and_not_followed() {
    let upstream = Upstream::start().await;
    let host = pushed(open_host(), &["public"]).await;
    let execution = get(&host, &upstream.url("/inward")).await;
    assert_eq!(execution["output"]["status"], 302, "{execution}");
    let location = execution["output"]["headers"]["location"].as_str().unwrap();
    assert_eq!(refused(&get(&host, location).await), "DestinationIpProhibited");
}

#[tokio::test]
async fn an_upstream_that_drips_or_is_silent_ends_at_the_deadline_of_the_run() {
    let upstream = Upstream::start().await;
    let host = pushed(open_host(), &["public"]).await;
    for path in ["/drip", "/silence"] {
        let begun = Instant::now();
        let ended = host.outcome("fetch", json!({ "url": upstream.url(path) }), json!({ "timeoutMs": 1500 })).await;
        assert_eq!(ended, "timeout timeout", "{path}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{path}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn what_an_upstream_sends_is_bounded_and_what_is_broken_is_said() {
    let upstream = Upstream::start().await;
    let host = pushed(open_host(), &["public"]).await;
    let roomy = json!({ "memoryMb": 512 });
    let endless = host.run("fetch", json!({ "url": upstream.url("/endless") }), roomy).await.body;
    assert_eq!(refused(&endless), "HttpResponseBodySize", "{endless}");
    let bytes = endless["usage"]["egressBytes"].as_u64().unwrap();
    assert!((64 << 20..80 << 20).contains(&bytes), "{bytes}");
    for (path, word) in [
        ("/headers", "HttpResponseHeaderSectionSize"),
        ("/short", "HttpResponseIncomplete"),
        ("/nonsense", "HttpProtocolError"),
    ] {
        let execution = get(&host, &upstream.url(path)).await;
        assert_eq!(refused(&execution), word, "{path}: {execution}");
    }
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(refused(&get(&host, &format!("http://{nobody}/")).await), "ConnectionRefused");
    assert_eq!(get(&host, &upstream.url("/number")).await["status"], "success");
}

#[tokio::test]
async fn a_connection_is_used_again_by_its_owner_and_by_nobody_else() {
    let upstream = Upstream::start().await;
    let host = open_host();
    let (one, other) = (key(&host, "one", &["public"]).await, key(&host, "other", &["public"]).await);
    for key in [&one, &other] {
        assert!(push(&host, key, "fetch", &["public"]).await.status.is_success());
    }
    let mut used = Vec::new();
    for key in [&one, &one, &other, &one, &other] {
        let execution = fetch_as(&host, key, json!({ "url": upstream.url("/number") })).await;
        used.push(execution["output"]["body"].as_str().unwrap_or_default().to_owned());
    }
    assert_eq!(used, ["1", "1", "2", "1", "2"]);
}

#[tokio::test]
async fn certificates_are_checked_and_an_operator_may_add_authorities() {
    let authority = Authority::new();
    let secure = authority.start();
    let port = secure.url.rsplit(':').next().unwrap();
    let url = format!("https://127.0.0.1:{port}/livez");
    let ca_file = authority.file("ca.pem");
    let arguments = ["--egress-allow-cidrs", "127.0.0.1/32", "--egress-ca-file", ca_file.to_str().unwrap()];
    let trusting = pushed(Host::start_with(&arguments), &["public"]).await;
    assert_eq!(get(&trusting, &url).await["output"]["status"], 200);
    let other = pushed(open_host(), &["public"]).await;
    assert_eq!(refused(&get(&other, &url).await), "TlsCertificateError");
    let plain = get(&trusting, &url.replace("https", "http")).await;
    assert_eq!(plain["output"]["status"], 400, "the port says that it speaks TLS: {plain}");
}

#[tokio::test]
async fn a_network_grant_opens_no_sockets_and_no_look_ups() {
    let host = open_host();
    assert!(host.upload("wasi-probe", guest("wasi-probe")).await.status.is_success());
    let digest = host.get("/api/skills/wasi-probe").await.body["digest"].clone();
    let manifest =
        json!({ "name": "granted", "version": "1.0.0", "handler": digest, "grants": { "network": ["public"] } });
    assert!(host.send(Method::POST, "/api/skills/skillssh", manifest).await.status.is_success());
    let upstream = Upstream::start().await;
    let args = json!({ "host": "127.0.0.1", "port": upstream.address.port() });
    let output = host.run("granted", args, json!({})).await.body["output"].clone();
    assert_eq!(output["http"]["ok"], 200, "{output}");
    for attempt in ["tcpConnect", "tcpListen", "udpSend", "resolve"] {
        assert!(output[attempt]["error"].is_string(), "{attempt}: {output}");
    }
}

#[tokio::test]
async fn many_fetches_at_once_share_few_connections() {
    let upstream = Upstream::start().await;
    let host = pushed(open_host(), &["public"]).await;
    let fetch = || async { get(&host, &upstream.url("/number")).await["status"] == "success" };
    for _ in 0..4 {
        let all = futures_util::future::join_all((0..100).map(|_| fetch())).await;
        assert!(all.into_iter().all(|well| well));
    }
    assert!(upstream.connections() <= 64, "{}", upstream.connections());
}

#[tokio::test]
async fn a_connection_that_closes_under_a_request_is_replaced_if_that_changes_nothing() {
    let upstream = Upstream::start().await;
    let host = pushed(open_host(), &["public"]).await;
    let fetch = async |method: &str| {
        fetch_as(&host, host.key(), json!({ "method": method, "url": upstream.url("/fresh") })).await
    };
    assert_eq!(fetch("GET").await["status"], "success");
    assert_eq!(fetch("GET").await["status"], "success");
    assert_eq!(upstream.connections(), 2);
    // Nobody knows whether this was carried out.
    assert_eq!(refused(&fetch("POST").await), "HttpResponseIncomplete");
    assert_eq!(upstream.connections(), 2);
}

#[tokio::test]
async fn an_owner_who_has_all_its_places_takes_none_from_others() {
    let upstream = Upstream::start().await;
    let host = open_host();
    let (greedy, other) = (key(&host, "greedy", &["public"]).await, key(&host, "other", &["public"]).await);
    for key in [&greedy, &other] {
        assert!(push(&host, key, "fetch", &["public"]).await.status.is_success());
    }
    let silent = upstream.url("/silence");
    let held = futures_util::future::join_all((0..70).map(|_| fetch_as(&host, &greedy, json!({ "url": silent }))));
    let rest = async {
        until(async || (upstream.connections() == 64).then_some(())).await;
        let args = json!({ "url": upstream.url("/number") });
        assert_eq!(fetch_as(&host, &other, args).await["output"]["body"], "65");
    };
    // Those who hold the places go on for as long as they may, which nobody waits for here.
    tokio::select! {
        () = rest => {}
        _ = held => panic!("nobody was held"),
    }
    assert_eq!(upstream.connections(), 65);
}

#[tokio::test]
async fn a_days_bytes_end_with_the_budget_of_the_key() {
    let upstream = Upstream::start().await;
    let rule = format!("GET http://{}", upstream.address);
    let host = pushed(open_host(), &[&rule]).await;
    let ceilings = json!({ "network": [rule], "budgets": { "egressBytesPerDay": 100 } });
    let made =
        host.send(Method::POST, "/api/keys", json!({ "name": "k", "owner": "admin", "ceilings": ceilings })).await;
    let key = made.body["secret"].as_str().unwrap();
    let first = fetch_as(&host, key, json!({ "url": upstream.url("/") })).await;
    assert_eq!(first["status"], "success", "{first}");
    assert!(first["usage"]["egressBytes"].as_u64().unwrap() > 100, "{first}");
    let body = json!({ "skillId": "fetch", "args": { "url": upstream.url("/") } }).to_string();
    let refused = reply(host.request_as(Some(key), Method::POST, "/api/skills/executions").body(body)).await;
    assert_eq!(refused.summary(), "429 budget_exhausted");
    assert_eq!(upstream.connections(), 1);
}
