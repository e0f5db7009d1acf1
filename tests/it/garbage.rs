//! Requests that are nearly right: bodies, queries, multipart forms and keys, taken apart and
//! put together at random. Each gets a problem or an answer, and none breaks the host.

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::campaign::{self, Random};
use crate::support::{Host, reply};

/// Requests when no campaign asks for more.
const REQUESTS: usize = 600;

/// Words of the interface, and what people put in their place.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "name", "owner", "scopes", "skills", "ceilings", "limits", "expiresAt", "graceSeconds", "skillId", "skillName",
    "skill", "args", "input", "mode", "timeout", "digest", "sessionId", "maxRetries", "apiKeyId", "enabled", "tags",
    "version", "handler", "schema", "grants", "network", "fuel", "memoryMb", "timeoutMs", "q", "cursor", "limit",
    "since", "status", "session", "source", "tag", "echo", "echo@1", "echo@^1", "echo@latest#run", "admin", "sync",
    "async", "public", "unlimited", "2026-01-01T00:00:00Z", "wasm", "skills:read", "", "../../etc", "\u{0}", "é\u{202e}",
    "-1", "0", "1e999", "99999999999999999999", "null", "true", "[]", "{}", "%", "%zz", "a&b=c", "x\r\ny",
    "sha256:00", "00000000-0000-7000-8000-000000000000", "key_00000000000000000000000000000000",
];

fn word(random: &mut Random) -> &'static str {
    WORDS[random.below(WORDS.len())]
}

/// A value of such words.
fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 5 } else { 8 }) {
        0 => json!(random.next()),
        1 => json!(-1.5),
        2 => Value::Null,
        3 => json!(random.chance(50)),
        4 => json!(word(random)),
        5 => (0..random.below(4)).map(|_| value(random, depth - 1)).collect(),
        _ => Value::Object((0..random.below(5)).map(|_| (word(random).into(), value(random, depth - 1))).collect()),
    }
}

/// JSON, or what was JSON before somebody cut or changed it.
fn body(random: &mut Random) -> Vec<u8> {
    let mut text = value(random, 4).to_string();
    if random.chance(30) {
        let good = json!({ "skillId": "echo", "args": value(random, 3), word(random): value(random, 2) });
        text = good.to_string();
    }
    if random.chance(20) {
        // The same member again.
        text = text.replacen('{', "{\"name\":1,\"name\":2,", 1);
    }
    let mut bytes = text.into_bytes();
    damage(&mut bytes, random);
    bytes
}

fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    if !bytes.is_empty() && random.chance(25) {
        let at = random.below(bytes.len());
        match random.below(3) {
            0 => bytes.truncate(at),
            1 => bytes[at] = u8::try_from(random.below(256)).unwrap(),
            _ => bytes.insert(at, u8::try_from(random.below(256)).unwrap()),
        }
    }
}

/// A query string of such words, some of them escaped.
fn query(random: &mut Random) -> String {
    let escape = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let part = |random: &mut Random| format!("{}={}", escape(word(random)), escape(word(random)));
    let parts: Vec<_> = (0..random.below(4)).map(|_| part(random)).collect();
    format!("?{}{}", parts.join("&"), random.pick(&["", "&", "=", "%ff=1", "&limit=1&limit=2"]))
}

/// A multipart form with parts missing, twice, or cut off.
fn form(random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..random.below(4) {
        let name = *random.pick(&["manifest", "component", "manifest", "x", "\"", ""]);
        text.extend(format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n").into_bytes());
        text.extend(body(random));
        text.extend(b"\r\n");
    }
    text.extend(b"--b--\r\n");
    damage(&mut text, random);
    text
}

fn path(random: &mut Random) -> String {
    let escape = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let start = *random.pick(&[
        "/api/skills",
        "/api/skills/skillssh",
        "/api/skills/executions",
        "/api/skills/executions/",
        "/api/skills/",
        "/api/keys",
        "/api/keys/",
    ]);
    let end = if start.ends_with('/') { escape(word(random)) } else { String::new() };
    let rotate = if start == "/api/keys/" && random.chance(30) { "/rotate" } else { "" };
    format!("{start}{end}{rotate}{}", query(random))
}

/// A bearer header that is right, nearly right, or nothing.
fn with_key(request: RequestBuilder, host: &Host, random: &mut Random) -> RequestBuilder {
    let right = format!("Bearer {}", host.key());
    let mut bytes = match random.below(10) {
        0 => return request,
        1 => b"Bearer".to_vec(),
        2 => format!("Basic {}", host.key()).into_bytes(),
        _ => right.into_bytes(),
    };
    if random.chance(10) {
        damage(&mut bytes, random);
    }
    match HeaderValue::from_bytes(&bytes) {
        Ok(value) => request.header(AUTHORIZATION, value),
        Err(_) => request,
    }
}

#[tokio::test]
async fn whatever_is_asked_gets_an_answer_or_a_problem() {
    let seed = campaign::seed();
    println!("CAMPAIGN_SEED={seed}");
    let mut random = Random::new(seed);
    let host = Host::start().with("echo").await;
    for number in 0..campaign::size(REQUESTS) {
        // Not DELETE: the key and the skill that are used must stay.
        let method = random.pick(&[Method::GET, Method::POST, Method::POST, Method::POST, Method::PATCH]).clone();
        let path = path(&mut random);
        let mut request = with_key(host.request_as(None, method.clone(), &path), &host, &mut random);
        request = match random.below(4) {
            0 => request.header(CONTENT_TYPE, "multipart/form-data; boundary=b").body(form(&mut random)),
            1 => request.header(CONTENT_TYPE, "application/wasm").body(body(&mut random)),
            _ => request.header(CONTENT_TYPE, "application/json").body(body(&mut random)),
        };
        let shown = format!("seed {seed}, request {number}: {method} {path}");
        let reply = reply(request).await;
        assert!(reply.status.as_u16() < 500, "{shown}: {} {}", reply.summary(), reply.body);
        let detail = reply.body["detail"].as_str().unwrap_or_default();
        assert!(detail.len() <= 2000 && !detail.contains(char::is_control), "{shown}: {detail:?}");
    }
    assert!(host.get("/api/skills").await.status.is_success(), "{}", host.log());
    assert_eq!(host.log().lines().find(|line| line.contains("panicked") || line.contains("\"level\":\"ERROR\"")), None);
}
