use reqwest::Method;
use serde_json::{Value, json};

use super::{new_key, register, send, version};
use crate::support::{Host, command, run};

async fn point(host: &Host, alias: &str, body: Value) -> String {
    host.send(Method::PUT, &format!("/api/skills/echo/aliases/{alias}"), body).await.summary()
}

/// What ran, as the record says.
async fn ran(host: &Host, skill: &str) -> String {
    let run = host.run(skill, json!({}), json!({})).await;
    assert_eq!(run.body["status"], "success", "{}", run.body);
    let record = host.get(&format!("/api/skills/executions/{}", run.body["id"].as_str().unwrap())).await;
    record.body["skillId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_alias_moves_forward_and_back_and_the_record_names_the_version_that_ran() {
    let mut host = Host::start();
    for number in ["1.0.0", "1.1.0"] {
        version(&host, host.key(), number, json!({})).await;
    }
    assert_eq!(point(&host, "stable", json!({ "version": "1.1.0" })).await, "200 -");
    assert_eq!(host.get("/api/skills/echo@1.1.0").await.body["aliases"], json!(["stable"]));
    assert_eq!(ran(&host, "echo@stable").await, "echo@1.1.0");
    assert_eq!(point(&host, "stable", json!({ "version": "1.0.0", "from": "1.0.0" })).await, "409 conflict");
    assert_eq!(point(&host, "stable", json!({ "version": "1.0.0", "from": "1.1.0" })).await, "200 -");
    assert_eq!(ran(&host, "echo@stable").await, "echo@1.0.0");
    host.kill_and_restart();
    assert_eq!(ran(&host, "echo@stable").await, "echo@1.0.0");
    let taken = host.send(Method::DELETE, "/api/skills/echo@1.0.0", Value::Null).await;
    assert_eq!(taken.summary(), "409 conflict");
    let removed = host.send(Method::DELETE, "/api/skills/echo/aliases/stable", Value::Null).await;
    assert_eq!(removed.status, 204);
    assert_eq!(host.run("echo@stable", json!({}), json!({})).await.summary(), "404 not_found");
    assert_eq!(host.send(Method::DELETE, "/api/skills/echo@1.0.0", Value::Null).await.status, 204);
}

#[tokio::test]
async fn what_can_be_no_alias_and_what_it_cannot_point_to_is_refused_by_name() {
    let host = Host::start();
    version(&host, host.key(), "1.0.0", json!({})).await;
    let to = |version: &str| json!({ "version": version });
    for (alias, body, refused) in [
        ("latest", to("1.0.0"), "422 reserved_name"),
        ("%5E1", to("1.0.0"), "422 reserved_name"),
        ("1.0.0", to("1.0.0"), "422 reserved_name"),
        ("x", to("1.0.0"), "422 reserved_name"),
        ("Stable", to("1.0.0"), "400 malformed"),
        ("a@b", to("1.0.0"), "400 malformed"),
        ("stable", to("^1"), "400 malformed"),
        ("stable", to("1.0.1"), "404 not_found"),
        ("stable", json!({}), "400 malformed"),
        ("stable", json!({ "version": "1.0.0", "from": "1.0.0" }), "409 conflict"),
    ] {
        assert_eq!(point(&host, alias, body).await, refused, "{alias}");
    }
    let path = |name: &str| format!("/api/skills/{name}/aliases/stable");
    for (name, refused) in [("nobody", "404 not_found"), ("echo@1.0.0", "400 malformed")] {
        assert_eq!(host.send(Method::PUT, &path(name), to("1.0.0")).await.summary(), refused);
        assert_eq!(host.send(Method::DELETE, &path(name), Value::Null).await.summary(), refused);
    }
    assert_eq!(host.send(Method::DELETE, &path("echo"), Value::Null).await.summary(), "404 not_found");
}

#[tokio::test]
async fn nobody_moves_the_aliases_of_others_and_own_versions_do_not_take_global_ones() {
    let host = Host::start();
    for name in ["echo", "private"] {
        let owner = if name == "echo" { "system" } else { "admin" };
        let manifest = json!({ "name": name, "version": "1.0.0", "owner": owner });
        assert!(register(&host, host.key(), manifest).await.status.is_success());
    }
    let key = new_key(&host, json!({ "name": "k", "owner": "team" })).await;
    let put = async |name: &str| {
        let path = format!("/api/skills/{name}/aliases/stable");
        send(&host, &key, (Method::PUT, &path), json!({ "version": "1.0.0" })).await
    };
    assert_eq!(put("echo").await.summary(), "403 forbidden");
    let (foreign, absent) = (put("private").await, put("absent").await);
    assert_eq!(
        (foreign.body["detail"].clone(), foreign.summary()),
        (absent.body["detail"].clone(), "404 not_found".into())
    );
    version(&host, &key, "1.0.0", json!({})).await;
    assert_eq!(put("echo").await.body["owner"], "team");
    assert_eq!(host.run("echo@stable", json!({}), json!({})).await.summary(), "404 not_found");
    let readonly = new_key(&host, json!({ "name": "r", "owner": "team", "scopes": ["skills:read"] })).await;
    let path = "/api/skills/echo/aliases/stable";
    assert_eq!(send(&host, &readonly, (Method::DELETE, path), Value::Null).await.summary(), "403 insufficient_scope");
}

#[tokio::test]
async fn aliases_versions_modes_and_tags_go_by_command() {
    let host = Host::start();
    for number in ["1.0.0", "1.1.0"] {
        version(&host, host.key(), number, json!({})).await;
    }
    let data = host.dir.path().join("data");
    let on = |arguments: &[&str]| run(&mut command(&data, arguments)).expect(0);
    assert!(on(&["alias", "set", "echo", "stable", "1.0.0"]).stderr.contains("echo@stable is echo@1.0.0"));
    assert_eq!(on(&["alias", "list", "echo", "--json"]).json(), json!({ "aliases": { "stable": "1.0.0" } }));
    let versions = on(&["versions", "echo"]).stdout;
    let lines: Vec<_> =
        versions.lines().skip(1).map(|line| line.split_whitespace().take(2).collect::<Vec<_>>()).collect();
    assert_eq!((lines[0][0], &lines[1]), ("1.1.0", &vec!["1.0.0", "stable"]), "{versions}");
    run(&mut command(&data, &["alias", "set", "echo", "latest", "1.0.0"])).expect(6);
    run(&mut command(&data, &["delete", "echo@1.0.0"])).expect(5);
    on(&["alias", "rm", "echo", "stable"]);
    assert_eq!(on(&["mode", "echo@1.0.0", "auto", "--json"]).json()["mode"], "auto");
    on(&["tag", "echo@1.0.0", "--add", "x", "--add", "y"]);
    assert_eq!(on(&["tag", "echo@1.0.0", "--remove", "x", "--json"]).json()["tags"], json!(["y"]));
    let listed = on(&["list", "--mode", "auto", "--tag", "y", "--source", "local", "--json"]).json();
    assert_eq!((&listed["total"], &listed["skills"][0]["version"]), (&json!(1), &json!("1.0.0")));
}
