//! By way of guests of WASI 0.3.

use super::*;

use futures_util::future::join_all;

/// A quota that is soon used up, in bytes.
const SMALL: u64 = 256 << 10;

/// Pushes `async-files` with this grant.
async fn push(host: &Host, key: &str, workspace: &str) -> Reply {
    let name = format!("async-{workspace}");
    let manifest = json!({ "name": name, "version": "1.0.0", "grants": { "workspace": workspace } });
    let form = multipart::Form::new()
        .part("manifest", multipart::Part::text(manifest.to_string()).mime_str("application/json").unwrap())
        .part("component", multipart::Part::bytes(guest("async-files")).mime_str("application/wasm").unwrap());
    let pushed = reply(host.request_as(Some(key), Method::POST, "/api/skills").multipart(form)).await;
    assert!(pushed.status.is_success(), "{}", pushed.body);
    pushed
}

/// Calls a function of the guest with this grant; gives the execution.
async fn call(host: &Host, key: &str, (workspace, function): (&str, &str), args: Value) -> Value {
    let body = json!({ "skillId": format!("async-{workspace}#{function}"), "args": args });
    let ran = reply(host.request_as(Some(key), Method::POST, "/api/skills/executions").body(body.to_string())).await;
    assert_eq!(ran.status, 200, "{}", ran.body);
    ran.body
}

#[tokio::test]
async fn a_guest_of_wasi_0_3_has_the_workspace_of_its_owner_as_far_as_it_is_granted() {
    let host = Host::start();
    let (one, two) = (key(&host, "one", json!({})).await, key(&host, "two", json!({})).await);
    for key in [&one, &two] {
        push(&host, key, "write").await;
    }
    push(&host, &one, "read").await;
    push(&host, &one, "none").await;
    let write = ("write", "write");
    let directory = call(&host, &one, ("write", "make-directory"), json!({ "path": "a" })).await;
    assert_eq!(directory["status"], "success", "{directory}");
    let written = call(&host, &one, write, json!({ "path": "a/b", "text": "hello" })).await;
    assert_eq!((&written["status"], &written["denials"]), (&json!("success"), &json!([])), "{written}");
    let renamed = call(&host, &one, ("write", "rename"), json!({ "path": "a/b", "to": "d" })).await;
    assert_eq!(renamed["status"], "success", "{renamed}");
    assert_eq!(bytes(&host, &one, "d").await, b"hello");
    for (key, grant, seen, names) in [
        (&one, "write", json!("hello"), json!(["a", "d"])),
        (&one, "read", json!("hello"), json!(["a", "d"])),
        (&one, "none", Value::Null, json!([])),
        (&two, "write", Value::Null, json!([])),
    ] {
        let read = call(&host, key, (grant, "read"), json!({ "path": "d" })).await;
        assert_eq!(read["output"], seen, "{grant}: {read}");
        let listed = call(&host, key, (grant, "names"), json!({ "path": "." })).await;
        assert_eq!(listed["output"], names, "{grant}: {listed}");
        assert_eq!(call(&host, key, (grant, "preopens"), json!({})).await["output"], json!(["/workspace"]));
    }
    for grant in ["read", "none"] {
        let refused = call(&host, &one, (grant, "write"), json!({ "path": "d", "text": "mine" })).await;
        assert_eq!(refused["error"]["detail"]["value"], "ErrorCode::NotPermitted", "{refused}");
        assert_eq!(refused["denials"][0]["grant"], "workspace: write", "{refused}");
        assert_eq!(refused["denials"][0]["import"], "wasi:filesystem/types", "{refused}");
    }
    assert_eq!(bytes(&host, &one, "d").await, b"hello");
}

