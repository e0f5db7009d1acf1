use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Host, until};

use super::{key, push, push_guest, push_manifest, run};

/// Pushes `powers-probe` under these names, each of which may call those behind it.
async fn pushed(host: &Host, key: &str, skills: &[(&str, &[&str])]) {
    for (name, calls) in skills {
        let pushed = push(host, key, name, json!({ "skills": calls })).await;
        assert!(pushed.status.is_success(), "{name}: {}", pushed.body);
    }
}

/// The steps that call one skill after the other, and do `last` in the last.
fn chain(skills: &[&str], last: Value) -> Value {
    skills.iter().rev().fold(json!([last]), |inner, skill| json!([["call", skill, inner]]))
}

#[tokio::test]
async fn a_skill_calls_another_whose_run_has_a_record_with_its_parent() {
    let host = Host::start();
    pushed(&host, host.key(), &[("leaf", &[]), ("root", &["leaf@^1"])]).await;
    let body = json!({ "skillId": "root", "args": chain(&["leaf"], json!(["id"])), "sessionId": "s" });
    let root = host.send(Method::POST, "/api/skills/executions", body).await.body;
    assert_eq!(root["status"], "success", "{root}");
    let child = root["output"][0][0].as_str().unwrap();
    let child = host.get(&format!("/api/skills/executions/{child}")).await.body;
    assert_eq!((&child["parentId"], &child["skillId"]), (&root["id"], &json!("leaf@1.0.0")));
    assert_eq!(
        (&child["sessionId"], &child["keyId"], &child["status"]),
        (&json!("s"), &root["keyId"], &json!("success"))
    );
    // What the child used is used up in the parent too.
    let fuel = |execution: &Value| execution["usage"]["fuel"].as_u64().unwrap();
    assert!(fuel(&root) > fuel(&child), "{} {}", fuel(&root), fuel(&child));
}

#[tokio::test]
async fn a_name_means_the_version_that_was_there_when_the_caller_was_registered() {
    let host = Host::start();
    let leaf = |version: &str, value: &str| json!({ "name": "leaf", "version": version, "grants": { "config": { "v": value } } });
    push_manifest(&host, host.key(), leaf("1.0.0", "old")).await;
    pushed(&host, host.key(), &[("root", &["leaf"])]).await;
    push_manifest(&host, host.key(), leaf("1.1.0", "new")).await;
    let steps = json!([["call", "leaf", [["config", "v"]]], ["call", "leaf@1.1.0", []]]);
    let root = run(&host, host.key(), "root", steps).await;
    assert_eq!((&root["output"][0], &root["output"][1]["error"]), (&json!(["old"]), &json!("denied")), "{root}");
    let missing = push(&host, host.key(), "other", json!({ "skills": ["leaf", "none"] })).await;
    assert_eq!((missing.status.as_u16(), &missing.body["errors"][0]["pointer"]), (422, &json!("/grants/skills/1")));
    host.send(Method::DELETE, "/api/skills/leaf@1.0.0", json!({})).await;
    let root = run(&host, host.key(), "root", json!([["call", "leaf", []]])).await;
    assert_eq!(root["output"][0]["error"], "not_found", "{root}");
}

#[tokio::test]
async fn what_no_layer_allows_is_denied_and_says_what_would_allow_it() {
    let host = Host::start();
    let open = json!({ "ceilings": { "skills": ["leaf"] } });
    let (open, closed) = (key(&host, "ada", open).await, key(&host, "ada", json!({})).await);
    let few = json!({ "ceilings": { "skills": ["leaf"] }, "skills": ["root"] });
    let few = key(&host, "ada", few).await;
    pushed(&host, &open, &[("leaf", &[]), ("root", &["leaf"]), ("bare", &[])]).await;
    pushed(&host, &closed, &[("by-closed", &["leaf"])]).await;
    let steps = || json!([["call", "leaf", []]]);
    assert_eq!(run(&host, &open, "root", steps()).await["output"], json!([[]]));
    for (key, skill, grant) in [
        (&open, "bare", "skills: leaf"),
        (&open, "by-closed", "ceilings.skills of the registering key: leaf"),
        (&closed, "root", "ceilings.skills of the calling key: leaf"),
        (&few, "root", "skills of the calling key: leaf"),
    ] {
        let execution = run(&host, key, skill, steps()).await;
        assert_eq!((&execution["status"], &execution["output"][0]["error"]), (&json!("success"), &json!("denied")));
        assert_eq!(
            (&execution["denials"][0]["grant"], &execution["denials"][0]["asked"]),
            (&json!(grant), &json!("leaf"))
        );
    }
}

