//! Setting interceptors up, and what became of what webhooks were to be told.

use std::sync::Arc;

use crate::egress::Failure;
use crate::model::{
    Caller, Code, Digest, Error, Handler, InterceptorId, InterceptorKind, InterceptorRecord, Key, OwnerId, Phase, Scope,
};
use crate::sandbox::PrepareRequest;
use crate::sandbox::shape::Shape;
use crate::secrets::SigningSecret;
use crate::store::{Act, DeadLetter, WebhookSecret, to_its_end};

use super::draft::{self, InterceptorPatch, NewInterceptor};
use super::{Held, Interceptors};

/// Most interceptors of one owner.
const MAX_INTERCEPTORS: usize = 32;
/// The interface that a component must export, without its patch version.
const INTERFACE: &str = "skillvisor:skill/interception@0.1.";
/// Longest time for which the secret before the newest signs too, in seconds.
const MAX_GRACE_SECONDS: u32 = 7 * 24 * 60 * 60;

impl Interceptors {
    /// Sets one up. What a webhook is signed with comes along, and is shown nowhere else.
    ///
    /// # Errors
    ///
    /// `insufficient_scope`; `forbidden` for every owner, or for another one, without `admin`; `invalid_args`,
    /// `unknown_component`, `invalid_component`; `denied` for a URL that the key may not reach; `conflict` for a
    /// name that its owner has given; `storage_full` if there are too many.
    pub async fn create(
        self: &Arc<Self>,
        caller: &Caller,
        owner: Option<OwnerId>,
        new: NewInterceptor,
    ) -> Result<(Arc<InterceptorRecord>, Option<SigningSecret>), Error> {
        let owner = owner_for(caller, owner, new.global)?;
        let what = new.what()?;
        let blocking = new.blocking.unwrap_or(true);
        let now = self.post.clock.now_ms();
        let record = InterceptorRecord {
            id: InterceptorId::generate(),
            phases: new.phases(&what, blocking),
            owner,
            name: new.name,
            what,
            blocking,
            order: new.order,
            timeout_ms: new.timeout_ms.unwrap_or_else(|| draft::default_timeout(blocking)),
            optional: new.optional,
            global: new.global,
            enabled: new.enabled,
            skills: new.skills,
            registered_by: caller.key.id.clone(),
            created_at: now,
            updated_at: now,
        };
        self.check(&record, &caller.key).await?;
        let (all, act) = (Arc::clone(self), self.act(caller, "interceptor.create", &record));
        to_its_end(async move {
            let _alone = all.changes.lock().await;
            all.require_room(&record)?;
            let (secret, sealed) = match &record.what {
                InterceptorKind::Webhook { .. } => {
                    let (secret, sealed) = all.post.secrets.new_webhook_secret(record.id, 1)?;
                    (Some(secret), vec![sealed])
                }
                _ => (None, Vec::new()),
            };
            Ok((all.keep(act, record, sealed).await?, secret))
        })
        .await
    }

    /// Those that this caller may change: its owner's; for an admin key all, or one owner's.
    ///
    /// # Errors
    ///
    /// `insufficient_scope`; `forbidden` for another owner.
    pub fn list(&self, caller: &Caller, owner: Option<&OwnerId>) -> Result<Vec<Arc<InterceptorRecord>>, Error> {
        let key = &caller.key;
        key.require(Scope::InterceptorsWrite)?;
        if owner.is_some_and(|owner| *owner != key.owner) && !key.is_admin() {
            return Err(foreign());
        }
        let book = self.book.read();
        let records = book.values().map(|held| &held.record);
        let wanted = records.filter(|record| is_own(key, record) && owner.is_none_or(|owner| record.owner == *owner));
        Ok(wanted.map(Arc::clone).collect())
    }

    /// One of them.
    ///
    /// # Errors
    ///
    /// `insufficient_scope`; `not_found`, also for another owner's.
    pub fn get(&self, caller: &Caller, id: InterceptorId) -> Result<Arc<InterceptorRecord>, Error> {
        caller.key.require(Scope::InterceptorsWrite)?;
        let found = self.book.read().get(&id).map(|held| Arc::clone(&held.record));
        found.filter(|record| is_own(&caller.key, record)).ok_or_else(|| Error::not_found("interceptor"))
    }

