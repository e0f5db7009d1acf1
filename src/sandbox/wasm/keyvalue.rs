//! `wasi:keyvalue`: linked for every guest, granted by `"kv": true`.

mod batch;
mod counting;
mod keys;

use std::sync::Arc;

use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Linker, LinkerInstance, Lower, Resource, ResourceType};

use crate::model::{Denial, Error, plain};
use crate::sandbox::{BoxFuture, KeyValue};

use super::state::State;

/// The two drafts that are about; they differ in a few functions.
const DRAFT: &str = "0.2.0-draft";
const DRAFT2: &str = "0.2.0-draft2";

/// A bucket that a guest has opened.
pub(super) struct Bucket {
    name: String,
}

/// What a guest has seen of a key, to swap it.
#[derive(Clone)]
pub(super) struct Cas {
    bucket: String,
    key: String,
    seen: Option<u64>,
}

/// The interface's `error`.
#[derive(Clone, Debug, ComponentType, Lift, Lower)]
#[component(variant)]
enum KvError {
    #[component(name = "no-such-store")]
    NoSuchStore,
    #[component(name = "access-denied")]
    AccessDenied,
    #[component(name = "other")]
    Other(String),
}

impl From<Error> for KvError {
    fn from(error: Error) -> Self {
        if error.source.is_some() {
            tracing::warn!("The key-value store failed a guest: {error:?}");
        }
        Self::Other(error.detail)
    }
}

type Store<'a> = StoreContextMut<'a, State>;
/// What a host function gives: `T`, or the interface's error, or a trap.
type Future<'a, T> = Box<dyn std::future::Future<Output = wasmtime::Result<(Result<T, KvError>,)>> + Send + 'a>;

/// Links both drafts.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    for version in [DRAFT, DRAFT2] {
        let mut store = linker.instance(&format!("wasi:keyvalue/store@{version}"))?;
        link_store(&mut store)?;
        keys::link(&mut store, version)?;
        counting::link(&mut linker.instance(&format!("wasi:keyvalue/atomics@{version}"))?, version)?;
        batch::link(&mut linker.instance(&format!("wasi:keyvalue/batch@{version}"))?, version)?;
    }
    Ok(())
}

fn link_store(store: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    store.resource("bucket", ResourceType::host::<Bucket>(), |mut store, rep| {
        store.data_mut().table.delete(Resource::<Bucket>::new_own(rep))?;
        Ok(())
    })?;
    store.func_wrap("open", |mut store: Store<'_>, (name,): (String,)| Ok((open(store.data_mut(), name)?,)))?;
    store.func_wrap_async("[method]bucket.get", |store: Store<'_>, (bucket, key): (Resource<Bucket>, String)| {
        on(&store, &bucket, |kept, bucket| {
            Box::pin(async move { Ok(kept.get(bucket, vec![key]).await?.pop().flatten()) })
        })
    })?;
    store.func_wrap_async(
        "[method]bucket.set",
        |store: Store<'_>, (bucket, key, value): (Resource<Bucket>, String, Vec<u8>)| {
            on(&store, &bucket, |kept, bucket| kept.set(bucket, vec![(key, value)]))
        },
    )?;
    store.func_wrap_async("[method]bucket.delete", |store: Store<'_>, (bucket, key): (Resource<Bucket>, String)| {
        on(&store, &bucket, |kept, bucket| kept.delete(bucket, vec![key]))
    })?;
    store.func_wrap_async("[method]bucket.exists", |store: Store<'_>, (bucket, key): (Resource<Bucket>, String)| {
        on(&store, &bucket, |kept, bucket| kept.exists(bucket, key))
    })
}

/// Opens a bucket, or notes that it was not granted.
fn open(state: &mut State, name: String) -> wasmtime::Result<Result<Resource<Bucket>, KvError>> {
    if state.powers.as_ref().is_none_or(|powers| powers.keyvalue().is_none()) {
        let fix = "add \"kv\": true to grants in the manifest and push it as a new version";
        state.egress.deny(Denial {
            import: "wasi:keyvalue/store".into(),
            asked: format!("open {}", plain(&name, 64)),
            grant: "kv: true".into(),
            fix: fix.into(),
        });
        return Ok(Err(KvError::AccessDenied));
    }
    Ok(Ok(state.table.push(Bucket { name })?))
}

/// Does something in a bucket that was opened.
fn on<'a, T: 'a>(
    store: &Store<'a>,
    bucket: &Resource<Bucket>,
    work: impl FnOnce(Arc<dyn KeyValue>, String) -> BoxFuture<'static, Result<T, Error>> + Send + 'a,
) -> Future<'a, T> {
    let state = store.data();
    let name = state.table.get(bucket).map(|bucket| bucket.name.clone());
    let kept = state.powers.as_ref().and_then(|powers| powers.keyvalue());
    Box::new(async move { Ok((done(kept, name?, work).await,)) })
}

async fn done<T>(
    kept: Option<Arc<dyn KeyValue>>,
    bucket: String,
    work: impl FnOnce(Arc<dyn KeyValue>, String) -> BoxFuture<'static, Result<T, Error>>,
) -> Result<T, KvError> {
    let kept = kept.ok_or(KvError::AccessDenied)?;
    Ok(work(kept, bucket).await?)
}
