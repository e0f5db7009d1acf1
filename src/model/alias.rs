//! Words that stand for a version of a skill and can be moved: `name@stable`.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{Code, Error, VersionSelector, quotable};

/// A word for a version: 1 to 64 of `a-z 0-9 -`, a letter first, and nothing that means a
/// version, a range or `latest` already.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Alias(Arc<str>);

impl Alias {
    /// The word.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Alias {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.parse::<VersionSelector>() {
            Ok(VersionSelector::Alias(word)) if word == text => Ok(Self(word.into())),
            Ok(_) => {
                let detail = format!("`{}` means something behind a name already; choose another", quotable(text));
                Err(Error::new(Code::ReservedName, detail))
            }
            Err(_) => {
                let detail = format!("alias {:?} must have 1 to 64 of a-z, 0-9 and -, a letter first", quotable(text));
                Err(Error::new(Code::Malformed, detail))
            }
        }
    }
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// It is ordered and compared as its text is.
impl Borrow<str> for Alias {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_is_a_word_that_means_nothing_else() {
        for good in ["stable", "v1", "a", "blue-green-2", "latests"] {
            assert_eq!(good.parse::<Alias>().unwrap().to_string(), good);
        }
        for taken in ["latest", "1", "1.2.3", "^1", "*", "x", " stable", ">=1 <2"] {
            assert_eq!(taken.parse::<Alias>().unwrap_err().code, Code::ReservedName, "{taken}");
        }
        for bad in ["", "Stable", "1a", "a_b", "a@b", "-a", "a/b", &"a".repeat(65)] {
            assert_eq!(bad.parse::<Alias>().unwrap_err().code, Code::Malformed, "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_an_alias_is_read_as_one_behind_a_name(text in "[a-zA-Z0-9.*^~ -]{0,12}") {
            if let Ok(alias) = text.parse::<Alias>() {
                proptest::prop_assert_eq!(text.parse::<VersionSelector>().unwrap(), VersionSelector::Alias(alias.to_string()));
            }
        }
    }
}
