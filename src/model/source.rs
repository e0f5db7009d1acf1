//! Where skills come from, in words: references, and the operator's rules about them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Code, Digest, Error, NetworkRule, quotable};

/// Longest reference, in bytes.
const MAX_SOURCE: usize = 2048;
/// Longest name of a repository and of a tag, in bytes (OCI distribution specification).
const MAX_REPOSITORY: usize = 255;
const MAX_TAG: usize = 128;

/// A source as somebody names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file at a URL.
    Url(String),
    /// An artefact in a registry.
    Oci(OciReference),
    /// A folder in a repository that a git host serves: `owner/repo`.
    Git(String),
}

/// Which folder of a repository, and at which of its states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitPart {
    /// The folder's name; the only one with a `SKILL.md` if nothing is said.
    pub skill: Option<String>,
    /// A branch, a tag or a commit; what the host shows first if nothing is said.
    pub reference: Option<String>,
}

impl GitPart {
    /// Reads both.
    ///
    /// # Errors
    ///
    /// `malformed` if they are no names.
    pub fn new(skill: Option<String>, reference: Option<String>) -> Result<Self, Error> {
        let word = |word: &str| {
            let plain = |part: &str| !part.is_empty() && !part.starts_with(['.', '-']) && part.bytes().all(is_git_byte);
            word.len() <= MAX_REPOSITORY && word.split('/').all(plain) && !word.contains("..")
        };
        if skill.as_deref().is_some_and(|skill| skill.contains('/') || !word(skill)) {
            return Err(Error::at(Code::Malformed, "/skill", "is not the name of a folder"));
        }
        if reference.as_deref().is_some_and(|reference| !word(reference)) {
            return Err(Error::at(Code::Malformed, "/ref", "is not the name of a branch, a tag or a commit"));
        }
        Ok(Self { skill, reference })
    }
}

/// `[oci://]registry/repository[:tag][@sha256:…]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OciReference {
    /// `host[:port]`.
    pub registry: String,
    /// The name there, such as `team/hello`.
    pub repository: String,
    /// `latest` if nothing is said.
    pub tag: String,
    /// The digest of the manifest, which goes before the tag.
    pub digest: Option<Digest>,
}

impl Source {
    /// What it is, in one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Url(_) => "url",
            Self::Oci(_) => "oci",
            Self::Git(_) => "git",
        }
    }
}

impl FromStr for Source {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text.len() > MAX_SOURCE || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("is longer than 2048 bytes or has a character that is not visible ASCII"));
        }
        let is = |scheme: &str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        if is("https://") || is("http://") {
            return Ok(Self::Url(text.to_owned()));
        }
        if let Some(rest) = text.strip_prefix("oci://") {
            return rest.parse().map(Self::Oci);
        }
        if text.contains("://") {
            return Err(wrong("has a scheme that is not https or oci"));
        }
        let (first, rest) = text.split_once('/').ok_or_else(|| wrong(FORMS))?;
        if first.contains(['.', ':']) || first == "localhost" {
            return text.parse().map(Self::Oci);
        }
        let word = |word: &str| !word.is_empty() && word.bytes().all(is_git_byte) && !word.starts_with(['.', '-']);
        if word(first) && word(rest) { Ok(Self::Git(text.to_owned())) } else { Err(wrong(FORMS)) }
    }
}

const FORMS: &str = "is none of https://…, [oci://]registry/repository[:tag|@sha256:…] and owner/repo";

fn is_git_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // What stands behind the path may be a signature, and is nobody else's business.
            Self::Url(url) => f.write_str(url.split(['?', '#']).next().unwrap_or_default()),
            Self::Oci(reference) => reference.fmt(f),
            Self::Git(name) => f.write_str(name),
        }
    }
}

impl FromStr for OciReference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (rest, digest) = match text.split_once('@') {
            None => (text, None),
            Some((rest, digest)) => {
                let digest = digest.parse().map_err(|_| wrong("has a digest that is not sha256: and 64 digits"))?;
                (rest, Some(digest))
            }
        };
        let (registry, rest) = rest.split_once('/').ok_or_else(|| wrong("has no repository behind its registry"))?;
        let (repository, tag) = rest.rsplit_once(':').unwrap_or((rest, "latest"));
        if !is_registry(registry) {
            return Err(wrong("has a registry that is not host[:port] in lower case"));
        }
        if !is_repository(repository) {
            return Err(wrong("has a repository that is not names in lower case with slashes between"));
        }
        if !is_tag(tag) {
            return Err(wrong("has a tag that is not letters, digits, `_`, `.` and `-`, at most 128"));
        }
        let hub = registry == "docker.io" && !repository.contains('/');
        let repository = if hub { format!("library/{repository}") } else { repository.to_owned() };
        Ok(Self { registry: registry.to_owned(), repository, tag: tag.to_owned(), digest })
    }
}

impl fmt::Display for OciReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.registry, self.repository, self.tag)?;
        self.digest.map_or(Ok(()), |digest| write!(f, "@{digest}"))
    }
}

fn is_registry(text: &str) -> bool {
    let byte = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-._:[]".contains(&b);
    let first = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'[';
    text.len() <= MAX_REPOSITORY && text.bytes().next().is_some_and(first) && text.bytes().all(byte)
}

