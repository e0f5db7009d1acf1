use reqwest::Method;
use serde_json::json;

use crate::support::{Host, guest, reply};

/// The value of one series, by its name with its labels.
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} is missing in\n{text}")).parse().unwrap()
}

/// Checks that a text has the form of OpenMetrics: a type for each family, each series once,
/// numbers as values, and the mark at its end.
fn check_form(text: &str) {
    let mut seen = std::collections::HashSet::new();
    let mut families = std::collections::HashSet::new();
    assert_eq!(text.lines().last(), Some("# EOF"));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert!(families.insert(rest.split(' ').next().unwrap().to_owned()), "{line} twice");
        } else if !line.starts_with('#') {
            let (series, number) = line.rsplit_once(' ').unwrap();
            assert!(number.parse::<f64>().is_ok(), "{line}");
            assert!(seen.insert(series.to_owned()), "{series} twice");
            let name = series.split('{').next().unwrap();
            assert!(families.iter().any(|family| name.starts_with(family.as_str())), "{name} has no type");
        }
    }
}

async fn scrape(host: &Host) -> String {
    let key = std::fs::read_to_string(host.dir.path().join("data/admin.key")).unwrap();
    let response = host.request_as(Some(&key), Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(response.status(), 200);
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"), "{kind}");
    response.text().await.unwrap()
}

#[tokio::test]
async fn what_happened_is_counted_without_a_name_in_any_label() {
    let host = Host::start().with("hello").await.with("spin").await;
    for _ in 0..3 {
        host.run("hello", json!({}), json!({})).await;
    }
    host.run("spin", json!({}), json!({ "timeoutMs": 100, "fuel": 1_000_000_000_000_u64 })).await;
    host.run("no-such-skill", json!({}), json!({})).await;
    reply(host.request_as(Some("sk_wrong"), Method::GET, "/api/skills/hello")).await;
    host.upload("broken", b"\0asm\x0d\0\x01\0\x01".to_vec()).await;
    let text = scrape(&host).await;
    check_form(&text);
    let ended = |labels: &str| value(&text, &format!("skillvisor_executions_total{{{labels},door=\"http\"}}"));
    assert_eq!(ended("status=\"success\",code=\"none\"") as u64, 3);
    assert_eq!(ended("status=\"timeout\",code=\"timeout\"") as u64, 1);
    for (series, count) in [
        ("skillvisor_executions_refused_total{code=\"not_found\",door=\"http\"}", 1),
        ("skillvisor_execution_duration_seconds_count", 4),
        ("skillvisor_execution_queue_seconds_count", 4),
        ("skillvisor_executions_running", 0),
        ("skillvisor_executions_queued", 0),
        ("skillvisor_authentication_failures_total{door=\"http\"}", 1),
        ("skillvisor_http_requests_total{route=\"/api/skills/executions\",method=\"POST\",status=\"200\"}", 4),
        ("skillvisor_http_requests_total{route=\"/api/skills/{reference}\",method=\"GET\",status=\"401\"}", 1),
        ("skillvisor_compilations_total{outcome=\"ready\"}", 2),
        ("skillvisor_compilations_total{outcome=\"invalid_component\"}", 1),
        ("skillvisor_compile_queued", 0),
    ] {
        assert_eq!(value(&text, series) as u64, count, "{series}");
    }
    // Each run is two rows, and the first key and two skills came before.
    assert!(value(&text, "skillvisor_audit_commit_rows_sum") >= 8.0 + 3.0);
    assert!(value(&text, "skillvisor_audit_commit_seconds_sum") > 0.0);
    assert!(value(&text, "skillvisor_uptime_seconds") > 0.0);
    assert!(value(&text, "process_resident_memory_bytes") > 1e6);
    assert!(value(&text, "process_open_fds") > 3.0);
    for name in ["hello", "spin", "no-such-skill", "admin", "key_", "sk_"] {
        assert!(!text.contains(name), "{name} is in\n{text}");
    }
}

#[tokio::test]
async fn an_execution_that_runs_is_shown_while_it_does() {
    let host = Host::start().with("slow-host-call").await;
    let run = host.run("slow-host-call", json!({ "ms": 60_000 }), json!({ "timeoutMs": 20_000 }));
    let seen = crate::support::until(async || {
        (value(&scrape(&host).await, "skillvisor_executions_running") > 0.0).then_some(())
    });
    tokio::select! {
        reply = run => panic!("it ended before it was seen: {}", reply.body),
        () = seen => {}
    }
}

#[tokio::test]
async fn metrics_are_for_admin_keys() {
    let host = Host::start();
    let none = reply(host.request_as(None, Method::GET, "/metrics")).await;
    assert_eq!(none.summary(), "401 unauthenticated");
    let made = host.send(Method::POST, "/api/keys", json!({ "name": "agent" })).await;
    let agent = made.body["secret"].as_str().unwrap();
    let other = reply(host.request_as(Some(agent), Method::GET, "/metrics")).await;
    assert_eq!(other.summary(), "403 insufficient_scope");
}

#[tokio::test]
async fn a_listener_of_their_own_asks_for_no_key_and_has_nothing_else() {
    let host = Host::start_with(&["--metrics-listen", "127.0.0.1:0"]);
    let url = host.ready["metricsUrl"].as_str().unwrap();
    let text = reqwest::get(url).await.unwrap().text().await.unwrap();
    check_form(&text);
    assert!(value(&text, "skillvisor_uptime_seconds") >= 0.0);
    let base = url.trim_end_matches("/metrics");
    for path in ["/api/skills", "/livez", "/"] {
        assert_eq!(reqwest::get(format!("{base}{path}")).await.unwrap().status(), 404, "{path}");
    }
    assert_eq!(host.upload("hello", guest("hello")).await.status, 201);
}
