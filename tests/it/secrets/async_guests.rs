//! Secrets in requests of `wasi:http` 0.3.

use super::*;

#[tokio::test]
async fn a_secret_goes_out_by_wasi_0_3_and_comes_back_in_no_form() {
    let (host, _authority, echo) = world().await;
    let key = key(&host, "team", &["TOKEN"]).await;
    store(&host, &key, "TOKEN", (&echo, CANARY)).await;
    let manifest = json!({
        "name": "async-fetch", "version": "1.0.0", "grants": { "network": ["public"], "secrets": ["TOKEN"] },
    });
    let form = multipart::Form::new()
        .part("manifest", multipart::Part::text(manifest.to_string()).mime_str("application/json").unwrap())
        .part("component", multipart::Part::bytes(guest("async-fetch")).mime_str("application/wasm").unwrap());
    let made = reply(host.request_as(Some(&key), Method::POST, "/api/skills").multipart(form)).await;
    assert!(made.status.is_success(), "{}", made.body);
    let ask = async |headers: Value, path: &str| {
        let args = json!({ "method": "GET", "url": echo.url(path), "headers": headers, "body": null });
        fetch(&host, &key, "async-fetch#fetch", args).await
    };
    for path in ["/whole", "/split"] {
        let ran = ask(json!([]), path).await;
        assert_eq!(ran["status"], "success", "{path}: {ran}");
        assert!(carries(&echo.heads()[0], CANARY), "{path}");
        let output = ran.to_string();
        assert!(ran["output"]["body"].as_str().unwrap().contains("GET "), "{ran}");
        for trace in echo::traces(CANARY) {
            let quoted = serde_json::to_string(&trace).unwrap();
            assert!(
                !output.contains(&trace) && !output.contains(quoted.trim_matches('"')),
                "{path}: {trace}: {output}"
            );
        }
    }
    // One that sets the field itself is denied, and nothing goes out.
    let ran = ask(json!([["authorization", "mine"]]), "/whole").await;
    assert_eq!(ran["error"]["detail"]["value"], "ErrorCode::HttpRequestDenied", "{ran}");
    assert_eq!(ran["denials"][0]["import"], "wasi:http/client", "{ran}");
    assert_eq!(echo.heads().len(), 0);
}