    /// Changes one. It works under the ceilings of its owner's key that changed it last, or of whoever said where it goes.
    ///
    /// # Errors
    ///
    /// As [`Interceptors::create`] and [`Interceptors::get`].
    pub async fn change(
        self: &Arc<Self>,
        caller: &Caller,
        id: InterceptorId,
        patch: InterceptorPatch,
    ) -> Result<Arc<InterceptorRecord>, Error> {
        let (all, caller) = (Arc::clone(self), caller.clone());
        to_its_end(async move {
            let _alone = all.changes.lock().await;
            let mut record = InterceptorRecord::clone(&*all.get(&caller, id)?);
            let what = record.what.clone();
            patched(&mut record, patch)?;
            record.updated_at = all.post.clock.now_ms();
            // An admin that changes something else lends it nothing of its own.
            if what != record.what || !caller.key.is_admin() {
                record.registered_by = caller.key.id.clone();
            }
            all.check(&record, &caller.key).await?;
            let act = all.act(&caller, "interceptor.change", &record);
            all.keep(act, record, Vec::new()).await
        })
        .await
    }

    /// Removes one, with what it is still to be told. Runs that were about to ask it ask it.
    ///
    /// # Errors
    ///
    /// As [`Interceptors::get`].
    pub async fn remove(self: &Arc<Self>, caller: &Caller, id: InterceptorId) -> Result<(), Error> {
        let record = self.get(caller, id)?;
        let (all, key) = (Arc::clone(self), caller.key.id.clone());
        let act = self.act(caller, "interceptor.remove", &record);
        to_its_end(async move {
            let _alone = all.changes.lock().await;
            if !all.store.by(act).delete_interceptor(id).await? {
                return Err(Error::not_found("interceptor"));
            }
            all.book.write().remove(&id);
            all.rebuild();
            let (name, owner) = (&record.name, &record.owner);
            tracing::info!(
                interceptor.name = %name, interceptor.owner = %owner, key.id = %key, "An interceptor was removed"
            );
            Ok(())
        })
        .await
    }

    /// Gives a webhook another secret; the one before signs too for so many seconds.
    ///
    /// # Errors
    ///
    /// As [`Interceptors::get`]; `invalid_args` for what is no webhook, or too long a time.
    pub async fn rotate(
        self: &Arc<Self>,
        caller: &Caller,
        id: InterceptorId,
        grace_seconds: u32,
    ) -> Result<(Arc<InterceptorRecord>, SigningSecret), Error> {
        if grace_seconds > MAX_GRACE_SECONDS {
            let detail = format!("must be at most {MAX_GRACE_SECONDS}");
            return Err(Error::at(Code::InvalidArgs, "/graceSeconds", detail));
        }
        self.get(caller, id)?;
        let (all, caller) = (Arc::clone(self), caller.clone());
        to_its_end(async move {
            let _alone = all.changes.lock().await;
            let mut record = InterceptorRecord::clone(&*all.get(&caller, id)?);
            if !matches!(record.what, InterceptorKind::Webhook { .. }) {
                return Err(Error::new(Code::InvalidArgs, "only a webhook has a secret"));
            }
            record.updated_at = all.post.clock.now_ms();
            let old = all.book.read().get(&id).and_then(|held| held.secrets.first().cloned());
            let (secret, sealed) =
                all.post.secrets.new_webhook_secret(id, old.as_ref().map_or(1, |old| old.version.saturating_add(1)))?;
            let until = record.updated_at.saturating_add(i64::from(grace_seconds) * 1000);
            let old = old.map(|old| WebhookSecret { until: Some(until), ..old });
            let secrets = std::iter::once(sealed).chain(old.filter(|_| grace_seconds > 0)).collect();
            let act = all.act(&caller, "interceptor.rotate", &record);
            Ok((all.keep(act, record, secrets).await?, secret))
        })
        .await
    }

