//! What a manifest asks of the workspace, under its two names.

use crate::model::{Access, Code, Error};

use super::manifest::Manifest;

impl Manifest {
    /// How far it asks to go; `readOnly: false` is OmniRoute's word for writing.
    pub(super) fn workspace(&self) -> Access {
        if self.read_only == Some(false) { Access::Write } else { self.grants.workspace }
    }

    /// Refuses two words that say two things.
    pub(super) fn require_one_word_on_workspace(&self) -> Result<(), Error> {
        let differ = match self.read_only {
            None => false,
            Some(true) => self.grants.workspace == Access::Write,
            Some(false) => self.grants.workspace == Access::Read,
        };
        let detail = "says something else than grants.workspace; leave it out";
        if differ { Err(Error::at(Code::InvalidManifest, "/readOnly", detail)) } else { Ok(()) }
    }
}

/// What to say where the registering key does not grant all that is asked for.
pub(super) fn beyond(ceiling: Access, asked: Access) -> Option<&'static str> {
    let why = match ceiling {
        Access::None => "grants.workspace: the ceilings of this key allow none of it",
        Access::Read => "grants.workspace: the ceilings of this key allow `read` only",
        Access::Write => return None,
    };
    (asked > ceiling).then_some(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Digest, Limits};

    fn check(rest: &str) -> Result<Digest, Error> {
        let manifest = Manifest::parse(&format!(r#"{{"name":"a","version":"1.0.0"{rest}}}"#))?;
        Ok(manifest.check(manifest.check_alone()?, Limits::DEFAULT)?.digest)
    }

    #[test]
    fn what_it_asks_of_the_workspace_is_part_of_what_never_changes() {
        let none = check("").unwrap();
        assert_eq!(none, check(r#","readOnly":true,"grants":{"workspace":"none"}"#).unwrap());
        let write = check(r#","grants":{"workspace":"write"}"#).unwrap();
        let read = check(r#","grants":{"workspace":"read"}"#).unwrap();
        assert!(none != write && none != read && read != write);
        assert_eq!(write, check(r#","readOnly":false"#).unwrap());
        assert_eq!(read, check(r#","readOnly":true,"grants":{"workspace":"read"}"#).unwrap());
        for (word, grant) in [(true, "write"), (false, "read")] {
            let error = check(&format!(r#","readOnly":{word},"grants":{{"workspace":"{grant}"}}"#)).unwrap_err();
            assert_eq!((error.code, error.fields[0].pointer.as_str()), (Code::InvalidManifest, "/readOnly"));
        }
    }

    #[test]
    fn a_key_with_less_is_told_so() {
        assert!(beyond(Access::Read, Access::Write).is_some_and(|why| why.contains("`read` only")));
        assert!(beyond(Access::None, Access::Read).is_some());
        assert!(beyond(Access::Write, Access::Write).or(beyond(Access::None, Access::None)).is_none());
    }
}
