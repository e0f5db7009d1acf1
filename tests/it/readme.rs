//! The commands of the README, pasted one block after another.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const README: &str = include_str!("../../README.md");
const PROGRAM: &str = env!("CARGO_BIN_EXE_skillvisor");

/// A running program. Killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// The blocks for a shell, in their order.
fn blocks() -> Vec<&'static str> {
    README.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Starts what the first block starts, on a free port.
fn serve(block: &str, folder: &Path) -> (Server, String) {
    let arguments = block.trim().strip_prefix("cargo run --release -- ").unwrap();
    let mut child = Command::new(PROGRAM)
        .args(arguments.split(' ').chain(["--json", "--listen", "127.0.0.1:0"]))
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
    (Server(child), ready["url"].as_str().unwrap().to_owned())
}

/// Pastes a block into a shell that knows what the blocks before it exported.
fn paste(block: &str, folder: &Path, url: &str) -> String {
    let example = Path::new(PROGRAM).with_file_name("examples").join("embed");
    let script = block
        .replace("cargo run --release --example embed --", example.to_str().unwrap())
        .replace("target/release/skillvisor", PROGRAM)
        .replace("http://127.0.0.1:20128", url);
    let output = Command::new("bash")
        .args(["-euc", &script])
        .current_dir(folder)
        .env("SKILLVISOR_DATA_DIR", "skillvisor-data")
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{block}\n{said}");
    said
}

#[test]
fn every_command_of_the_readme_works_when_pasted() {
    let folder = tempfile::tempdir().unwrap();
    let skills = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills");
    std::os::unix::fs::symlink(skills, folder.path().join("skills")).unwrap();
    let blocks = blocks();
    let (_server, url) = serve(blocks[0], folder.path());
    let pasted: Vec<_> = blocks[1..]
        .iter()
        // That one is running now.
        .filter(|block| block.trim() != "scripts/test")
        .map(|block| paste(block, folder.path(), &url))
        .collect();
    let expected: [&[&str]; 5] = [
        &["hello@1.0.0", "Hello, Ada!", "success"],
        &[r#""status":"success""#, "Hello, Ada!"],
        &[r#""state":"ready""#, "hello-again"],
        &["Hello, agent!"],
        &["registered embedded@1.0.0", "Hello, Ada!", "audit embedded@1.0.0 success"],
    ];
    assert_eq!(pasted.len(), expected.len(), "a block was added: say here what it must print");
    for (said, words) in pasted.iter().zip(expected) {
        for word in words {
            assert!(said.contains(word), "{word:?} is not in\n{said}");
        }
    }
}
