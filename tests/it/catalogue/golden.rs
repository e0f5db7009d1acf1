//! `skillvisor test`, and the golden cases of the skills in this repository.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Ended, command, guest, run};

fn test(folder: &Path, more: &[&str]) -> Ended {
    let nowhere = Path::new("/nonexistent/skillvisor");
    run(&mut command(nowhere, &[&["test", folder.to_str().unwrap()], more].concat()))
}

#[test]
fn every_skill_of_the_repository_passes_its_golden_cases() {
    let skills = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills");
    let folders = std::fs::read_dir(skills).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut tested = 0;
    for folder in folders {
        let told = test(&folder, &["--json"]);
        let told = told.json();
        let bad: Vec<&Value> = told["cases"].as_array().unwrap().iter().filter(|case| case["passed"] != true).collect();
        assert!(bad.is_empty(), "{}: {bad:#?}", folder.display());
        assert!(told["passed"].as_u64().unwrap() >= 3, "{}", folder.display());
        tested += 1;
    }
    assert!(tested >= 8);
}

#[test]
fn a_case_that_fails_is_told_with_what_came_and_ends_with_its_own_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("SKILL.md"), "```json skill\n{\"name\":\"echo\",\"version\":\"1.0.0\"}\n```\n")
        .unwrap();
    std::fs::write(dir.path().join("echo.wasm"), guest("echo")).unwrap();
    assert!(test(dir.path(), &[]).expect(2).stderr.contains("no golden case"));
    std::fs::create_dir(dir.path().join("tests")).unwrap();
    let put = |cases: Value| std::fs::write(dir.path().join("tests/a.json"), cases.to_string()).unwrap();
    put(json!({ "name": "says it again", "args": { "n": 1 }, "expect": { "output": { "n": 1 } } }));
    test(dir.path(), &[]).expect(0);
    put(json!([
        { "name": "says it again", "args": { "n": 1 }, "expect": { "contains": { "n": 2 } } },
        { "name": "fails", "args": { "n": 1 }, "expect": { "error": "trap" } },
        { "name": "keeps files", "files": { "a": "1" }, "expect": { "output": {}, "files": { "a": null } } },
        { "name": "passes", "files": { "a": "1" }, "expect": { "output": {}, "files": { "a": "1" } } },
    ]));
    let told = test(dir.path(), &["--json"]).expect(1).json();
    assert_eq!((&told["skill"], &told["passed"], &told["failed"]), (&json!("echo@1.0.0"), &json!(1), &json!(3)));
    let problem = |at: usize| told["cases"][at]["problem"].as_str().unwrap_or_default().to_owned();
    assert!(problem(0).contains("{\"n\":1}") && problem(1).contains("trap") && problem(2).contains("file a"), "{told}");
    assert!(test(dir.path(), &["--only", "passes"]).expect(0).stdout.contains("1 passed, 0 failed"));
    put(json!({ "name": "says nothing", "expect": {} }));
    assert!(test(dir.path(), &[]).expect(2).stderr.contains("needs one of"));
}
