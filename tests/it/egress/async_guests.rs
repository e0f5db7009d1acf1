//! The same by `wasi:http` 0.3.

use super::*;

/// Pushes `async-fetch`, with these network grants.
async fn pushed(host: Host, network: &[&str]) -> Host {
    let manifest = json!({ "name": "async-fetch", "version": "1.0.0", "grants": { "network": network } });
    let form = multipart::Form::new()
        .part("manifest", multipart::Part::text(manifest.to_string()).mime_str("application/json").unwrap())
        .part("component", multipart::Part::bytes(guest("async-fetch")).mime_str("application/wasm").unwrap());
    let made = reply(host.request_as(Some(host.key()), Method::POST, "/api/skills").multipart(form)).await;
    assert!(made.status.is_success(), "{}", made.body);
    host
}

async fn ask(host: &Host, method: &str, url: &str, rest: Value) -> Value {
    let mut args = json!({ "method": method, "url": url, "headers": [], "body": null });
    args.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    host.run("async-fetch#fetch", args, json!({ "memoryMb": 512 })).await.body
}

async fn get(host: &Host, url: &str) -> Value {
    ask(host, "GET", url, json!({})).await
}

/// The word of `wasi:http` that the guest got instead of an answer.
#[track_caller]
fn refused(execution: &Value) -> String {
    let word = execution["error"]["detail"]["value"].as_str().unwrap_or_else(|| panic!("{execution}"));
    word.trim_start_matches("ErrorCode::").split(['(', ' ']).next().unwrap().to_owned()
}

#[tokio::test]
async fn a_granted_request_goes_out_whole_and_its_answer_comes_back_by_wasi_0_3() {
    let upstream = Upstream::start().await;
    let rule = format!("GET,POST http://{}/v1/*", upstream.address);
    let host = pushed(open_host(), &[&rule]).await;
    let rest = json!({ "headers": [["x-mine", "1"]], "body": "x".repeat(100_000) });
    let execution = ask(&host, "POST", &upstream.url("/v1/%76?q=a%2fb"), rest).await;
    assert_eq!(execution["status"], "success", "{execution}");
    assert_eq!((&execution["output"]["status"], &execution["denials"]), (&json!(200), &json!([])));
    let sent = execution["output"]["body"].as_str().unwrap();
    assert!(sent.starts_with("POST /v1/v?q=a%2fb HTTP/1.1\r\n"), "{sent}");
    assert!(sent.contains(&format!("host: {}\r\n", upstream.address)) && sent.contains("x-mine: 1\r\n"), "{sent}");
    assert!(sent.ends_with(&"x".repeat(100_000)));
    let bytes = execution["usage"]["egressBytes"].as_u64().unwrap();
    assert!((200_200..202_000).contains(&bytes), "{bytes}");
}

