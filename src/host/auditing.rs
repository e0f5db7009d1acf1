//! The audit for who may see all of it.

use crate::model::{Caller, Error, Scope};
use crate::store::{AuditExport, AuditPublicKey};

use super::Host;

impl Host {
    /// Begins an export of the audit: lines of JSON, from the last checkpoint before `since` on, which is in
    /// milliseconds since the Unix epoch.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `admin`; as the store gives them.
    pub async fn export_audit(&self, caller: &Caller, since: Option<i64>) -> Result<AuditExport, Error> {
        caller.key.require(Scope::Admin)?;
        self.store.audit_export(since, self.clock.now_ms()).await
    }

    /// What exports are checked with ([`verify_audit`](crate::verify_audit)).
    pub fn audit_key(&self) -> AuditPublicKey {
        self.store.audit_key()
    }
}
