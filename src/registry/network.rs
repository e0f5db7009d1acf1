//! What a manifest asks of the network, under its two names.

use crate::egress::covers;
use crate::model::{Code, Error, NetworkRule};

use super::manifest::Manifest;

impl Manifest {
    /// Where it asks to connect to; `networkEnabled` is OmniRoute's word for everywhere.
    pub(super) fn network(&self) -> Vec<NetworkRule> {
        let everywhere = self.network_enabled == Some(true) && self.grants.network.is_empty();
        if everywhere { vec![NetworkRule::public()] } else { self.grants.network.clone() }
    }

    /// Refuses two words that say two things.
    pub(super) fn require_one_word_on_network(&self) -> Result<(), Error> {
        let rules = &self.grants.network;
        let differ = match self.network_enabled {
            None => false,
            Some(true) => !rules.is_empty() && *rules != [NetworkRule::public()],
            Some(false) => !rules.is_empty(),
        };
        let detail = "says something else than grants.network; leave it out";
        if differ { Err(Error::at(Code::InvalidManifest, "/networkEnabled", detail)) } else { Ok(()) }
    }
}

/// What to say of a rule that the registering key does not grant whole.
pub(super) fn beyond(ceilings: &[NetworkRule], rule: &NetworkRule) -> Option<String> {
    let is_covered = ceilings.iter().any(|ceiling| covers(ceiling, rule));
    (!is_covered).then(|| format!("grants.network {rule}: the ceilings of this key do not allow all of it"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Digest, Limits};

    fn check(text: &str) -> Result<Digest, Error> {
        let manifest = Manifest::parse(text)?;
        Ok(manifest.check(manifest.check_alone()?, Limits::DEFAULT)?.digest)
    }

    #[test]
    fn what_it_asks_of_the_network_is_part_of_what_never_changes() {
        let digest = |rest: &str| check(&format!(r#"{{"name":"a","version":"1.0.0"{rest}}}"#)).unwrap();
        let none = digest("");
        assert_eq!(none, digest(r#","networkEnabled":false,"grants":{"network":[]}"#));
        let public = digest(r#","grants":{"network":["public"]}"#);
        assert!(none != public && public == digest(r#","networkEnabled":true"#));
        assert_ne!(public, digest(r#","grants":{"network":["https://a.example"]}"#));
        for word in ["true", "false"] {
            let text = format!(
                r#"{{"name":"a","version":"1.0.0","networkEnabled":{word},"grants":{{"network":["https://a.example"]}}}}"#
            );
            assert_eq!(check(&text).unwrap_err().fields[0].pointer, "/networkEnabled");
        }
    }
}
