//! Interceptors at the library's front door, and at the start.

use std::sync::Arc;

use crate::access::Access;
use crate::egress::Guard;
use crate::executor::{
    InterceptorParts, InterceptorPatch, Interceptors, NativeInterceptor, NewInterceptor, told_of_ends,
};
use crate::model::{Caller, Clock, Error, InterceptorId, InterceptorRecord};
use crate::sandbox::SandboxProvider;
use crate::secrets::Secrets;
use crate::store::Store;

use super::Host;

/// Interceptors that are set up while the host runs. Those of the program itself are given with
/// [`HostOptions::interceptors`](super::HostOptions::interceptors).
impl Host {
    /// Sets an interceptor up for the caller's owner, or for everybody; with what a webhook is signed with, which is
    /// shown this once.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `interceptors:write`; `forbidden` for everybody without `admin`; and what is
    /// wrong with it.
    pub async fn add_interceptor(
        &self,
        caller: &Caller,
        new: NewInterceptor,
    ) -> Result<(Arc<InterceptorRecord>, Option<String>), Error> {
        let (record, secret) = self.interceptors.create(caller, None, new).await?;
        Ok((record, secret.map(|secret| secret.shown().to_string())))
    }

    /// Changes an interceptor.
    ///
    /// # Errors
    ///
    /// `not_found`, and as [`Host::add_interceptor`].
    pub async fn change_interceptor(
        &self,
        caller: &Caller,
        id: InterceptorId,
        patch: InterceptorPatch,
    ) -> Result<Arc<InterceptorRecord>, Error> {
        self.interceptors.change(caller, id, patch).await
    }

    /// The interceptors that the caller may change.
    ///
    /// # Errors
    ///
    /// `insufficient_scope`.
    pub fn list_interceptors(&self, caller: &Caller) -> Result<Vec<Arc<InterceptorRecord>>, Error> {
        self.interceptors.list(caller, None)
    }

    /// Removes an interceptor.
    ///
    /// # Errors
    ///
    /// `not_found`; `insufficient_scope`.
    pub async fn remove_interceptor(&self, caller: &Caller, id: InterceptorId) -> Result<(), Error> {
        self.interceptors.remove(caller, id).await
    }
}

/// Loads all interceptors.
pub(super) async fn open(
    (store, access, secrets): (&Store, &Arc<Access>, &Arc<Secrets>),
    (sandbox, guard): (&Arc<dyn SandboxProvider>, &Arc<Guard>),
    (clock, max_attempts): (&Clock, u32),
    natives: Vec<NativeInterceptor>,
) -> Result<Arc<Interceptors>, Error> {
    let parts = InterceptorParts {
        store: store.clone(),
        access: Arc::clone(access),
        secrets: Arc::clone(secrets),
        sandbox: Arc::clone(sandbox),
        guard: Arc::clone(guard),
        clock: clock.clone(),
        max_attempts,
    };
    Interceptors::open(parts, natives).await
}

/// Has webhooks told of what a dead host left open; its records are closed after this.
pub(super) async fn tell_of_what_ran(store: &Store) -> Result<(), Error> {
    let (records, _) = store.interceptors().await?;
    store.tell_of_interrupted(told_of_ends(&records)).await
}
