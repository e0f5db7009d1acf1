//! Skills that are left out, as an operator says it.

use std::collections::BTreeSet;
use std::str::FromStr;

use super::{Error, SkillName};

/// Which skills of the catalogue a host goes without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disabled {
    /// All that are built in.
    All,
    /// Those of these names, also where the operator's directory has them.
    Names(BTreeSet<SkillName>),
}

impl Default for Disabled {
    fn default() -> Self {
        Self::Names(BTreeSet::new())
    }
}

impl Disabled {
    /// Whether it has this name in it.
    pub fn names(&self, name: &SkillName) -> bool {
        matches!(self, Self::Names(names) if names.contains(name))
    }
}

impl FromStr for Disabled {
    type Err = Error;

    /// Reads `none`, `all`, or names with commas between.
    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "none" => Ok(Self::default()),
            "all" => Ok(Self::All),
            names => names.split(',').map(|name| name.trim().parse()).collect::<Result<_, _>>().map(Self::Names),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_all_or_some_by_their_names() {
        let read = |text: &str| text.parse::<Disabled>();
        assert_eq!((read("none").unwrap(), read("all").unwrap()), (Disabled::default(), Disabled::All));
        let some = read("web-fetch, hello").unwrap();
        assert!(some.names(&"hello".parse().unwrap()) && !some.names(&"file-read".parse().unwrap()));
        for bad in ["", "a,", "A", "file_read", "all,hello,*"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