    /// What a webhook could not be told, behind number `after` and at most `limit`; whether there is more, and how
    /// much there is in all.
    ///
    /// # Errors
    ///
    /// As [`Interceptors::get`], and as any read.
    pub async fn dead_letters(
        &self,
        caller: &Caller,
        id: InterceptorId,
        (after, limit): (u64, u32),
    ) -> Result<(Vec<DeadLetter>, bool, u64), Error> {
        self.get(caller, id)?;
        let total = self.store.count_dead_letters(id).await?;
        let mut letters = self.store.dead_letters(id, after, limit.saturating_add(1)).await?;
        let more = letters.len() > limit as usize;
        letters.truncate(limit as usize);
        Ok((letters, more, total))
    }

    /// Has a webhook told once more, with as many attempts as the first time.
    ///
    /// # Errors
    ///
    /// As [`Interceptors::get`]; `not_found` for a number that there is not.
    pub async fn retry(&self, caller: &Caller, id: InterceptorId, number: u64) -> Result<(), Error> {
        self.get(caller, id)?;
        let found = self.store.revive_dead_letter(id, number).await?;
        found.ok_or_else(|| Error::not_found("dead letter"))?;
        self.outbox.wake(&[id]);
        Ok(())
    }

    /// Refuses what could not be asked, or what the key may not ask.
    async fn check(&self, record: &InterceptorRecord, key: &Key) -> Result<(), Error> {
        draft::check(record)?;
        draft::entry(record, &[])?;
        match &record.what {
            InterceptorKind::Builtin { .. } => Ok(()),
            InterceptorKind::Webhook { url } => self.check_target(record, url, key).await,
            InterceptorKind::Wasm { component } => self.check_component(record, *component, key).await,
        }
    }

    async fn check_target(&self, record: &InterceptorRecord, url: &str, key: &Key) -> Result<(), Error> {
        let target = draft::target(url)?;
        let vetted = self.post.guard.vet(&record.owner, key.max_network(), target).await;
        vetted.map_err(|failure| {
            let code = match failure {
                Failure::Denied(_) | Failure::Prohibited(_) => Code::Denied,
                Failure::TooManyConnections => Code::Overloaded,
                _ => Code::InvalidArgs,
            };
            let why = match failure {
                Failure::Denied(_) => {
                    "the network ceiling of this key does not reach it; `skillvisor keys create … --network` gives one"
                        .to_owned()
                }
                failure => failure.to_string(),
            };
            Error::at(code, "/url", why)
        })
    }

    async fn check_component(&self, record: &InterceptorRecord, digest: Digest, key: &Key) -> Result<(), Error> {
        let mut known = self.store.owned_component(record.owner.clone(), digest).await?;
        if known.is_none() && record.global {
            known = self.store.owned_component(key.owner.clone(), digest).await?;
        }
        let unknown = "this owner has uploaded no component with that digest; push it first, as a skill";
        let known = known.ok_or_else(|| Error::at(Code::UnknownComponent, "/component", unknown))?;
        if !self.sandbox.is_prepared(digest) {
            return Err(Error::new(Code::Compiling, "the component is still being compiled").retry_after(5));
        }
        // It is prepared, so that no file is looked at.
        let request = PrepareRequest {
            owner: record.owner.clone(),
            handler: Handler::Wasm { digest },
            digest,
            file: std::path::PathBuf::new(),
            bytes: known.bytes,
            unmetered: false,
        };
        let inspection = self.sandbox.prepare(request)?.inspected.await.map_err(Error::internal)??;
        let has = |phase: &Phase| match &inspection.shape {
            Shape::Typed(exports) => exports.iter().any(|export| {
                export.name == phase.as_str()
                    && export.instance.as_deref().is_some_and(|name| name.starts_with(INTERFACE))
                    && export.params.iter().map(|param| param.name.as_str()).eq(["event"])
            }),
            _ => false,
        };
        if record.phases.iter().all(has) {
            return Ok(());
        }
        let detail = format!("is no interceptor: it must export `{INTERFACE}0` of the world `interceptor` (wit/)");
        Err(Error::at(Code::InvalidComponent, "/component", detail))
    }

