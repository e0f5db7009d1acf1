//! How callers name a skill: `name`, `name@version-or-range`, `name@version#function`, or its id.

use std::str::FromStr;

use semver::{Version, VersionReq};

use super::{Code, Error, SkillId, SkillName, quotable};

/// Which version of a skill is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionSelector {
    /// The highest version that is not a pre-release; the highest pre-release if there is nothing else.
    Latest,
    /// This version.
    Exact(Version),
    /// The highest version in this range. Pre-releases only where the range names one.
    Range(VersionReq),
    /// Whatever version the alias points to.
    Alias(String),
}

/// What the catalogue's skills were called by OmniRoute, and are called here. No skill's name has a
/// `_`, so that an old name is never another's.
const OLD_NAMES: &[(&str, &str)] = &[
    ("file_delete", "file-delete"),
    ("file_list", "file-list"),
    ("file_read", "file-read"),
    ("file_search", "file-search"),
    ("file_write", "file-write"),
    ("http_request", "http-request"),
    ("web_fetch", "web-fetch"),
];

/// The name that is meant by one that may be old.
pub fn known_as(name: &str) -> &str {
    OLD_NAMES.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
}

/// A skill as a caller names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillRef {
    /// By id.
    Id(SkillId),
    /// A function of the skill with this id.
    FunctionOf(SkillId, String),
    /// By name.
    Name {
        /// The skill's name.
        name: SkillName,
        /// Which version.
        version: VersionSelector,
        /// Which function; none where the skill has one only.
        function: Option<String>,
    },
}

impl SkillRef {
    /// The function that is named.
    pub fn function(&self) -> Option<&str> {
        match self {
            Self::Id(_) => None,
            Self::FunctionOf(_, function) => Some(function),
            Self::Name { function, .. } => function.as_deref(),
        }
    }
}

impl FromStr for SkillRef {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (address, function) = match text.split_once('#') {
            Some((address, function)) => (address, Some(function.to_owned())),
            None => (text, None),
        };
        // Names are shorter, or longer, or have no hyphens there: no error is made for most of them.
        if address.len() == SkillId::LENGTH
            && let Ok(id) = address.parse()
        {
            return Ok(function.map_or(Self::Id(id), |function| Self::FunctionOf(id, function)));
        }
        let (name, version) = match address.split_once('@') {
            Some((name, version)) => (name, version.parse()?),
            None => (address, VersionSelector::Latest),
        };
        // A name that cannot exist is a name that does not exist.
        let name = known_as(name).parse().map_err(|_| Error::not_found("skill"))?;
        Ok(Self::Name { name, version, function })
    }
}

impl FromStr for VersionSelector {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        if text == "latest" {
            return Ok(Self::Latest);
        }
        if let Ok(version) = Version::parse(text) {
            return Ok(Self::Exact(version));
        }
        if let Ok(range) = VersionReq::parse(&commas(text)) {
            return Ok(Self::Range(range));
        }
        let starts = text.starts_with(|c: char| c.is_ascii_lowercase());
        if starts && text.len() <= 64 && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        {
            return Ok(Self::Alias(text.to_owned()));
        }
        let shown = quotable(text);
        Err(Error::new(Code::Malformed, format!("{shown:?} is not a version, a range such as ^1.2, or an alias")))
    }
}

/// Writes the commas that other ecosystems leave out: `>=1.2 <2` is `>=1.2, <2`.
fn commas(range: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for word in range.split([' ', ',']).filter(|word| !word.is_empty()) {
        match parts.last_mut() {
            // An operator that stands alone belongs to the number behind it.
            Some(last) if last.bytes().all(|b| b"<>=~^".contains(&b)) => last.push_str(word),
            _ => parts.push(word.to_owned()),
        }
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(text: &str) -> VersionSelector {
        text.parse::<VersionSelector>().unwrap()
    }

    #[test]
    fn versions_ranges_aliases_and_latest_are_told_apart() {
        assert_eq!(selector("latest"), VersionSelector::Latest);
        assert!(matches!(selector("1.2.3"), VersionSelector::Exact(_)));
        assert!(matches!(selector("1.2.3-rc.1+b"), VersionSelector::Exact(_)));
        for range in ["^1", "~1.2", ">=1 <2", ">= 1.2, < 2", "1", "1.2", "*", "=1.2.3"] {
            assert!(matches!(selector(range), VersionSelector::Range(_)), "{range}");
        }
        assert_eq!(selector("stable"), VersionSelector::Alias("stable".into()));
        for bad in ["", "1.2.3.4", "^^1", "../1", "1 || 2", "Stable", "^1.x.y"] {
            assert!(bad.parse::<VersionSelector>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_that_cannot_exist_is_not_found() {
        for bad in ["../etc", "A", "a b", "", "@1"] {
            assert_eq!(bad.parse::<SkillRef>().unwrap_err().code, Code::NotFound, "{bad}");
        }
    }

    #[test]
    fn a_function_may_be_named_behind_a_name_a_version_and_an_id() {
        let id = SkillId::generate();
        for address in ["a".to_owned(), "a@^1".to_owned(), id.to_string()] {
            let named: SkillRef = format!("{address}#b-c").parse().unwrap();
            assert_eq!(named.function(), Some("b-c"), "{address}");
            assert_eq!(address.parse::<SkillRef>().unwrap().function(), None);
        }
        assert_eq!(format!("{id}#f").parse::<SkillRef>().unwrap(), SkillRef::FunctionOf(id, "f".into()));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}") {
            let _ = text.parse::<SkillRef>();
        }
    }
}