#[tokio::test]
async fn no_spelling_of_a_path_leads_out_by_way_of_a_guest_of_wasi_0_3() {
    let host = Host::start();
    let key = key(&host, "team", json!({})).await;
    push(&host, &key, "write").await;
    assert_eq!(put(&host, &key, "bait", "bait").await.status, 201);
    let outside = directory(&host, "team").parent().unwrap().join("outside");
    for path in corpus::SPELLINGS {
        // What was tried before may have moved them, within the workspace.
        traps(&host, "team");
        std::fs::write(directory(&host, "team").join("bait"), "bait").unwrap();
        let execution = call(&host, &key, ("write", "escape"), json!({ "path": path })).await;
        assert_eq!(execution["status"], "success", "{path:?}: {execution}");
        let tried = execution["output"].as_array().unwrap();
        assert_eq!(tried.len(), 15);
        let failed = |way: &str| {
            let answer = &tried.iter().find(|one| one[0] == way).unwrap()[1];
            answer.to_string().contains("ErrorCode::")
        };
        assert!(!execution.to_string().contains("not for guests"), "{path:?}: {execution}");
        assert!(!execution.to_string().contains("root:"), "{path:?}: {execution}");
        for link in ["readlink", "link", "linkFrom", "symlink", "symlinkTo"] {
            assert!(failed(link), "{path:?} {link}: {execution}");
        }
        let leads_out = path.starts_with(['/', '\\']) || path.starts_with("../") || path.starts_with("trap");
        if leads_out && *path != "trap/../outside" && *path != "trap/.." {
            for way in ["stat", "read", "list", "write", "mkdir", "rename", "renameFrom", "rmdir", "hash"] {
                assert!(failed(way), "{path:?} {way}: {execution}");
            }
        }
    }
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "not for guests");
    untouched(&host);
}

#[tokio::test]
async fn a_guest_of_wasi_0_3_is_stopped_at_the_quota_in_the_middle_of_a_stream() {
    let host = Host::start();
    let key = key(&host, "team", json!({ "storage": { "fileBytes": SMALL, "files": 50 } })).await;
    push(&host, &key, "write").await;
    let filled = call(&host, &key, ("write", "fill"), json!({ "path": "a", "bytes": 100 << 20 })).await;
    let text = filled["output"].to_string();
    assert!(text.contains("InsufficientSpace"), "{filled}");
    let lying = on_disk(&host, "team");
    assert!(lying <= SMALL && lying > SMALL - (64 << 10), "{lying}");
    for (function, args) in
        [("append", json!({ "path": "b", "times": 64 })), ("grow", json!({ "path": "c", "bytes": 1_u64 << 40 }))]
    {
        let refused = call(&host, &key, ("write", function), args).await;
        assert_eq!(refused["error"]["detail"]["value"], "ErrorCode::InsufficientSpace", "{function}: {refused}");
    }
    assert!(on_disk(&host, "team") <= SMALL);
    // Many runs at once have one quota together.
    let removed = reply(host.request_as(Some(&key), Method::DELETE, "/api/workspace/a")).await;
    assert_eq!(removed.status, 204);
    let fills = (0..6).map(|at| {
        let args = json!({ "path": format!("own-{at}"), "bytes": 1 << 20 });
        call(&host, &key, ("write", "fill"), args)
    });
    join_all(fills).await;
    let lying = on_disk(&host, "team");
    assert!(lying <= SMALL && lying > SMALL - (64 << 10), "{lying}");
}

#[tokio::test]
async fn a_guest_of_wasi_0_3_holds_few_listings_and_ends_at_its_deadline() {
    let host = Host::start();
    push(&host, host.key(), "write").await;
    assert_eq!(put(&host, host.key(), "a", "a").await.status, 201);
    let listed = call(&host, host.key(), ("write", "listings"), json!({ "times": 30 })).await;
    assert_eq!(listed["output"], 16, "{listed}");
    let limits = json!({ "timeoutMs": 2000, "fuel": 1_000_000_000_000_u64 });
    assert_eq!(host.outcome("async-write#churn", json!({ "path": "a" }), limits).await, "timeout timeout");
    assert_eq!(bytes(&host, host.key(), "a").await.len(), 4096);
}