#[tokio::test]
async fn calls_go_eight_deep_and_the_ninth_is_denied() {
    let host = Host::start();
    pushed(&host, host.key(), &[("d9", &[])]).await;
    let names: Vec<String> = (1..=9).map(|depth| format!("d{depth}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for depth in (1..9).rev() {
        pushed(&host, host.key(), &[(names[depth - 1], &[names[depth]])]).await;
    }
    pushed(&host, host.key(), &[("d0", &["d1"])]).await;
    let deep = run(&host, host.key(), "d0", chain(&names[..8], json!(["env", "x"]))).await;
    let too_deep = run(&host, host.key(), "d0", chain(&names, json!(["env", "x"]))).await;
    let innermost =
        |execution: &Value, depth: usize| (0..depth).fold(execution["output"].clone(), |output, _| output[0].clone());
    assert_eq!(innermost(&deep, 8), json!([null]), "{deep}");
    let ninth = innermost(&too_deep, 9);
    assert_eq!(
        (&ninth["error"], ninth["message"].as_str().unwrap().contains('8')),
        (&json!("denied"), true),
        "{too_deep}"
    );
}

#[tokio::test]
async fn a_circle_of_skills_is_denied_where_it_closes() {
    let host = Host::start();
    let manifest = |name: &str, version: &str, calls: &[&str]| json!({ "name": name, "version": version, "grants": { "skills": calls } });
    // `b` comes to mean the newer `a`, which calls it, when it is registered again.
    for (name, version, calls) in [("a", "0.9.0", &[][..]), ("b", "1.0.0", &["a"]), ("a", "1.0.0", &["b"])] {
        assert!(push_manifest(&host, host.key(), manifest(name, version, calls)).await.status.is_success());
    }
    assert_eq!(host.send(Method::DELETE, "/api/skills/b@1.0.0", json!({})).await.status, 204);
    assert!(push_manifest(&host, host.key(), manifest("b", "1.0.0", &["a"])).await.status.is_success());
    let steps = chain(&["b", "a"], json!(["env", "x"]));
    let execution = run(&host, host.key(), "a@1.0.0", steps).await;
    let circle = &execution["output"][0][0];
    assert_eq!(circle["error"], "denied", "{execution}");
    assert!(circle["message"].as_str().unwrap().contains("a@1.0.0 waits"), "{execution}");
}

#[tokio::test]
async fn a_child_ends_with_its_parents_deadline_and_its_record_is_closed() {
    let host = Host::start();
    pushed(&host, host.key(), &[("leaf", &[]), ("root", &["leaf"])]).await;
    let body = json!({ "skillId": "root", "args": chain(&["leaf"], json!(["spin"])), "limits": { "timeoutMs": 3000 } });
    let root = host.send(Method::POST, "/api/skills/executions", body).await.body;
    assert_eq!(root["status"], "timeout", "{root}");
    let closed = async || {
        let children = host.get("/api/skills/executions?skill=leaf").await.body;
        let status = children["executions"][0]["status"].as_str()?.to_owned();
        (status != "running").then_some(status)
    };
    let status = until(closed).await;
    assert!(["timeout", "cancelled"].contains(&status.as_str()), "{status}");
}

#[tokio::test]
async fn a_child_uses_up_the_fuel_of_its_parent() {
    let host = Host::start();
    pushed(&host, host.key(), &[("leaf", &[]), ("root", &["leaf"])]).await;
    let burn = json!(["call", "leaf", [["burn", 200_000]]]);
    let body =
        json!({ "skillId": "root", "args": { "repeat": 1000, "steps": [burn] }, "limits": { "fuel": 20_000_000 } });
    let root = host.send(Method::POST, "/api/skills/executions", body).await.body;
    assert_eq!((&root["status"], &root["error"]["code"]), (&json!("error"), &json!("out_of_fuel")), "{root}");
    assert!(root["usage"]["fuel"].as_u64().unwrap() <= 20_000_000, "{root}");
}

#[tokio::test]
async fn what_a_child_says_and_how_it_fails_comes_to_its_parent() {
    let host = Host::start();
    pushed(&host, host.key(), &[("leaf", &[]), ("root", &["leaf"])]).await;
    let steps = json!([["call", "leaf", [["fail"]]], ["call", "leaf#none", []], ["call", "leaf", { "repeat": 0 }]]);
    let root = run(&host, host.key(), "root", steps).await;
    let errors: Vec<&Value> = (0..2).map(|at| &root["output"][at]["error"]).collect();
    assert_eq!((errors, &root["output"][2]), (vec![&json!("trap"), &json!("not_found")], &json!([])), "{root}");
}

#[tokio::test]
async fn parents_that_fill_the_host_still_get_their_children_run() {
    let host = Host::start_with(&["--concurrency-host", "2"]);
    pushed(&host, host.key(), &[("leaf", &[]), ("middle", &["leaf"]), ("root", &["middle"])]).await;
    let steps = chain(&["middle", "leaf"], json!(["env", "x"]));
    let runs = (0..12).map(|_| run(&host, host.key(), "root", steps.clone()));
    for execution in futures_util::future::join_all(runs).await {
        assert_eq!(execution["output"], json!([[[null]]]), "{execution}");
    }
}

#[tokio::test]
async fn a_global_skill_calls_global_skills_and_never_those_of_its_caller() {
    let host = Host::start();
    let leaf = |owner: &str| json!({ "name": "leaf", "version": "1.0.0", "owner": owner, "grants": { "config": { "of": owner } } });
    let root = json!({ "name": "root", "version": "1.0.0", "owner": "system", "grants": { "skills": ["leaf"] } });
    for manifest in [leaf("system"), leaf("ada"), root] {
        assert!(push_manifest(&host, host.key(), manifest).await.status.is_success());
    }
    let ada = key(&host, "ada", json!({ "ceilings": { "skills": ["leaf"] } })).await;
    let execution = run(&host, &ada, "root", json!([["call", "leaf", [["config", "of"]]]])).await;
    assert_eq!(execution["output"], json!([["system"]]), "{execution}");
}

#[tokio::test]
async fn what_a_revoked_key_began_calls_nothing_more() {
    let host = Host::start();
    let new = json!({ "name": "k", "owner": "ada", "ceilings": { "skills": ["leaf"] } });
    let made = host.send(Method::POST, "/api/keys", new).await.body;
    let (id, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    pushed(&host, secret, &[("leaf", &[]), ("root", &["leaf"])]).await;
    let calls = json!({ "repeat": 20_000, "steps": [["call", "leaf", []]] });
    let (root, ()) = tokio::join!(run(&host, secret, "root", calls), async {
        let begun = async || host.get("/api/skills/executions?skill=leaf&owner=ada").await.body["total"].as_u64();
        until(async || begun().await.filter(|count| *count > 2).map(drop)).await;
        assert_eq!(host.send(Method::DELETE, &format!("/api/keys/{id}"), json!(null)).await.status, 204);
    });
    assert_eq!(root["output"][0]["error"], "denied", "{root}");
}

#[tokio::test]
async fn a_called_skill_is_kept_from_files_by_its_callers_ceiling_and_the_denial_names_that_key() {
    let host = Host::start();
    let narrow = key(&host, "ada", json!({ "ceilings": { "skills": ["leaf"], "workspace": "read" } })).await;
    let wide = key(&host, "ada", json!({ "ceilings": { "skills": ["leaf"] } })).await;
    let leaf = json!({ "name": "leaf", "version": "1.0.0", "grants": { "workspace": "write" } });
    assert!(push_guest(&host, &wide, leaf, "files").await.status.is_success());
    pushed(&host, &narrow, &[("root", &["leaf"])]).await;
    let writes = json!({ "steps": [{ "do": "std-write", "path": "/workspace/f", "text": "x" }] });
    let root = run(&host, &wide, "root", json!([["call", "leaf", writes]])).await;
    assert!(root["output"].to_string().contains("not permitted"), "{root}");
    let children = host.get("/api/skills/executions?skill=leaf&owner=ada").await.body;
    let id = children["executions"][0]["id"].as_str().unwrap();
    let denials = host.get(&format!("/api/skills/executions/{id}")).await.body["denials"].clone();
    assert_eq!(denials[0]["grant"], "ceilings.workspace of the key that registered a calling skill: write");
    let fix = denials[0]["fix"].as_str().unwrap();
    assert!(fix.starts_with("skillvisor keys create leaf --owner ada --workspace write  # and push"), "{fix}");
}
