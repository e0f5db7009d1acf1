use std::path::Path;

use crate::support::{Ended, Host, command, guest, run};

/// Pushes a skill folder whose `SKILL.md` is this.
fn push(host: &Host, skill_md: &str, more: &[&str]) -> Ended {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("SKILL.md"), skill_md).unwrap();
    std::fs::write(dir.path().join("echo.wasm"), guest("echo")).unwrap();
    let arguments = [&["push", dir.path().to_str().unwrap()], more].concat();
    run(&mut command(&host.dir.path().join("data"), &arguments))
}

#[test]
fn what_is_wrong_in_a_folders_manifest_is_told_with_the_line_of_the_file() {
    let host = Host::start();
    let with = |manifest: &str| format!("# Echo\n\nSays it again.\n\n```json skill\n{manifest}\n```\n\nMore.\n");
    for (manifest, told) in [
        // Not JSON; an unknown field; a value of another kind; the same key twice.
        ("{\n  \"name\": \"echo\"\n  \"version\": \"1.0.0\"\n}", "at line 8 column"),
        ("{\n  \"name\": \"echo\",\n  \"nmae\": 1\n}", "at line 8 column"),
        ("{\n  \"name\": \"echo\",\n\n  \"tags\": 1\n}", "at line 9 column"),
        ("{\n  \"name\": \"echo\",\n  \"name\": \"echo\"\n}", "at line 8 column"),
    ] {
        let told_of = push(&host, &with(manifest), &[]).expect(6).stderr;
        assert!(told_of.contains(told) && told_of.contains("SKILL.md"), "{manifest}: {told_of}");
    }
    for (manifest, told) in [
        ("{\n  \"name\": \"echo\",\n  \"version\": \"1\"\n}", "at /version (line 8 of "),
        (
            "{\n  \"name\": \"echo\",\n  \"version\": \"1.0.0\",\n  \"limits\": {\n    \"memoryMb\": 0 }\n}",
            "(line 10 of ",
        ),
        ("{\n  \"version\": \"1.0.0\"\n}", "at /name (line 6 of "),
    ] {
        let told_of = push(&host, &with(manifest), &[]).expect(6).stderr;
        assert!(told_of.contains(told) && told_of.contains("SKILL.md)"), "{manifest}: {told_of}");
    }
    let good = with("{\n  \"name\": \"echo\",\n  \"version\": \"1.0.0\"\n}");
    // What a flag says is in no line.
    let by_flag = push(&host, &good, &["--version", "1"]).expect(6).stderr;
    assert!(by_flag.contains("at /version") && !by_flag.contains("(line "), "{by_flag}");
    push(&host, &good, &[]).expect(0);
}

#[test]
fn what_is_wrong_in_a_manifest_of_its_own_is_told_with_its_line() {
    let host = Host::start();
    let dir = tempfile::tempdir().unwrap();
    let [manifest, component] = ["m.json", "echo.wasm"].map(|name| dir.path().join(name));
    std::fs::write(&manifest, "\n{ \"name\": \"echo\",\n  \"version\": \"one\" }\n").unwrap();
    std::fs::write(&component, guest("echo")).unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let arguments = ["push", &path(&component), "--manifest", &path(&manifest)];
    let told = run(&mut command(&host.dir.path().join("data"), &arguments)).expect(6).stderr;
    assert!(told.contains(&format!("at /version (line 3 of {})", manifest.display())), "{told}");
}
