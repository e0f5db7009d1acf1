//! docs/catalogue.md, which is made from the folders; and skills/build.lock, which must be of them.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};
use skillvisor::model::{manifest_block, without_manifest};

const HEAD: &str = include_str!("head.md");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folders of `skills/`, by name.
fn folders() -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(root().join("skills")).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: PathBuf| (path.file_name().unwrap().to_str().unwrap().to_owned(), path);
    let mut folders: Vec<_> = entries.filter(|path| path.is_dir()).map(name).collect();
    folders.sort();
    folders
}

/// The page, from what the skills say of themselves.
fn page() -> String {
    let mut page = HEAD.to_owned();
    for (name, folder) in folders() {
        let text = std::fs::read_to_string(folder.join("SKILL.md")).unwrap();
        let manifest: Value = serde_json::from_str(&manifest_block(&text).unwrap().unwrap()).unwrap();
        let (_, body) = text.split_once("\n---\n").unwrap();
        let body = without_manifest(body);
        let body = body.trim().trim_start_matches(&format!("# {name}")).trim();
        let (version, description) = (manifest["version"].as_str().unwrap(), manifest["description"].as_str().unwrap());
        write!(page, "\n## {name}\n\n{description}\n\n{body}\n\n").unwrap();
        let grants = &manifest["grants"];
        let asks = if grants.is_null() { "nothing".to_owned() } else { format!("`{grants}`") };
        writeln!(page, "Version {version}; asks for {asks}.").unwrap();
        let input = &manifest["schema"]["input"];
        let required: Vec<&Value> = input["required"].as_array().into_iter().flatten().collect();
        page.push_str("\n| argument | type | what it is |\n|---|---|---|\n");
        for (argument, schema) in input["properties"].as_object().unwrap() {
            let must = if required.iter().any(|name| *name == argument) { ", required" } else { "" };
            let what = schema["description"].as_str().unwrap();
            writeln!(page, "| `{argument}` | {}{must} | {what} |", kind(schema)).unwrap();
        }
    }
    page
}

fn kind(schema: &Value) -> String {
    match (schema["enum"].as_array(), schema["type"].as_str()) {
        (Some(words), _) => {
            words.iter().map(|word| format!("`{}`", word.as_str().unwrap())).collect::<Vec<_>>().join(", ")
        }
        (None, Some(kind)) => kind.to_owned(),
        (None, None) => "any".to_owned(),
    }
}

/// To renew it: `UPDATE=1 cargo test --test it catalogue::page`.
#[test]
fn the_page_about_the_catalogue_says_what_the_folders_say() {
    let file = root().join("docs/catalogue.md");
    if std::env::vars().any(|(name, _)| name == "UPDATE") {
        std::fs::write(&file, page()).unwrap();
    }
    let have = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(have, page(), "UPDATE=1 cargo test --test it catalogue::page renews it");
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Every file below a folder, as paths from the root of the repository.
fn files(below: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join(below)).unwrap() {
        let path = format!("{below}/{}", entry.unwrap().file_name().to_str().unwrap());
        if root().join(&path).is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// The digest that `scripts/guests` gives the sources of a skill.
fn source_digest(name: &str) -> String {
    let kind = if name == "hello" { "examples" } else { "catalogue" };
    let folders = [format!("guest-examples/{kind}/{name}"), "guest-examples/shared".into(), "wit".into()];
    let mut all: Vec<_> = folders.iter().flat_map(|folder| files(folder)).collect();
    all.sort();
    let line = |path: &String| format!("{}  {path}\n", sha256(&std::fs::read(root().join(path)).unwrap()));
    sha256(all.iter().map(line).collect::<String>().as_bytes())
}

#[test]
fn every_component_is_the_one_that_was_built_from_the_sources_as_they_are() {
    let lock = std::fs::read_to_string(root().join("skills/build.lock")).unwrap();
    let lock: toml::Table = lock.parse().unwrap();
    assert_eq!(lock["target"].as_str(), Some("wasm32-wasip2"));
    let folders = folders();
    assert_eq!(lock.values().filter(|value| value.is_table()).count(), folders.len());
    for (name, folder) in folders {
        let component = std::fs::read(folder.join(format!("{name}.wasm"))).unwrap();
        let entry = |field: &str| lock[&name][field].as_str().unwrap().to_owned();
        assert_eq!(entry("component"), format!("sha256:{}", sha256(&component)), "{name}");
        let hint = "its source is another: run scripts/guests --catalogue --install";
        assert_eq!(entry("source"), format!("sha256:{}", source_digest(&name)), "{name}: {hint}");
    }
}
