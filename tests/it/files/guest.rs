use super::*;

use futures_util::future::join_all;

/// A quota that is soon used up, in bytes.
const SMALL: u64 = 256 << 10;

async fn small(host: &Host, owner: &str) -> String {
    key(host, owner, json!({ "storage": { "fileBytes": SMALL, "files": 50 } })).await
}

#[tokio::test]
async fn what_one_skill_wrote_another_of_the_owner_reads_and_no_other_owner_does() {
    let host = Host::start();
    let (one, two) = (key(&host, "one", json!({})).await, key(&host, "two", json!({})).await);
    for key in [&one, &two] {
        push(&host, key, "writer", "write").await;
        push(&host, key, "reader", "read").await;
    }
    let write = json!([
        { "do": "preopens" },
        { "do": "std-mkdir", "path": "/workspace/a/b" },
        { "do": "std-write", "path": "/workspace/a/b/c", "text": "hello" },
        { "do": "std-append", "path": "/workspace/a/b/c", "text": " there" },
        { "do": "std-rename", "path": "/workspace/a/b/c", "to": "/workspace/d" },
        { "do": "std-read", "path": "/workspace/d" },
        { "do": "std-size", "path": "/workspace/d" },
        { "do": "std-list", "path": "/workspace" },
        { "do": "std-remove-all", "path": "/workspace/a" },
    ]);
    let ok = |value: Value| json!({ "ok": value });
    let null = ok(Value::Null);
    let wanted = [
        ok(json!(["/workspace"])),
        null.clone(),
        null.clone(),
        null.clone(),
        null.clone(),
        ok(json!("hello there")),
        ok(json!(11)),
        ok(json!(["a", "d"])),
        null,
    ];
    assert_eq!(steps(&host, &one, "writer", write).await, wanted);
    let read = json!([{ "do": "std-read", "path": "/workspace/d" }, { "do": "std-list", "path": "/workspace" }]);
    assert_eq!(steps(&host, &one, "reader", read.clone()).await, [ok(json!("hello there")), ok(json!(["d"]))]);
    let other = steps(&host, &two, "reader", read).await;
    assert!(other[0]["error"].is_string() && other[1] == ok(json!([])), "{other:?}");
    assert_eq!(bytes(&host, &one, "d").await, b"hello there");
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let directory = directory(&host, "one");
    assert_eq!((mode(&directory), mode(&directory.join("d"))), (0o700, 0o600));
}

#[tokio::test]
async fn what_is_not_granted_is_refused_and_the_execution_says_what_would_allow_it() {
    let host = Host::start();
    let owner = key(&host, "team", json!({})).await;
    let less = key(&host, "team", json!({ "workspace": "none" })).await;
    push(&host, &owner, "nothing", "none").await;
    push(&host, &owner, "reads", "read").await;
    push(&host, &owner, "writes", "write").await;
    let warned = push(&host, &less, "wants", "write").await;
    assert!(warned.body["warnings"].to_string().contains("grants.workspace"), "{}", warned.body);
    assert_eq!(put(&host, &owner, "f", "text").await.status, 201);
    let both = json!([{ "do": "std-read", "path": "/workspace/f" }, { "do": "std-write", "path": "/workspace/g" }]);
    for (key, skill, grants) in [
        (&owner, "nothing", vec!["workspace: read", "workspace: write"]),
        (&owner, "reads", vec!["workspace: write"]),
        (&owner, "writes", vec![]),
        (
            &less,
            "writes",
            vec!["ceilings.workspace of the calling key: read", "ceilings.workspace of the calling key: write"],
        ),
        (
            &owner,
            "wants",
            vec!["ceilings.workspace of the registering key: read", "ceilings.workspace of the registering key: write"],
        ),
    ] {
        let execution = execute(&host, key, skill, both.clone()).await;
        let denials = execution["denials"].as_array().unwrap();
        let found: Vec<_> = denials.iter().map(|denial| denial["grant"].as_str().unwrap()).collect();
        assert_eq!(found, grants, "{skill}: {execution}");
        for denial in denials {
            assert_eq!(denial["import"], "wasi:filesystem/types");
            assert!(denial["fix"].as_str().unwrap().len() > 20, "{denial}");
        }
        let refused = execution["output"].to_string().matches("Operation not permitted").count();
        assert_eq!(refused, grants.len(), "{skill}: {execution}");
    }
    let list = json!([{ "do": "std-list", "path": "/workspace" }]);
    assert_eq!(steps(&host, &owner, "nothing", list).await[0], json!({ "ok": [] }));
    let body = json!({ "skill": "writes", "args": { "steps": both }, "readOnly": true });
    let ran = reply(host.request_as(Some(&owner), Method::POST, "/api/skills/executions").body(body.to_string())).await;
    assert!(ran.body["denials"][0]["fix"].as_str().unwrap().contains("readOnly"), "{}", ran.body);
}

