use std::fmt::Write as _;

use reqwest::Method;
use skillvisor::model::Code;

use crate::support::Host;

#[test]
fn the_table_of_codes_changes_only_on_purpose() {
    let mut table = String::new();
    for row in Code::ALL.iter().map(|code| code.row()) {
        let (name, http, retry, mcp, a2a, exit) = (row.name, row.http, row.retry, row.mcp, row.a2a, row.exit);
        writeln!(table, "{name} http={http} retry={retry} mcp={mcp} a2a={a2a} exit={exit}").unwrap();
    }
    insta::assert_snapshot!(table);
}

#[tokio::test]
async fn a_problem_points_to_a_page_about_its_code_and_to_where_it_happened() {
    let host = Host::start();
    let refused = host.get("/api/skills/no-such%22skill?key=secret").await.body;
    assert_eq!((&refused["title"], &refused["instance"]), (&"Malformed".into(), &"/api/skills/no-such%22skill".into()));
    assert!(!refused.to_string().contains("secret"), "{refused}");
    let problem = host.get("/api/skills/no-such%22skill").await.body;
    assert_eq!(problem["title"], "Not found");
    assert_eq!(problem["instance"], "/api/skills/no-such%22skill");
    let page = host.request_as(None, Method::GET, problem["type"].as_str().unwrap()).send().await.unwrap();
    assert_eq!(
        (page.status().as_u16(), &page.headers()["content-type"]),
        (200, &"text/html; charset=utf-8".parse().unwrap())
    );
    assert!(page.text().await.unwrap().contains("<dt>code<dd>not_found"));
    for code in Code::ALL {
        let page = host.request_as(None, Method::GET, &format!("/problems/{code}")).send().await.unwrap();
        assert_eq!(page.status(), 200, "{code}");
    }
    assert_eq!(host.get("/problems/no-such").await.summary(), "404 not_found");
}

#[tokio::test]
async fn every_reply_tells_a_browser_to_keep_and_run_nothing() {
    let host = Host::start();
    for (path, status) in [
        ("/livez", 200),
        ("/openapi.json", 200),
        ("/problems/conflict", 200),
        ("/nowhere", 404),
        ("/api/skills", 401),
        ("/api/skills/executions/%ff", 401),
    ] {
        let response = host.request_as(None, Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), status, "{path}");
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header("content-security-policy"), "default-src 'none'; frame-ancestors 'none'", "{path}");
        assert_eq!(header("cache-control"), "no-store", "{path}");
    }
}
