//! Rules that the compiler does not know. Each rule is a function of text (`tidy/rules.rs`),
//! shown there to refuse bad text; here it reads this repository.

/// The rules.
mod rules;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use self::rules::Layers;

/// The files that are part of the repository, or will be, with their text; none that is not text.
fn files() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .unwrap();
    assert!(listed.status.success(), "git cannot list the files: {}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).unwrap();
    let names = names.split_terminator('\0').filter(|name| !name.ends_with("Cargo.lock"));
    let files: BTreeMap<_, _> =
        names.filter_map(|name| Some((name.to_owned(), std::fs::read_to_string(root.join(name)).ok()?))).collect();
    assert!(files.contains_key("src/lib.rs") && files.contains_key("README.md"), "{:?}", files.keys());
    files
}

fn sources(files: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    let rust = files.iter().filter(|(name, _)| name.ends_with(".rs"));
    rust.map(|(name, text)| (name.as_str(), text.as_str()))
}

/// Fails with every finding, each of which names its file.
#[track_caller]
fn none(findings: Vec<String>) {
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn a_room_uses_lower_rooms_only() {
    let files = files();
    let layers = Layers::from_table(&files["docs/ARCHITECTURE.md"]);
    let rooms: Vec<_> = sources(&files).filter_map(|(name, text)| Some((name.strip_prefix("src/")?, text))).collect();
    let mut findings: Vec<_> = rooms.iter().flat_map(|(name, text)| layers.upward_uses(name, text)).collect();
    findings.extend(layers.without_row(rooms.iter().map(|(name, _)| *name)));
    none(findings);
}

#[test]
fn a_file_fits_into_400_lines() {
    none(sources(&files()).filter_map(|(name, text)| rules::too_long(name, text)).collect());
}

#[test]
fn every_source_file_is_in_a_mod_list() {
    let files = files();
    let ours = |name: &str| name.starts_with("src/") || name.starts_with("tests/it/");
    let names = sources(&files).map(|(name, _)| name).filter(|name| ours(name));
    none(names.filter_map(|name| rules::in_no_mod_list(name, |parent| files.get(parent).cloned())).collect());
}

#[test]
fn every_guest_is_used_by_a_test_or_shown_in_a_readme() {
    let files = files();
    let guests = files.keys().filter_map(|name| {
        let mut parts = name.strip_prefix("guest-examples/")?.split('/');
        let kind = parts.next().filter(|kind| ["examples", "fixtures"].contains(kind));
        kind.and_then(|_| parts.next())
    });
    let readers = files.iter().filter(|(name, _)| {
        name.starts_with("tests/") || name.starts_with("benches/") || !name.contains('/') && name.ends_with(".md")
    });
    let texts: Vec<_> = readers.map(|(_, text)| text.as_str()).collect();
    none(rules::unnamed(guests, &texts));
}

#[test]
fn every_file_that_a_text_names_exists() {
    let files = files();
    let texts = files.iter().filter(|(name, _)| name.ends_with(".md") && !name.starts_with("skills/"));
    none(texts.flat_map(|(name, text)| rules::dead_references(name, text, |path| exists(&files, path))).collect());
}

/// Whether `path` is a file or folder of the repository.
fn exists(files: &BTreeMap<String, String>, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    let below = format!("{path}/");
    // Not every file is text.
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path).is_file() || files.keys().any(|name| name.starts_with(&below))
}

#[test]
fn nothing_unfinished_and_nothing_of_this_machine_is_left() {
    let checkout = env!("CARGO_MANIFEST_DIR");
    none(files().iter().flat_map(|(name, text)| rules::leftovers(name, text, checkout)).collect());
}

#[test]
fn only_the_store_speaks_sql_and_only_the_sandbox_knows_its_engine() {
    none(sources(&files()).flat_map(|(name, text)| rules::strays(name, text)).collect());
}
