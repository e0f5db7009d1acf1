//! `wasi:keyvalue/atomics`: numbers as decimal text, and compare and swap.

use std::sync::Arc;

use wasmtime::component::{ComponentType, Lift, LinkerInstance, Lower, Resource, ResourceType};

use crate::model::Error;
use crate::sandbox::KeyValue;
use crate::sandbox::wasm::state::State;

use super::{Bucket, Cas, DRAFT, KvError, Store, on};

/// Why a swap did not happen.
#[derive(ComponentType, Lift, Lower)]
#[component(variant)]
enum CasError {
    #[component(name = "store-error")]
    StoreError(KvError),
    /// The value is another by now; this one has seen it.
    #[component(name = "cas-failed")]
    CasFailed(Resource<Cas>),
}

type Swapped<'a> = Box<dyn Future<Output = wasmtime::Result<(Result<(), CasError>,)>> + Send + 'a>;
type Answer<'a, T> = super::Future<'a, T>;

pub(super) fn link(atomics: &mut LinkerInstance<'_, State>, version: &str) -> wasmtime::Result<()> {
    if version == DRAFT {
        return atomics.func_wrap_async(
            "increment",
            |store: Store<'_>, (bucket, key, delta): (Resource<Bucket>, String, u64)| {
                on(&store, &bucket, move |kept, bucket| {
                    Box::pin(async move {
                        let sum = kept.add(bucket, key, (delta.into(), 0..=u64::MAX.into())).await?;
                        u64::try_from(sum).map_err(Error::internal)
                    })
                })
            },
        );
    }
    atomics.func_wrap_async(
        "increment",
        |store: Store<'_>, (bucket, key, delta): (Resource<Bucket>, String, i64)| {
            on(&store, &bucket, move |kept, bucket| {
                Box::pin(async move {
                    let sum = kept.add(bucket, key, (delta.into(), i64::MIN.into()..=i64::MAX.into())).await?;
                    i64::try_from(sum).map_err(Error::internal)
                })
            })
        },
    )?;
    link_cas(atomics)
}

fn link_cas(atomics: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    atomics.resource("cas", ResourceType::host::<Cas>(), |mut store, rep| {
        store.data_mut().table.delete(Resource::<Cas>::new_own(rep))?;
        Ok(())
    })?;
    atomics.func_wrap_async("[static]cas.new", |store: Store<'_>, (bucket, key): (Resource<Bucket>, String)| {
        new(store, bucket, key)
    })?;
    atomics.func_wrap_async("[method]cas.current", |store: Store<'_>, (cas,): (Resource<Cas>,)| current(store, cas))?;
    atomics.func_wrap_async("swap", |store: Store<'_>, (cas, value): (Resource<Cas>, Vec<u8>)| -> Swapped<'_> {
        Box::new(async move { Ok((swap(store, cas, value).await?,)) })
    })
}

/// Remembers which version a key has. The value itself is not kept: a guest may have many of these.
fn new(mut store: Store<'_>, bucket: Resource<Bucket>, key: String) -> Answer<'_, Resource<Cas>> {
    Box::new(async move {
        let name = store.data().table.get(&bucket)?.name.clone();
        let mut cas = Cas { bucket: name, key, seen: None };
        let answer = match look(kept(&store), &cas).await {
            Ok((_, version)) => {
                cas.seen = version;
                Ok(store.data_mut().table.push(cas)?)
            }
            Err(error) => Err(error),
        };
        Ok((answer,))
    })
}

/// The value as it is now, which is then the one that a swap takes the place of.
fn current(mut store: Store<'_>, cas: Resource<Cas>) -> Answer<'_, Option<Vec<u8>>> {
    Box::new(async move {
        let seen = store.data().table.get(&cas)?.clone();
        let answer = match look(kept(&store), &seen).await {
            Ok((value, version)) => {
                store.data_mut().table.get_mut(&cas)?.seen = version;
                Ok(value)
            }
            Err(error) => Err(error),
        };
        Ok((answer,))
    })
}

fn kept(store: &Store<'_>) -> Option<Arc<dyn KeyValue>> {
    store.data().powers.as_ref().and_then(|powers| powers.keyvalue())
}

async fn look(kept: Option<Arc<dyn KeyValue>>, cas: &Cas) -> Result<(Option<Vec<u8>>, Option<u64>), KvError> {
    let found = kept.ok_or(KvError::AccessDenied)?.look(cas.bucket.clone(), cas.key.clone()).await?;
    Ok((found.value, found.version))
}

async fn swap(mut store: Store<'_>, cas: Resource<Cas>, value: Vec<u8>) -> wasmtime::Result<Result<(), CasError>> {
    let mut cas = store.data_mut().table.delete(cas)?;
    let Some(kept) = kept(&store) else {
        return Ok(Err(CasError::StoreError(KvError::AccessDenied)));
    };
    match Arc::clone(&kept).swap(cas.bucket.clone(), cas.key.clone(), (cas.seen, value)).await {
        Ok(true) => return Ok(Ok(())),
        Ok(false) => {}
        Err(error) => return Ok(Err(CasError::StoreError(error.into()))),
    }
    match look(Some(kept), &cas).await {
        Ok((_, version)) => cas.seen = version,
        Err(error) => return Ok(Err(CasError::StoreError(error))),
    }
    Ok(Err(CasError::CasFailed(store.data_mut().table.push(cas)?)))
}