fn is_repository(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let byte = |b: u8| plain(b) || b"-._".contains(&b);
    // No name begins or ends with a dot, and so none is a step up.
    let name = |name: &str| {
        let ends = name.bytes().next().is_some_and(plain) && name.bytes().last().is_some_and(plain);
        ends && name.bytes().all(byte) && !name.contains("..")
    };
    text.len() <= MAX_REPOSITORY && text.split('/').all(name)
}

fn is_tag(text: &str) -> bool {
    let byte = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    (1..=MAX_TAG).contains(&text.len()) && text.bytes().all(byte) && !text.starts_with(['.', '-'])
}

fn wrong(why: &str) -> Error {
    Error::at(Code::Malformed, "/source", format!("the source {why}"))
}

/// A source that the operator lets anybody install from: `https://host[:port][/path]`,
/// `oci://registry/repository` or `owner/repo`, each of which may end in `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceRule {
    /// What may be fetched, redirects' targets among it.
    Url(NetworkRule),
    /// Registry and repository.
    Oci(String),
    /// Owner and repository at the git host.
    Git(String),
}

impl FromStr for SourceRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text.starts_with("https://") || text.starts_with("http://") {
            return text.parse().map(Self::Url);
        }
        let (start, is_open) = text.strip_suffix('*').map_or((text, false), |start| (start, true));
        // A name that may go on stands for one that does.
        let whole = if is_open { format!("{start}a") } else { text.to_owned() };
        let rule = match whole.parse()? {
            Source::Oci(reference) if whole.contains('@') || reference.repository.is_empty() => None,
            Source::Oci(_) if start.trim_start_matches("oci://").split_once('/').is_none() => None,
            Source::Oci(_) => Some(Self::Oci(text.trim_start_matches("oci://").to_owned())),
            Source::Git(_) if start.contains('/') => Some(Self::Git(text.to_owned())),
            Source::Git(_) | Source::Url(_) => None,
        };
        rule.ok_or_else(|| Error::new(Code::Malformed, format!("{} is no source", quotable(text))))
    }
}

impl SourceRule {
    /// Whether it names this source.
    pub fn names(&self, source: &Source) -> bool {
        let fits = |rule: &str, name: &str| match rule.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => rule == name,
        };
        match (self, source) {
            (Self::Oci(rule), Source::Oci(reference)) => {
                fits(rule, &format!("{}/{}", reference.registry, reference.repository))
            }
            (Self::Git(rule), Source::Git(name)) => fits(rule, name),
            // What it allows is matched request by request.
            (Self::Url(_), _) | (Self::Oci(_) | Self::Git(_), _) => false,
        }
    }
}

/// Where a skill was installed from, as it is kept with the skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillSource {
    /// `url`, `oci` or `git`.
    pub kind: String,
    /// The source as it was named, without a URL's query.
    pub from: String,
    /// The digest of the manifest that the registry had under that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_digest: Option<Digest>,
    /// The folder of the repository that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// The branch, tag or commit that was asked for.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The digest of the component.
    pub digest: Digest,
    /// The digest of the `SKILL.md`, if it came as a folder: grants and instructions are in there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill_md_digest: Option<Digest>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_url_an_artefact_or_a_repository() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        for (text, kind, shown) in [
            ("https://a.example/x.wasm?sig=secret", "url", "https://a.example/x.wasm"),
            ("ghcr.io/acme/hello", "oci", "ghcr.io/acme/hello:latest"),
            ("oci://localhost:5000/hello:1.0", "oci", "localhost:5000/hello:1.0"),
            ("oci://registry/a/b", "oci", "registry/a/b:latest"),
            ("docker.io/hello", "oci", "docker.io/library/hello:latest"),
            ("acme/skills", "git", "acme/skills"),
        ] {
            let source: Source = text.parse().unwrap();
            assert_eq!((source.kind(), source.to_string().as_str()), (kind, shown), "{text}");
        }
        let pinned: OciReference = format!("a.example/b@{digest}").parse().unwrap();
        assert_eq!(pinned.digest.unwrap().to_string(), digest);
        for bad in [
            "",
            "hello",
            "a/b/c",
            "file:///etc/passwd",
            "ftp://a/b",
            "a.example/../b",
            "a.example/b/../c",
            "a.example/B",
            "a.example/b:",
            "a.example/b@sha256:1",
            "a.example/b@md5:1",
            "a.example/",
            "../a",
            "-o/x",
            "a b/c",
            "user@a.example/b",
            "a.example/b..c",
            "oci://a",
            "a.example/b?x",
        ] {
            assert_eq!(bad.parse::<Source>().unwrap_err().code, Code::Malformed, "{bad}");
        }
    }

    #[test]
    fn a_rule_names_a_source_or_all_that_begin_like_it() {
        let names = |rule: &str, source: &str| rule.parse::<SourceRule>().unwrap().names(&source.parse().unwrap());
        assert!(names("oci://ghcr.io/acme/*", "ghcr.io/acme/hello:1") && names("ghcr.io/acme/x", "ghcr.io/acme/x"));
        assert!(names("acme/*", "acme/skills") && names("acme/skills", "acme/skills"));
        assert!(!names("oci://ghcr.io/acme/*", "ghcr.io/acmexx/hello") && !names("ghcr.io/acme/x", "ghcr.io/acme/xy"));
        assert!(!names("acme/*", "acm/e") && !names("acme/skills", "acme/skills2"));
        for bad in ["", "*", "oci://*", "oci://ghcr.io*", "ghcr.io/a@*", "acm*", "ftp://x", "https://*/"] {
            assert!(bad.parse::<SourceRule>().is_err(), "{bad}");
        }
    }
}
