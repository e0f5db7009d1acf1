//! Secrets that the host puts into the requests of guests.

/// By WASI 0.3.
mod async_guests;
/// A secret is nowhere but where it was sent.
mod canary;
/// The command line.
mod command;
/// A server that repeats what it is told.
mod echo;
/// Instances that are kept between calls.
mod kept;
/// The key that they are sealed with.
mod sealing;

use reqwest::{Method, multipart};
use serde_json::{Value, json};

use crate::support::{Host, Reply, guest, reply};
use crate::tls::Authority;

use self::echo::Echo;

/// What nobody may see.
const CANARY: &str = r#"c4n4ry~K/+?&"\%=zY7-_42"#;

/// A host that reaches the machine's own loopback and trusts one more authority.
fn arguments(authority: &Authority) -> Vec<String> {
    let ca_file = authority.file("ca.pem").to_str().unwrap().to_owned();
    ["--egress-allow-cidrs", "127.0.0.1/32", "--egress-ca-file", &ca_file].map(str::to_owned).to_vec()
}

async fn world() -> (Host, Authority, Echo) {
    let authority = Authority::new();
    let echo = Echo::start(&authority).await;
    let arguments = arguments(&authority);
    let host = Host::start_with(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    (host, authority, echo)
}

/// Makes a key with all scopes that are not `admin`'s, and these secrets in its ceiling.
async fn key(host: &Host, owner: &str, secrets: &[&str]) -> String {
    let body = json!({
        "name": "k", "owner": owner,
        "scopes": ["skills:read", "skills:write", "skills:execute", "executions:read", "secrets:write"],
        "ceilings": { "network": ["public"], "secrets": secrets },
    });
    let made = host.send(Method::POST, "/api/keys", body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.body["secret"].as_str().unwrap().to_owned()
}

async fn ask(host: &Host, key: &str, method: Method, path: &str, body: Value) -> Reply {
    reply(host.request_as(Some(key), method, path).body(body.to_string())).await
}

/// Stores a secret for an upstream, as `Authorization: Bearer …`.
async fn store(host: &Host, key: &str, path: &str, (echo, value): (&Echo, &str)) {
    let body = json!({ "value": value, "for": echo.origin(), "header": "Authorization", "prefix": "Bearer " });
    let stored = ask(host, key, Method::PUT, &format!("/api/secrets/{path}"), body).await;
    assert!(matches!(stored.status.as_u16(), 200 | 201), "{}", stored.body);
}

/// Pushes `fetch` as `name`, which asks for these secrets.
async fn push(host: &Host, key: &str, name: &str, secrets: Value, owner: Option<&str>) -> Value {
    let mut manifest =
        json!({ "name": name, "version": "1.0.0", "grants": { "network": ["public"], "secrets": secrets } });
    if let Some(owner) = owner {
        manifest["owner"] = json!(owner);
    }
    let form = multipart::Form::new()
        .part("manifest", multipart::Part::text(manifest.to_string()).mime_str("application/json").unwrap())
        .part("component", multipart::Part::bytes(guest("fetch")).mime_str("application/wasm").unwrap());
    let made = reply(host.request_as(Some(key), Method::POST, "/api/skills").multipart(form)).await;
    assert!(made.status.is_success(), "{}", made.body);
    made.body
}

async fn fetch(host: &Host, key: &str, skill: &str, args: Value) -> Value {
    let ran = ask(host, key, Method::POST, "/api/skills/executions", json!({ "skillId": skill, "args": args })).await;
    assert_eq!(ran.status, 200, "{}", ran.body);
    ran.body
}

async fn get(host: &Host, key: &str, skill: &str, url: String) -> Value {
    fetch(host, key, skill, json!({ "url": url })).await
}

fn carries(head: &str, value: &str) -> bool {
    head.contains(&format!("authorization: Bearer {value}\r\n"))
}

#[tokio::test]
async fn a_secret_goes_to_its_own_origin_and_path_and_to_nothing_else() {
    let (host, authority, echo) = world().await;
    let other = Echo::start(&authority).await;
    let key = key(&host, "team", &["TOKEN"]).await;
    store(&host, &key, "TOKEN", (&echo, CANARY)).await;
    push(&host, &key, "fetch", json!(["TOKEN"]), None).await;
    let rule = format!("GET {}/v1/*", echo.origin());
    push(&host, &key, "narrow", json!([{ "name": "TOKEN", "for": rule }]), None).await;
    let asks =
        json!({ "url": echo.url("/x"), "headers": { "accept-encoding": "gzip", "range": "bytes=0-3", "x-mine": "1" } });
    let ran = fetch(&host, &key, "fetch", asks).await;
    assert_eq!((&ran["status"], &ran["denials"]), (&json!("success"), &json!([])), "{ran}");
    let head = echo.heads().concat();
    assert!(carries(&head, CANARY) && head.contains("x-mine: 1\r\n"), "{head}");
    assert!(!head.contains("accept-encoding") && !head.contains("range:"), "{head}");
    get(&host, &key, "fetch", other.url("/x")).await;
    get(&host, &key, "narrow", echo.url("/v2/x")).await;
    for head in [other.heads().concat(), echo.heads().concat()] {
        assert!(head.starts_with("GET ") && !head.contains("authorization"), "{head}");
    }
    get(&host, &key, "narrow", echo.url("/v1/x")).await;
    assert!(carries(&echo.heads().concat(), CANARY));
}

#[tokio::test]
async fn a_guest_that_sets_the_same_header_itself_is_denied() {
    let (host, _authority, echo) = world().await;
    let key = key(&host, "team", &["TOKEN"]).await;
    store(&host, &key, "TOKEN", (&echo, CANARY)).await;
    push(&host, &key, "fetch", json!(["TOKEN"]), None).await;
    let args = json!({ "url": echo.url("/x"), "headers": { "AUTHORIZATION": "mine" } });
    let ran = fetch(&host, &key, "fetch", args).await;
    assert!(ran["error"]["message"].as_str().unwrap().contains("HttpRequestDenied"), "{ran}");
    assert!(ran["denials"][0]["fix"].as_str().unwrap().contains("TOKEN"), "{ran}");
    assert!(echo.heads().is_empty());
}

#[tokio::test]
async fn a_secret_that_is_missing_or_beyond_a_ceiling_stays_away_and_the_denial_says_what_would_give_it() {
    let (host, _authority, echo) = world().await;
    let (wide, narrow) = (key(&host, "team", &["TOKEN"]).await, key(&host, "team", &["OTHER"]).await);
    push(&host, &wide, "wide", json!(["TOKEN"]), None).await;
    let pushed = push(&host, &narrow, "narrow", json!(["TOKEN"]), None).await;
    let warning = "grants.secrets TOKEN: the ceilings of this key do not allow it";
    assert!(pushed["warnings"].as_array().unwrap().contains(&json!(warning)), "{pushed}");
    assert!(pushed["warnings"].to_string().contains("there was no such secret when"), "{pushed}");
    let denial = async |key: &str, skill: &str| {
        let ran = get(&host, key, skill, echo.url("/x")).await;
        assert_eq!(ran["status"], "success", "{ran}");
        assert!(echo.heads().iter().all(|head| !head.contains("authorization")));
        ran["denials"][0].clone()
    };
    let missing = denial(&wide, "wide").await;
    let fix = format!("skillvisor secrets set TOKEN --for {} --header Authorization", echo.origin());
    assert_eq!((&missing["grant"], &missing["fix"]), (&json!("secrets: TOKEN"), &json!(fix)));
    store(&host, &wide, "TOKEN", (&echo, CANARY)).await;
    assert_eq!(denial(&wide, "narrow").await["grant"], "ceilings.secrets of the registering key: TOKEN");
    let calling = denial(&narrow, "wide").await;
    assert_eq!(calling["grant"], "ceilings.secrets of the calling key: TOKEN");
    assert_eq!(calling["fix"], "skillvisor keys create wide --owner team --secret TOKEN  # and call with that key");
    let ran = get(&host, &wide, "wide", echo.url("/x")).await;
    assert_eq!(ran["denials"], json!([]), "{ran}");
    assert!(carries(&echo.heads().concat(), CANARY));
}

#[tokio::test]
async fn a_global_skill_has_the_callers_secret_and_the_systems_only_if_it_is_shared() {
    let (host, _authority, echo) = world().await;
    let (team, other) = (key(&host, "team", &["TOKEN"]).await, key(&host, "other", &["TOKEN"]).await);
    push(&host, host.key(), "global", json!(["TOKEN"]), Some("system")).await;
    push(&host, &other, "own", json!(["TOKEN"]), None).await;
    let sent = async |key: &str, skill: &str| {
        get(&host, key, skill, echo.url("/x")).await;
        echo.heads().concat()
    };
    store(&host, host.key(), "TOKEN?owner=system", (&echo, "of-the-system")).await;
    store(&host, &team, "TOKEN", (&echo, "of-the-team")).await;
    assert!(carries(&sent(&team, "global").await, "of-the-team"));
    assert!(!sent(&other, "global").await.contains("authorization"));
    let body = json!({ "value": "shared-by-system", "for": echo.origin(), "header": "Authorization", "prefix": "Bearer ", "shared": true });
    let shared = ask(&host, host.key(), Method::PUT, "/api/secrets/TOKEN?owner=system", body).await;
    assert_eq!((shared.status.as_u16(), &shared.body["shared"]), (200, &json!(true)), "{}", shared.body);
    assert!(carries(&sent(&other, "global").await, "shared-by-system"));
    assert!(carries(&sent(&team, "global").await, "of-the-team"));
    // What an owner wrote itself could send it anywhere at that origin.
    assert!(!sent(&other, "own").await.contains("authorization"));
}

#[tokio::test]
async fn secrets_are_stored_changed_and_removed_and_never_answered() {
    let host = Host::start();
    let (key, other) = (key(&host, "team", &[]).await, self::key(&host, "other", &[]).await);
    let body = json!({ "value": CANARY, "for": "https://API.example/", "header": "X-Api-Key" });
    let made = ask(&host, &key, Method::PUT, "/api/secrets/TOKEN", body.clone()).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!((&made.body["for"], &made.body["header"]), (&json!("https://api.example"), &json!("x-api-key")));
    assert_eq!(
        (&made.body["prefix"], &made.body["shared"], &made.body["version"]),
        (&json!(""), &json!(false), &json!(1))
    );
    let again = ask(&host, &key, Method::PUT, "/api/secrets/TOKEN", body).await;
    assert_eq!((again.status.as_u16(), &again.body["version"]), (200, &json!(2)));
    let rotated = ask(&host, &key, Method::PATCH, "/api/secrets/TOKEN", json!({ "value": "another-value" })).await;
    assert_eq!((rotated.status.as_u16(), &rotated.body["version"]), (200, &json!(3)), "{}", rotated.body);
    let listed = ask(&host, &key, Method::GET, "/api/secrets", json!({})).await;
    assert_eq!((&listed.body["total"], &listed.body["secrets"][0]), (&json!(1), &rotated.body));
    let shown = ask(&host, &key, Method::GET, "/api/secrets/TOKEN", json!({})).await;
    assert_eq!(shown.body, rotated.body);
    // A foreign one and none look the same.
    for method in [Method::GET, Method::DELETE] {
        let foreign = ask(&host, &other, method.clone(), "/api/secrets/TOKEN", json!({})).await;
        let absent = ask(&host, &other, method, "/api/secrets/NOTHING", json!({})).await;
        assert_eq!((foreign.summary(), &foreign.body["detail"]), (absent.summary(), &absent.body["detail"]));
        assert_eq!(foreign.summary(), "404 not_found");
    }
    let seen = ask(&host, host.key(), Method::GET, "/api/secrets?owner=team", json!({})).await;
    assert_eq!(seen.body["total"], 1);
    let removed = reply(host.request_as(Some(&key), Method::DELETE, "/api/secrets/TOKEN")).await;
    assert_eq!(removed.status, 204);
    assert_eq!(ask(&host, &key, Method::GET, "/api/secrets/TOKEN", json!({})).await.summary(), "404 not_found");
}

#[tokio::test]
async fn what_cannot_be_stored_is_refused_at_its_place_without_the_value() {
    let host = Host::start();
    let key = key(&host, "team", &[]).await;
    let good = json!({ "value": CANARY, "for": "https://api.example", "header": "x-key" });
    for (change, summary, place) in [
        (json!({ "for": "http://api.example" }), "422 invalid_args", "/for"),
        (json!({ "for": "https://api.example/v1" }), "422 invalid_args", "/for"),
        (json!({ "header": "content-length" }), "422 invalid_args", "/header"),
        (json!({ "prefix": "a\nb" }), "422 invalid_args", "/prefix"),
        (json!({ "value": "c4n4ry" }), "422 invalid_args", "/value"),
        (json!({ "value": "c4n4ry with spaces" }), "422 invalid_args", "/value"),
        (json!({ "value": null }), "422 invalid_args", "/value"),
        (json!({ "value": ["c4n4ry-in-a-list"] }), "400 malformed", ""),
        (json!({ "shared": true }), "403 forbidden", ""),
        (json!({ "nmae": 1 }), "400 malformed", ""),
    ] {
        let mut body = good.clone();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let refused = ask(&host, &key, Method::PUT, "/api/secrets/TOKEN", body).await;
        assert_eq!(refused.summary(), summary, "{change}: {}", refused.body);
        assert!(place.is_empty() || refused.body["errors"][0]["pointer"] == place, "{change}: {}", refused.body);
        assert!(!refused.body.to_string().contains("c4n4ry"), "{}", refused.body);
    }
    assert_eq!(ask(&host, &key, Method::PUT, "/api/secrets/a%20b", good.clone()).await.summary(), "422 invalid_args");
    assert_eq!(
        ask(&host, &key, Method::PUT, "/api/secrets/T?owner=system", good.clone()).await.summary(),
        "403 forbidden"
    );
    assert_eq!(
        ask(&host, &key, Method::PATCH, "/api/secrets/T", json!({ "value": CANARY })).await.summary(),
        "404 not_found"
    );
    assert_eq!(ask(&host, &key, Method::PUT, "/api/secrets/T", good).await.status, 201);
    let moved = ask(&host, &key, Method::PATCH, "/api/secrets/T", json!({ "for": "https://evil.example" })).await;
    assert_eq!(moved.summary(), "422 invalid_args");
    let without = host.send(Method::POST, "/api/keys", json!({ "name": "k", "owner": "team" })).await;
    let without = without.body["secret"].as_str().unwrap().to_owned();
    for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE] {
        let refused = ask(&host, &without, method, "/api/secrets/T", json!({})).await;
        assert_eq!(refused.summary(), "403 insufficient_scope");
    }
}