#[tokio::test]
async fn no_spelling_of_a_path_leads_out_by_way_of_a_guest() {
    let host = Host::start();
    let key = key(&host, "team", json!({})).await;
    push(&host, &key, "files", "write").await;
    assert_eq!(put(&host, &key, "bait", "bait").await.status, 201);
    let outside = host.dir.path().join("data/workspaces/outside");
    let harmless = [json!(b"escaped".to_vec()), json!(b"bait".to_vec())];
    for path in corpus::SPELLINGS {
        // What was tried before may have moved them, within the workspace.
        traps(&host, "team");
        std::fs::write(directory(&host, "team").join("bait"), "bait").unwrap();
        let execution = execute(&host, &key, "files", json!([{ "do": "escape", "path": path }])).await;
        assert_eq!(execution["status"], "success", "{execution}");
        let tried = &execution["output"][0]["ok"];
        assert!(!tried["read"].is_array() || harmless.contains(&tried["read"]), "{path:?}: {tried}");
        for link in ["readlink", "link", "linkFrom", "symlink", "symlinkTo"] {
            assert!(tried[link]["error"].is_string(), "{path:?} {link}: {tried}");
        }
        let leads_out = path.starts_with(['/', '\\']) || path.starts_with("../") || path.starts_with("trap");
        // In the text it comes back, and is a name in the workspace.
        if leads_out && *path != "trap/../outside" && *path != "trap/.." {
            for way in ["stat", "read", "list", "write", "mkdir", "rename", "renameFrom", "rmdir", "hash"] {
                assert!(tried[way]["error"].is_string(), "{path:?} {way}: {tried}");
            }
        }
    }
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "not for guests");
    untouched(&host);
}

#[tokio::test]
async fn a_guest_is_stopped_at_the_quota_in_the_middle_of_writing() {
    let host = Host::start();
    let key = small(&host, "team").await;
    push(&host, &key, "files", "write").await;
    let answers = steps(
        &host,
        &key,
        "files",
        json!([
            { "do": "fill", "path": "a", "bytes": 100 << 20 },
            { "do": "append", "path": "b", "times": 2 },
            { "do": "grow", "path": "c", "bytes": 1_u64 << 40 },
            { "do": "std-sparse", "path": "/workspace/d", "bytes": 1_u64 << 40 },
            { "do": "std-remove", "path": "/workspace/a" },
            { "do": "append", "path": "b", "times": 4 },
            { "do": "grow", "path": "c", "bytes": 100_000 },
            { "do": "grow", "path": "c", "bytes": 0 },
            { "do": "fill", "path": "e", "bytes": 100 << 20 },
        ]),
    )
    .await;
    assert_eq!(answers[0]["ok"]["written"], SMALL);
    for (at, answer) in answers.iter().enumerate() {
        let text = answer.to_string();
        match at {
            0 | 1 | 2 | 8 => assert!(text.contains("insufficient-space"), "{at}: {answer}"),
            // The standard library asks the stream for no reason.
            3 => assert!(answer["error"].is_string(), "{answer}"),
            _ => assert!(text.contains("ok"), "{at}: {answer}"),
        }
    }
    assert_eq!(answers[8]["ok"]["written"], SMALL - 4 * 4096);
    assert_eq!(on_disk(&host, "team"), SMALL);
}

#[tokio::test]
async fn files_that_were_removed_and_stay_open_count_until_they_are_closed() {
    let host = Host::start();
    let key = small(&host, "team").await;
    push(&host, &key, "files", "write").await;
    let orphans = json!([{ "do": "orphans", "path": "o", "bytes": 100_000, "times": 20 }]);
    for _ in 0..3 {
        let written = steps(&host, &key, "files", orphans.clone()).await[0]["ok"].as_u64().unwrap();
        assert!(written <= SMALL && written > SMALL / 2, "{written}");
    }
    // They are closed with the run.
    let fill = json!([{ "do": "fill", "path": "a", "bytes": SMALL }]);
    assert_eq!(steps(&host, &key, "files", fill).await[0]["ok"], json!({ "written": SMALL }));
}

