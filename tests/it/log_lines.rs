use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, guest, reply};

/// What the program has logged so far.
fn log(host: &Host) -> (String, Vec<Value>) {
    let text = std::fs::read_to_string(host.dir.path().join("log")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("a log line is JSON")).collect();
    (text, lines)
}

#[tokio::test]
async fn each_execution_ends_with_one_line_that_tells_nothing_of_what_went_in_or_out() {
    // Runs that went well are logged at `debug`.
    let host = Host::start_with(&["--log-level", "skillvisor=debug"]).with("echo").await.with("trap").await;
    let good = host.run("echo", json!({ "word": "Xylophone" }), json!({})).await;
    let bad = host.run("trap", json!({ "word": "Xylophone" }), json!({})).await;
    let refused = host.run("echo@7", json!({ "word": "Xylophone" }), json!({})).await;
    assert_eq!(refused.status, 404);
    let (text, lines) = log(&host);
    for (run, skill, code) in [(good, "echo@1.0.0", Value::Null), (bad, "trap@1.0.0", json!("skill_error"))] {
        let mine: Vec<_> = lines.iter().filter(|line| line["execution.id"] == run.body["id"]).collect();
        assert_eq!(mine.len(), 1, "{text}");
        let line = mine[0];
        assert_eq!((&line["skill.name"], &line["error.code"]), (&json!(skill), &code), "{line}");
        assert_eq!(line["execution.status"], run.body["status"], "{line}");
        let ms = line["execution.duration_us"].as_f64().unwrap() / 1000.0;
        assert!((ms - run.body["durationMs"].as_f64().unwrap()).abs() < 0.01, "{line}");
    }
    assert_eq!(lines.iter().filter(|line| line["execution.status"].is_string()).count(), 2, "{text}");
    assert!(!text.contains("Xylophone"), "{text}");
    assert!(
        !lines.iter().any(|line| line["message"] != "Skillvisor serves" && line.to_string().contains("/data")),
        "{text}"
    );
}

#[tokio::test]
async fn a_refused_key_is_in_the_log_and_its_secret_is_not() {
    let host = Host::start();
    let secret = "sk_Xylophone";
    for _ in 0..200 {
        let refused = reply(host.request_as(Some(secret), Method::GET, "/api/skills?key=Xylophone")).await;
        assert_eq!(refused.status, 401);
    }
    let upload = host.request_as(None, Method::POST, "/api/skills?name=a&version=1.0.0").body(guest("echo"));
    assert_eq!(reply(upload).await.status, 401);
    let (text, lines) = log(&host);
    let warnings: Vec<_> = lines.iter().filter(|line| line["level"] == "WARN").collect();
    // One at once; a second one only where the flood took longer than the interval.
    assert!((1..=4).contains(&warnings.len()), "{text}");
    let first = warnings[0];
    assert_eq!((&first["http.method"], &first["http.path"]), (&json!("GET"), &json!("/api/skills")), "{first}");
    assert_eq!(first["http.peer"], "127.0.0.1");
    assert!(!text.contains("Xylophone"), "{text}");
}
