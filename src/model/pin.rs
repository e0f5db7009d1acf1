//! Other skills that a skill may call, as they were resolved when it was registered.

use semver::Version;
use serde::{Deserialize, Serialize};

use super::{SkillId, SkillName, SkillRef, VersionSelector};

/// One entry of `grants.skills`, and the version that it means for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The entry as it was written.
    pub grant: String,
    /// The version's id.
    pub id: SkillId,
    /// Its name.
    pub name: SkillName,
    /// Its number.
    pub version: Version,
}

impl Pin {
    /// Whether a guest means this one by `name`: the entry as it was written, or the skill's name.
    pub fn is_called(&self, name: &str) -> bool {
        self.grant == name || self.name.as_str() == name
    }

    /// Whether one of the ceilings, each `name` or `name@range`, allows it; none of them at all
    /// (an admin key) allows everything.
    pub fn is_within(&self, ceilings: Option<&[String]>) -> bool {
        ceilings.is_none_or(|ceilings| ceilings.iter().any(|ceiling| self.fits(ceiling)))
    }

    fn fits(&self, ceiling: &str) -> bool {
        let Ok(SkillRef::Name { name, version, function: None }) = ceiling.parse() else { return false };
        name == self.name
            && match version {
                VersionSelector::Latest => true,
                VersionSelector::Exact(exact) => exact == self.version,
                VersionSelector::Range(range) => range.matches(&self.version),
                VersionSelector::Alias(_) => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_allows_its_name_and_range_and_nothing_else() {
        let pin = Pin {
            grant: "fetch@^1".into(),
            id: SkillId::generate(),
            name: "fetch".parse().unwrap(),
            version: Version::new(1, 2, 0),
        };
        let within = |ceiling: &str| pin.is_within(Some(&[ceiling.to_owned()]));
        assert!(within("fetch") && within("fetch@^1") && within("fetch@1.2.0") && pin.is_within(None));
        for other in ["fetch@^2", "fetch@1.2.1", "fetc", "*", "", "fetch@stable", "fetch#run"] {
            assert!(!within(other), "{other}");
        }
        assert!(!pin.is_within(Some(&[])));
        assert!(pin.is_called("fetch") && pin.is_called("fetch@^1") && !pin.is_called("fetch@^2"));
    }
}