#[tokio::test]
async fn what_is_not_granted_is_denied_by_wasi_0_3_and_the_denial_names_that_import() {
    let upstream = Upstream::start().await;
    let rule = format!("GET http://{}/v1/*", upstream.address);
    let host = pushed(open_host(), &[&rule]).await;
    for (method, path) in [("GET", "/v2/x?secret=1"), ("POST", "/v1/x"), ("GET", "/v1")] {
        let execution = ask(&host, method, &upstream.url(path), json!({})).await;
        assert_eq!(refused(&execution), "HttpRequestDenied");
        let denial = &execution["denials"][0];
        let path = path.split('?').next().unwrap();
        assert_eq!(denial["import"], "wasi:http/client");
        assert_eq!(denial["asked"], format!("{method} http://{}{path}", upstream.address));
        assert_eq!(denial["grant"], format!("network: {method} http://{}", upstream.address));
    }
    let dots = get(&host, &upstream.url("/v1/../v2")).await;
    assert_eq!((refused(&dots).as_str(), &dots["denials"][0]["grant"]), ("HttpRequestUriInvalid", &json!("none")));
    // Texts that the host would have to keep are bounded, as those of 0.2 are.
    for (method, url) in [
        ("GET", format!("http://{}/{}", upstream.address, "x".repeat(9000))),
        ("GET", format!("http://{}/", "x".repeat(600))),
        (&*"M".repeat(40), upstream.url("/v1/x")),
    ] {
        let execution = ask(&host, method, &url, json!({})).await;
        assert!(refused(&execution).contains("HttpRequestUriInvalid"), "{execution}");
        assert_eq!(execution["denials"], json!([]), "the guest was told before it sent anything: {execution}");
    }
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn an_address_that_is_not_public_is_refused_by_wasi_0_3_and_a_redirect_to_it_is_not_followed() {
    let upstream = Upstream::start().await;
    let closed = pushed(Host::start(), &["public"]).await;
    for url in [upstream.url("/"), "http://[::1]/".into(), "http://169.254.169.254/latest".into()] {
        let execution = get(&closed, &url).await;
        assert_eq!(refused(&execution), "DestinationIpProhibited", "{url}");
        assert_eq!(execution["denials"][0]["grant"], "egress.allow_cidrs", "{url}");
    }
    assert_eq!(upstream.connections(), 0);
    let host = pushed(open_host(), &["public"]).await;
    let execution = get(&host, &upstream.url("/inward")).await;
    assert_eq!(execution["output"]["status"], 302, "{execution}");
    let headers = execution["output"]["headers"].as_array().unwrap();
    let location = headers.iter().find(|header| header[0] == "location").unwrap()[1].as_str().unwrap();
    assert_eq!(refused(&get(&host, location).await), "DestinationIpProhibited");
}

#[tokio::test]
async fn what_an_upstream_sends_is_bounded_by_wasi_0_3_and_one_that_drips_ends_at_the_deadline() {
    let upstream = Upstream::start().await;
    let host = pushed(open_host(), &["public"]).await;
    for path in ["/drip", "/silence"] {
        let args = json!({ "method": "GET", "url": upstream.url(path), "headers": [], "body": null });
        let ended = host.outcome("async-fetch#fetch", args, json!({ "timeoutMs": 1500 })).await;
        assert_eq!(ended, "timeout timeout", "{path}");
    }
    let endless = get(&host, &upstream.url("/endless")).await;
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
    assert_eq!(get(&host, &upstream.url("/number")).await["status"], "success");
}

#[tokio::test]
async fn a_guest_of_wasi_0_3_asks_many_at_one_time_and_each_is_held_to_the_grant() {
    let upstream = Upstream::start().await;
    let rule = format!("GET http://{}/number", upstream.address);
    let host = pushed(open_host(), &[&rule]).await;
    let urls: Vec<_> = (0..20).map(|at| upstream.url(if at % 2 == 0 { "/number" } else { "/other" })).collect();
    let ran = host.run("async-fetch#fetch-all", json!({ "urls": urls }), json!({})).await.body;
    let answers = ran["output"].as_array().unwrap_or_else(|| panic!("{ran}"));
    for (at, answer) in answers.iter().enumerate() {
        let text = answer.to_string();
        assert_eq!(text.contains("200"), at % 2 == 0, "{at}: {text}");
        assert_eq!(text.contains("HttpRequestDenied"), at % 2 == 1, "{at}: {text}");
    }
    assert_eq!(answers.len(), 20);
    // It may not hold more than its share of what the host keeps for it.
    let many: Vec<_> = (0..300).map(|_| upstream.url("/silence")).collect();
    let wide = pushed(open_host(), &["public"]).await;
    let ended = wide.outcome("async-fetch#fetch-all", json!({ "urls": many }), json!({ "timeoutMs": 20_000 })).await;
    assert_eq!(ended, "error trap");
}

/// It takes fields as `wasi:http` 0.2 has them for a request of 0.3.
#[tokio::test]
async fn no_component_takes_fields_of_one_age_for_those_of_another() {
    let host = open_host();
    let text = r#"(component $C
        (import "wasi:http/types@0.2.12" (instance $old (export "fields" (type $f (sub resource)))))
        (alias export $old "fields" (type $fields))
        (import "wasi:http/types@0.3.0" (instance $new
            (alias outer $C $fields (type $f))
            (export "fields" (type $g (eq $f)))
            (export "[constructor]fields" (func (result (own $g))))))
        (core module $m (func (export "f")))
        (core instance $i (instantiate $m))
        (func (export "f") (canon lift (core func $i "f"))))"#;
    let refused = host.upload("both-ages", wat::parse_str(text).unwrap()).await;
    assert_eq!(refused.summary(), "422 invalid_component");
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.contains("requests of two ages") && detail.contains("wasi:http/types@0.3.0"), "{detail}");
}