    fn require_room(&self, record: &InterceptorRecord) -> Result<(), Error> {
        let book = self.book.read();
        let mut own = book.values().filter(|held| held.record.owner == record.owner);
        if own.clone().count() >= MAX_INTERCEPTORS {
            let detail = format!("this owner has {MAX_INTERCEPTORS} interceptors; remove one");
            return Err(Error::new(Code::StorageFull, detail));
        }
        if own.any(|held| held.record.name == record.name) {
            let detail = format!("this owner has an interceptor `{}`; change that, or take another name", record.name);
            return Err(Error::at(Code::Conflict, "/name", detail));
        }
        Ok(())
    }

    /// Writes one down, and then has it asked. Without `secrets` it keeps those that it has.
    async fn keep(
        self: &Arc<Self>,
        act: Act,
        record: InterceptorRecord,
        secrets: Vec<WebhookSecret>,
    ) -> Result<Arc<InterceptorRecord>, Error> {
        let kept = || self.book.read().get(&record.id).map(|held| held.secrets.clone()).unwrap_or_default();
        let all_secrets = if secrets.is_empty() { kept() } else { secrets.clone() };
        let entry = Arc::new(draft::entry(&record, &all_secrets)?);
        let done = act.act.clone();
        self.store.by(act).put_interceptor(record.clone(), secrets).await?;
        let record = Arc::new(record);
        let held = Held { record: Arc::clone(&record), secrets: all_secrets, entry };
        self.book.write().insert(record.id, held);
        self.rebuild();
        tracing::info!(
            interceptor.name = %record.name, interceptor.owner = %record.owner, key.id = %record.registered_by,
            "{done}",
        );
        Ok(record)
    }
}

fn patched(record: &mut InterceptorRecord, patch: InterceptorPatch) -> Result<(), Error> {
    let InterceptorPatch { phases, order, timeout_ms, optional, enabled, skills, url, component, config } = patch;
    let wrong = |field: &str| Error::at(Code::InvalidArgs, format!("/{field}"), "does not go with its kind");
    match (&mut record.what, url, component, config) {
        (_, None, None, None) => {}
        (InterceptorKind::Webhook { url }, Some(new), None, None) => *url = new,
        (InterceptorKind::Wasm { component }, None, Some(new), None) => *component = new,
        (InterceptorKind::Builtin { config, .. }, None, None, Some(new)) => *config = new,
        (_, url, component, _) => {
            let field = if url.is_some() {
                "url"
            } else if component.is_some() {
                "component"
            } else {
                "config"
            };
            return Err(wrong(field));
        }
    }
    record.phases = phases.unwrap_or_else(|| std::mem::take(&mut record.phases));
    record.order = order.unwrap_or(record.order);
    record.timeout_ms = timeout_ms.unwrap_or(record.timeout_ms);
    record.optional = optional.unwrap_or(record.optional);
    record.enabled = enabled.unwrap_or(record.enabled);
    if let Some(skills) = skills {
        record.skills = skills;
    }
    Ok(())
}

/// Whose it is to be. Those for everybody are the system's.
fn owner_for(caller: &Caller, owner: Option<OwnerId>, global: bool) -> Result<OwnerId, Error> {
    let key = &caller.key;
    key.require(Scope::InterceptorsWrite)?;
    if global && !key.is_admin() {
        return Err(Error::at(
            Code::Forbidden,
            "/global",
            "only a key with the scope `admin` can set one up for everybody",
        ));
    }
    match owner {
        Some(owner) if global && !owner.is_system() => {
            Err(Error::at(Code::InvalidArgs, "/global", "one for everybody is the system's; leave owner out"))
        }
        _ if global => Ok(OwnerId::system()),
        Some(owner) if owner.is_system() => {
            Err(Error::at(Code::InvalidArgs, "/owner", "nothing runs as system; set `global` for one around every run"))
        }
        Some(owner) if owner != key.owner && !key.is_admin() => Err(foreign()),
        Some(owner) => Ok(owner),
        None => Ok(key.owner.clone()),
    }
}

fn foreign() -> Error {
    Error::new(Code::Forbidden, "only a key with the scope `admin` can name another owner")
}

fn is_own(key: &Key, record: &InterceptorRecord) -> bool {
    key.is_admin() || (record.owner == key.owner && !record.global)
}
