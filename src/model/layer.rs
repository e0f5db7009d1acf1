//! Whose word keeps a run from something, and what would change it.

use super::OwnerId;

/// Whose word keeps a run from something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The manifest of the skill does not ask for it.
    Manifest,
    /// The ceilings of the key that registered the skill, as they were then.
    Registrar,
    /// The ceilings of a key that registered a skill which called this one.
    Parent,
    /// The ceilings of the key that calls.
    Caller,
    /// The request for the run.
    Request,
}

/// A skill that runs, and for whom: whose keys a denial speaks of.
#[derive(Clone, Copy, Debug)]
pub struct Parties<'a> {
    /// The skill as `name@version`.
    pub skill: &'a str,
    /// Whose skill it is.
    pub skill_owner: &'a OwnerId,
    /// Whose run it is.
    pub owner: &'a OwnerId,
}

impl Layer {
    /// What a key's ceilings lacked, and the command that makes a key which has it; none where it was
    /// no key that stood against it. The ceiling is named as in `ceilings.…`, and `flag` is what opens
    /// it. What follows the command is a comment to a shell.
    pub fn wider_key(
        self,
        ceiling: &str,
        (value, flag): (&str, &str),
        parties: &Parties<'_>,
    ) -> Option<(String, String)> {
        let Parties { skill, skill_owner, owner } = *parties;
        // A skill of `system` may be called by one of its own or by one of the caller's.
        let above = if skill_owner.is_system() { "OWNER" } else { skill_owner.as_str() };
        let (whose, owner, then) = match self {
            Self::Registrar => {
                ("the registering key", skill_owner.as_str(), "push the skill as a new version with that key")
            }
            Self::Parent => (
                "the key that registered a calling skill",
                above,
                "push the skills that call it as new versions with that key",
            ),
            Self::Caller => ("the calling key", owner.as_str(), "call with that key"),
            Self::Manifest | Self::Request => return None,
        };
        let name = skill.split('@').next().unwrap_or_default();
        let fix = format!("skillvisor keys create {name} --owner {owner} {flag}  # and {then}");
        Some((format!("ceilings.{ceiling} of {whose}: {value}"), fix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_that_is_asked_for_is_of_the_owner_whose_key_was_too_narrow() {
        let (ada, system) = ("ada".parse().unwrap(), OwnerId::system());
        let fix = |layer: Layer, skill_owner| {
            let parties = Parties { skill: "fetch@1.0.0", skill_owner, owner: &ada };
            layer.wider_key("secrets", ("TOKEN", "--secret TOKEN"), &parties)
        };
        let (grant, caller) = fix(Layer::Caller, &system).unwrap();
        assert_eq!(grant, "ceilings.secrets of the calling key: TOKEN");
        assert_eq!(caller, "skillvisor keys create fetch --owner ada --secret TOKEN  # and call with that key");
        assert!(fix(Layer::Registrar, &system).unwrap().1.contains("--owner system"));
        assert!(fix(Layer::Parent, &ada).unwrap().1.contains("--owner ada"));
        assert_eq!((fix(Layer::Manifest, &ada), fix(Layer::Request, &ada)), (None, None));
    }
}
