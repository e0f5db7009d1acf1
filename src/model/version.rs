//! Comparing versions (SemVer 2.0) that come as text.

use std::cmp::Ordering;

use semver::Version;

use super::{Code, Error, VersionSelector};

/// Whether `version` is in `range`, such as `^1.2` or `>=1.2 <2`; an exact version is a range too.
///
/// # Errors
///
/// `malformed` if `version` is no version or `range` no range. `latest` and aliases are none:
/// what they mean depends on which versions there are.
///
/// ```
/// use skillvisor::satisfies;
///
/// assert!(satisfies("1.4.0", "^1.2")?);
/// assert!(!satisfies("2.0.0-rc.1", ">=1.2 <2")?);
/// assert!(satisfies("1.4.0", "latest").is_err());
/// # Ok::<(), skillvisor::Error>(())
/// ```
pub fn satisfies(version: &str, range: &str) -> Result<bool, Error> {
    let version = parse(version)?;
    match range.parse()? {
        VersionSelector::Exact(exact) => Ok(version == exact),
        VersionSelector::Range(range) => Ok(range.matches(&version)),
        VersionSelector::Latest | VersionSelector::Alias(_) => {
            let detail = "`latest` and aliases are no ranges; resolve them against a skill";
            Err(Error::new(Code::Malformed, detail))
        }
    }
}

/// Which of two versions comes first. Build metadata does not count (SemVer 2.0, point 10).
///
/// # Errors
///
/// `malformed` if one of them is no version.
///
/// ```
/// use std::cmp::Ordering;
///
/// use skillvisor::compare_versions;
///
/// assert_eq!(compare_versions("1.10.0", "1.9.0")?, Ordering::Greater);
/// assert_eq!(compare_versions("1.0.0-rc.1", "1.0.0")?, Ordering::Less);
/// assert_eq!(compare_versions("1.0.0+a", "1.0.0+b")?, Ordering::Equal);
/// # Ok::<(), skillvisor::Error>(())
/// ```
pub fn compare_versions(a: &str, b: &str) -> Result<Ordering, Error> {
    Ok(parse(a)?.cmp_precedence(&parse(b)?))
}

fn parse(text: &str) -> Result<Version, Error> {
    Version::parse(text.trim()).map_err(|error| {
        let shown = super::quotable(text);
        Error::new(Code::Malformed, format!("{shown:?} is not a SemVer 2.0 version: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_version_or_no_range_is_malformed() {
        for (version, range) in [("1.0", "^1"), ("x", "*"), ("1.0.0", "^^1"), ("1.0.0", "latest"), ("1.0.0", "stable")]
        {
            assert_eq!(satisfies(version, range).unwrap_err().code, Code::Malformed, "{version} {range}");
        }
        assert_eq!(compare_versions("1.0.0", "").unwrap_err().code, Code::Malformed);
    }
}