#[tokio::test]
async fn many_runs_at_once_have_one_quota_together() {
    let host = Host::start();
    let key = small(&host, "team").await;
    push(&host, &key, "files", "write").await;
    let run = |number: usize| {
        let own = format!("own-{number}");
        let steps_ = json!([
            { "do": "append", "path": "shared", "times": 40 },
            { "do": "fill", "path": own, "bytes": 1 << 20 },
            { "do": "grow", "path": "shared", "bytes": 1 << 30 },
            { "do": "std-sparse", "path": format!("/workspace/{own}-s"), "bytes": 200_000 },
        ]);
        steps(&host, &key, "files", steps_)
    };
    let answers = join_all((0..12).map(run)).await;
    assert!(answers.iter().any(|answers| answers[1].to_string().contains("insufficient-space")));
    let lying = on_disk(&host, "team");
    assert!(lying <= SMALL && lying > SMALL - 4096 * 2, "{lying}");
}

#[tokio::test]
async fn a_guest_makes_no_more_files_and_no_deeper_directories_than_it_may() {
    let host = Host::start();
    let key = small(&host, "team").await;
    let deep = self::key(&host, "deep", json!({ "storage": { "files": 1000 } })).await;
    for key in [&key, &deep] {
        push(&host, key, "files", "write").await;
    }
    let many = json!([{ "do": "make-many", "path": "f", "times": 500 }, { "do": "std-mkdir", "path": "/workspace/d" }]);
    let answers = steps(&host, &key, "files", many).await;
    assert_eq!(answers[0]["ok"]["made"], 50);
    assert!(answers[0].to_string().contains("insufficient-space") && answers[1]["error"].is_string(), "{answers:?}");
    let nested = steps(&host, &deep, "files", json!([{ "do": "nest", "times": 500 }])).await;
    assert_eq!(nested[0]["ok"]["made"], 64);
    let removed = reply(host.request_as(Some(&deep), Method::DELETE, "/api/workspace/d?recursive=true")).await;
    assert_eq!(removed.status, 204, "{}", removed.body);
}

#[tokio::test]
async fn a_directory_that_is_swapped_for_a_link_under_a_path_leads_nowhere() {
    let host = Host::start();
    let key = key(&host, "team", json!({})).await;
    push(&host, &key, "files", "write").await;
    assert_eq!(put(&host, &key, "dir/x", "x").await.status, 201);
    let outside = traps(&host, "team");
    let race = json!([{ "do": "race", "path": "dir", "to": "other", "times": 300 }]);
    let swaps = directory(&host, "team");
    let swapping = async {
        loop {
            // What an operator, or a bug, could do at the worst moment.
            let _ = std::fs::rename(swaps.join("dir"), swaps.join("away"));
            let _ = std::os::unix::fs::symlink("..", swaps.join("dir"));
            tokio::task::yield_now().await;
            let _ = std::fs::remove_file(swaps.join("dir"));
            let _ = std::fs::rename(swaps.join("away"), swaps.join("dir"));
        }
    };
    tokio::select! {
        _ = join_all((0..4).map(|_| steps(&host, &key, "files", race.clone()))) => {}
        () = swapping => {}
    }
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "not for guests");
    untouched(&host);
}

#[tokio::test]
async fn a_guest_that_never_stops_writing_ends_at_its_deadline() {
    let host = Host::start();
    push(&host, host.key(), "files", "write").await;
    let limits = json!({ "timeoutMs": 3000, "fuel": 1_000_000_000_000_u64 });
    let args = json!({ "steps": [{ "do": "churn", "path": "a" }] });
    assert_eq!(host.outcome("files", args, limits).await, "timeout timeout");
    assert_eq!(bytes(&host, host.key(), "a").await.len(), 4096);
}

/// It opens a file as `wasi:filesystem` 0.2 has them, and changes its length as one of 0.3.
#[tokio::test]
async fn no_component_takes_a_file_past_the_quota_by_the_door_of_another_age() {
    let host = Host::start();
    let component = wat::parse_str(include_str!("both_doors.wat")).unwrap();
    let refused = host.upload("both-doors", component).await;
    assert_eq!(refused.summary(), "422 invalid_component");
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.contains("wasi:filesystem/types@0.2.12, wasi:filesystem/types@0.3.0"), "{detail}");
}
