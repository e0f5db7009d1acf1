//! Which secrets a manifest asks for.

use crate::model::{Code, Error, SecretGrant, Skill};

use super::Registry;

/// Most secrets that one skill asks for: each is looked up before each run.
const MAX_SECRETS: usize = 16;

/// Refuses more than a run looks up.
pub(super) fn require_few(secrets: &[SecretGrant]) -> Result<(), Error> {
    if secrets.len() <= MAX_SECRETS {
        return Ok(());
    }
    Err(Error::at(Code::InvalidManifest, "/grants/secrets", format!("has more than {MAX_SECRETS} secrets")))
}

/// What to say of each secret that the registering key does not grant; none means that it may all.
pub(super) fn beyond(ceiling: Option<&[String]>, grants: &[SecretGrant]) -> Vec<String> {
    let said =
        |grant: &SecretGrant| format!("grants.secrets {}: the ceilings of this key do not allow it", grant.name());
    grants.iter().filter(|grant| !grant.is_within(ceiling)).map(said).collect()
}

impl Registry {
    /// What to say of each secret that a skill asks for and its owner does not have yet. Global skills
    /// are given those of whoever runs them.
    pub(super) async fn absent_secrets(&self, skill: &Skill) -> Result<Vec<String>, Error> {
        let asked = &skill.grants.secrets;
        if asked.is_empty() || skill.owner.is_system() {
            return Ok(Vec::new());
        }
        let known = self.store.secret_names(skill.owner.clone()).await?;
        let said = |grant: &SecretGrant| {
            let name = grant.name();
            format!(
                "grants.secrets {name}: there was no such secret when this was registered; \
                 `skillvisor secrets set {name} --for ORIGIN --header Authorization` stores one"
            )
        };
        Ok(asked.iter().filter(|grant| !known.iter().any(|name| name == grant.name().as_str())).map(said).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::manifest::Manifest;
    use super::*;
    use crate::model::{Digest, Limits};

    fn check(secrets: &str) -> Result<Digest, Error> {
        let text = format!(r#"{{"name":"a","version":"1.0.0","grants":{{"secrets":{secrets}}}}}"#);
        let manifest = Manifest::parse(&text)?;
        Ok(manifest.check(manifest.check_alone()?, Limits::DEFAULT)?.digest)
    }

    #[test]
    fn what_it_asks_for_is_part_of_what_never_changes() {
        let digests = [
            check("[]").unwrap(),
            check(r#"["A"]"#).unwrap(),
            check(r#"["B"]"#).unwrap(),
            check(r#"[{"name":"A","for":"GET https://a.example/v1/*"}]"#).unwrap(),
        ];
        for (at, digest) in digests.iter().enumerate() {
            assert!(!digests[..at].contains(digest));
        }
    }

    #[test]
    fn what_is_no_secret_and_too_many_are_refused() {
        for bad in [r#"["a b"]"#, r#"["1A"]"#, r#"[{"name":"A","for":"a.example"}]"#, r#"[{"name":"A"}]"#, "[1]"] {
            assert_eq!(check(bad).unwrap_err().code, Code::Malformed, "{bad}");
        }
        let many: Vec<_> = (0..=MAX_SECRETS).map(|number| format!("S{number}")).collect();
        let error = check(&serde_json::to_string(&many).unwrap()).unwrap_err();
        assert_eq!((error.code, error.fields[0].pointer.as_str()), (Code::InvalidManifest, "/grants/secrets"));
        check(&serde_json::to_string(&many[1..]).unwrap()).unwrap();
    }
}
