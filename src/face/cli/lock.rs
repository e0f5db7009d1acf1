//! `skills.lock`: what was installed from where, so that the same can be installed again.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::exit::Failure;
use super::value;

/// What stands above what a program wrote.
const HEAD: &str = "\
# What was installed from where. Written by `skillvisor install --lock`, which installs the same
# again and refuses anything else; `--update` takes what is there now.
";
/// The version of the form.
const VERSION: u32 = 1;

/// A lock file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lock {
    version: u32,
    #[serde(default, rename = "skill")]
    pub(super) skills: Vec<Locked>,
}

/// One skill, as it was installed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Locked {
    /// Its name and version here.
    pub(super) name: String,
    pub(super) version: String,
    /// From where.
    pub(super) source: String,
    /// The folder, and the branch, tag or commit, that were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) skill: Option<String>,
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub(super) reference: Option<String>,
    /// The digest of the registry's manifest, if it came from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest_digest: Option<String>,
    /// The digest of its component.
    pub(super) digest: String,
    /// The digest of its `SKILL.md`, if it came as a folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) skill_md_digest: Option<String>,
}

impl Locked {
    /// What a skill's object says; nothing if it was not installed.
    pub(super) fn of(skill: &Value) -> Option<Self> {
        let source = skill.get("source").filter(|source| source.is_object())?;
        let text = |name| source.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            name: value::text(skill, "name"),
            version: value::text(skill, "version"),
            source: value::text(source, "from"),
            skill: text("skill"),
            reference: text("ref"),
            manifest_digest: text("manifestDigest"),
            digest: value::text(source, "digest"),
            skill_md_digest: text("skillMdDigest"),
        })
    }
}

impl Locked {
    /// All that says where it is to be had.
    fn place(&self) -> (&str, Option<&str>, Option<&str>) {
        (&self.source, self.skill.as_deref(), self.reference.as_deref())
    }
}

impl Lock {
    /// Reads a file; one that is not there is empty.
    pub(super) fn read(file: &Path) -> Result<Self, Failure> {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self { version: VERSION, skills: Vec::new() });
            }
            Err(error) => return Err(Failure::unreadable(file, &error)),
        };
        let wrong = |why: String| Failure::usage(format!("{} is no lock file: {why}", file.display()));
        let lock: Self = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if lock.version == VERSION { Ok(lock) } else { Err(wrong(format!("its version is {}", lock.version))) }
    }

    /// What was installed from `source`, and must come from there again.
    pub(super) fn of_source(&self, source: &str, skill: Option<&str>, reference: Option<&str>) -> Option<&Locked> {
        let wanted = (source, skill, reference);
        self.skills.iter().find(|locked| locked.place() == wanted)
    }

    /// Takes a skill in, in the place of what came from the same source under the same name.
    pub(super) fn put(&mut self, new: Locked) {
        self.skills.retain(|old| old.place() != new.place() || old.name != new.name);
        self.skills.push(new);
        self.skills.sort_by(|a, b| (&a.name, &a.version, &a.source).cmp(&(&b.name, &b.version, &b.source)));
    }

    /// Writes the file, whole or not at all.
    pub(super) fn write(&self, file: &Path) -> Result<(), Failure> {
        let text = toml::to_string(self).map_err(|error| Failure::internal(error.to_string()))?;
        let mut part = file.as_os_str().to_owned();
        part.push(".part");
        let written = fs::write(&part, format!("{HEAD}{text}")).and_then(|()| fs::rename(&part, file));
        written.map_err(|error| Failure::usage(format!("cannot write {}: {error}", file.display())))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lock_file_reads_back_and_knows_one_digest_for_each_source() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("skills.lock");
        let skill = |version: &str, digest: &str| json!({ "name": "a", "version": version, "source": { "kind": "oci", "from": "r.example/a:1", "digest": digest } });
        let mut lock = Lock::read(&file).unwrap();
        lock.put(Locked::of(&skill("1.0.0", "sha256:1")).unwrap());
        lock.put(Locked::of(&skill("1.1.0", "sha256:2")).unwrap());
        assert_eq!(Locked::of(&json!({ "name": "a", "source": null })), None);
        lock.write(&file).unwrap();
        let lock = Lock::read(&file).unwrap();
        let found = lock.of_source("r.example/a:1", None, None).unwrap();
        assert_eq!((lock.skills.len(), found.digest.as_str()), (1, "sha256:2"));
        for bad in ["version = 2", "version = 1\nx = 1", "[[skill]]"] {
            fs::write(&file, bad).unwrap();
            assert!(Lock::read(&file).is_err(), "{bad}");
        }
    }
}
