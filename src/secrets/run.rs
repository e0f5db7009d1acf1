//! Which secrets a run gets: what the manifest asks for, under the ceilings of both keys.

use std::sync::Arc;

use crate::egress::{Credential, Credentials, Place, Withheld};
use crate::model::{Digest, Error, Key, Layer, OwnerId, SecretGrant, SecretName, Skill};
use crate::store::SecretRecord;

use super::{Secrets, key, seal};

impl Secrets {
    /// The secrets of the caller's owner that a run of `skill` may use, opened; and those that it
    /// asks for and has not. For a global skill, those that `system` shares come after the owner's.
    ///
    /// # Errors
    ///
    /// `internal` if one does not open: its row was changed by somebody else than this host.
    pub fn for_run(&self, caller: &Key, skill: &Skill, above: &[Option<Vec<String>>]) -> Result<Credentials, Error> {
        let ceiling = caller.max_secrets();
        let (mut usable, mut withheld, mut sealings) = (Vec::new(), Vec::new(), Vec::new());
        for grant in &skill.grants.secrets {
            let found = self.find(&caller.owner, grant.name(), &skill.owner);
            let layer = [(&skill.frozen_secrets, Layer::Registrar), (&ceiling, Layer::Caller)]
                .into_iter()
                .chain(above.iter().map(|ceiling| (ceiling, Layer::Parent)))
                .find_map(|(ceiling, layer)| (!grant.is_within(ceiling.as_deref())).then_some(layer));
            match (found, layer) {
                (Some(record), None) => {
                    usable.push(self.opened(&record, grant)?);
                    sealings.push(record);
                }
                (found, layer) => withheld.push(Withheld {
                    name: grant.name().clone(),
                    origin: found.map(|record| record.origin.clone()),
                    only: grant.only().cloned(),
                    layer,
                }),
            }
        }
        let credentials = Credentials::new(usable, withheld);
        // Only an instance that is kept has to be told apart from one with other secrets.
        Ok(if skill.is_reused() { credentials.sealed_as(sealing(&sealings)) } else { credentials })
    }

    fn find(&self, owner: &OwnerId, name: &SecretName, skill_owner: &OwnerId) -> Option<Arc<SecretRecord>> {
        let own = self.book.find(owner, name);
        if own.is_some() || !skill_owner.is_system() || owner.is_system() {
            return own;
        }
        self.book.find(&OwnerId::system(), name).filter(|record| record.shared)
    }

    fn opened(&self, record: &SecretRecord, grant: &SecretGrant) -> Result<Credential, Error> {
        let key = self.key.read().clone().ok_or_else(|| key::lost("is not there"))?;
        Ok(Credential {
            name: record.name.clone(),
            value: seal::open(&key, record)?,
            place: Place::parse(&record.origin, &record.header, &record.prefix).map_err(Error::internal)?,
            only: grant.only().cloned(),
        })
    }
}

/// What is another one once any of these is stored anew: each sealing has its own nonce.
fn sealing(records: &[Arc<SecretRecord>]) -> Digest {
    let each = |record: &Arc<SecretRecord>| {
        let SecretRecord { owner, name, version, nonce, .. } = &**record;
        format!("{:?}", (owner, name, version, nonce))
    };
    Digest::of(records.iter().map(each).collect::<Vec<_>>().join("\n").as_bytes())
}
