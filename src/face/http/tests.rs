use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use axum::routing::get;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::ServiceExt;

use super::*;

fn document() -> Value {
    serde_json::from_slice(&openapi::document(routes().into_openapi())).unwrap()
}

/// The methods of each path. axum has no list of a router's routes, but prints them for debugging.
fn routes_of(router: &Router<App>) -> BTreeMap<String, BTreeSet<String>> {
    let text = format!("{router:?}");
    let (handlers, paths) = text.split_once("paths: {").unwrap();
    let (paths, _) = paths.split_once("\"}").unwrap();
    let methods: BTreeMap<&str, BTreeSet<String>> = handlers
        .split("RouteId(")
        .skip(1)
        .map(|route| {
            let (id, route) = route.split_once(')').unwrap();
            let allow = route.split_once("allow_header: Bytes(b\"").and_then(|(_, rest)| rest.split('"').next());
            let words = allow.unwrap_or("every method").split(',').filter(|word| *word != "HEAD");
            (id, words.map(str::to_owned).collect())
        })
        .collect();
    paths
        .split("RouteId(")
        .skip(1)
        .map(|route| {
            let (id, path) = route.split_once("): \"").unwrap();
            (path.split('"').next().unwrap().replace("{*", "{"), methods[id].clone())
        })
        .collect()
}

#[test]
fn the_document_has_every_route_of_the_router_and_no_other() {
    let (router, _) = routes().split_for_parts();
    let document = document();
    let described: BTreeMap<String, BTreeSet<String>> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(path, item)| {
            let methods = item.as_object().unwrap().keys().map(|method| method.to_ascii_uppercase());
            (path.clone(), methods.collect())
        })
        .collect();
    assert_eq!(routes_of(&router), described);
    // What the comparison stands on: a route that was added another way shows.
    let other = routes_of(&router.route("/other", get(async || "").put(async || "")));
    assert_eq!(other["/other"], BTreeSet::from(["GET".to_owned(), "PUT".to_owned()]));
    assert_eq!(other.len(), described.len() + 1);
}

#[test]
fn each_operation_has_an_id_of_its_own_and_says_whether_it_needs_a_key() {
    let document = document();
    let mut ids = BTreeSet::new();
    let items = document["paths"].as_object().unwrap().iter();
    for (path, operation) in items.flat_map(|(path, item)| item.as_object().unwrap().values().map(move |op| (path, op)))
    {
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{path}");
        let needs_key = path.starts_with("/api/") || path == "/metrics" || path == "/mcp";
        assert_eq!(operation["security"].is_array(), !needs_key, "{path}");
        assert!(operation["summary"].is_string(), "{path}");
    }
    assert_eq!(document["security"], serde_json::json!([{ "key": [] }]));
    assert_eq!(document["components"]["securitySchemes"]["key"]["scheme"], "bearer");
}

/// The names that serde reads into `T`: it lists them to whoever sends another.
fn fields<T: DeserializeOwned>() -> BTreeSet<String> {
    let error = serde_json::from_str::<T>(r#"{"no such field":0}"#).err().unwrap().to_string();
    let list = error.split_once("expected").unwrap().1;
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn what_a_request_may_have_is_what_is_described() {
    use crate::model::{Budgets, Ceilings, Grants, LimitsPatch, Rates, StorageCeilings};
    let schemas = &document()["components"]["schemas"];
    for (name, mut read) in [
        ("LimitsPatch", fields::<LimitsPatch>()),
        ("Grants", fields::<Grants>()),
        ("Ceilings", fields::<Ceilings>()),
        ("Rates", fields::<Rates>()),
        ("Budgets", fields::<Budgets>()),
        ("StorageCeilings", fields::<StorageCeilings>()),
        ("Manifest", fields::<crate::registry::Manifest>()),
        ("ExecutionRequest", fields::<executions::RunBody>()),
        ("KeyRequest", fields::<keys::CreateBody>()),
        ("RotateRequest", fields::<keys::RotateBody>()),
        ("SkillChange", fields::<skills::ChangeBody>()),
    ] {
        let described: BTreeSet<String> = schemas[name]["properties"].as_object().unwrap().keys().cloned().collect();
        // Other names are told in the description only.
        let about = schemas[name]["description"].as_str().unwrap();
        read.retain(|field| !about.contains(&format!("`{field}`")) || described.contains(field));
        assert_eq!(read, described, "{name}");
        assert_eq!(schemas[name]["additionalProperties"], false, "{name}");
    }
}

async fn reply(router: Router, path: &str) -> (Response<()>, Value) {
    let response = router.oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    (Response::from_parts(parts, ()), serde_json::from_slice(&bytes).unwrap())
}

#[tokio::test]
async fn a_handler_that_panics_answers_a_problem_that_says_nothing_of_it() {
    async fn broken() -> &'static str {
        panic!("a secret")
    }
    let (response, body) = reply(
        guarded(Router::new().route("/broken", get(broken)), Around { pace: Pace::default(), telemetry: None }),
        "/broken",
    )
    .await;
    assert_eq!(response.status(), 500);
    assert_eq!((&body["code"], &body["instance"]), (&Value::from("internal"), &Value::from("/broken")));
    assert!(!body.to_string().contains("secret"), "{body}");
    assert_eq!(response.headers()["cache-control"], "no-store");
}

#[tokio::test]
async fn a_reply_may_say_something_else_than_the_usual_headers() {
    let page = async || ([("cache-control", "max-age=60")], "{}");
    let (response, _) = reply(
        guarded(Router::new().route("/page", get(page)), Around { pace: Pace::default(), telemetry: None }),
        "/page",
    )
    .await;
    assert_eq!(response.headers()["cache-control"], "max-age=60");
    assert_eq!(response.headers()["x-content-type-options"], "nosniff");
}
