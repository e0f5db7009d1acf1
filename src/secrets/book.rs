//! All secrets as they are on the disk, sealed, in memory too: a run that uses some waits for no
//! disk.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::RwLock;

use crate::model::{OwnerId, SecretName};
use crate::store::SecretRecord;

/// The secrets of each owner, by name.
#[derive(Default)]
pub(super) struct Book(RwLock<HashMap<OwnerId, BTreeMap<SecretName, Arc<SecretRecord>>>>);

impl Book {
    pub(super) fn of(records: Vec<SecretRecord>) -> Self {
        let book = Self::default();
        records.into_iter().for_each(|record| book.put(record));
        book
    }

    /// One secret.
    pub(super) fn find(&self, owner: &OwnerId, name: &SecretName) -> Option<Arc<SecretRecord>> {
        self.0.read().get(owner)?.get(name).cloned()
    }

    /// All of one owner's.
    pub(super) fn of_owner(&self, owner: &OwnerId) -> Vec<SecretRecord> {
        let all = self.0.read();
        all.get(owner).into_iter().flat_map(BTreeMap::values).map(|record| SecretRecord::clone(record)).collect()
    }

    /// Enters what was written to the disk, in place of one of the same owner and name.
    pub(super) fn put(&self, record: SecretRecord) {
        let mut all = self.0.write();
        all.entry(record.owner.clone()).or_default().insert(record.name.clone(), Arc::new(record));
    }

    /// Strikes out all of one owner's.
    pub(super) fn remove_owner(&self, owner: &OwnerId) {
        self.0.write().remove(owner);
    }

    /// Strikes out what was removed from the disk.
    pub(super) fn remove(&self, owner: &OwnerId, name: &SecretName) {
        let mut all = self.0.write();
        if let Some(own) = all.get_mut(owner) {
            own.remove(name);
            if own.is_empty() {
                all.remove(owner);
            }
        }
    }
}
