//! `wasi:keyvalue/batch`: all of a call happens, or nothing.

use wasmtime::component::{LinkerInstance, Resource};

use crate::sandbox::wasm::state::State;

use super::{Bucket, DRAFT, Store, on};

type Value = Vec<u8>;

pub(super) fn link(batch: &mut LinkerInstance<'_, State>, version: &str) -> wasmtime::Result<()> {
    if version == DRAFT {
        link_get_found(batch)?;
    } else {
        link_get_all(batch)?;
    }
    batch.func_wrap_async(
        "set-many",
        |store: Store<'_>, (bucket, pairs): (Resource<Bucket>, Vec<(String, Value)>)| {
            on(&store, &bucket, |kept, bucket| kept.set(bucket, pairs))
        },
    )?;
    batch.func_wrap_async("delete-many", |store: Store<'_>, (bucket, keys): (Resource<Bucket>, Vec<String>)| {
        on(&store, &bucket, |kept, bucket| kept.delete(bucket, keys))
    })
}

/// The first draft gives none for a key that is not there.
fn link_get_found(batch: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    batch.func_wrap_async("get-many", |store: Store<'_>, (bucket, keys): (Resource<Bucket>, Vec<String>)| {
        on(&store, &bucket, |kept, bucket| {
            Box::pin(async move {
                let values = kept.get(bucket, keys.clone()).await?;
                let found = keys.into_iter().zip(values).map(|(key, value)| value.map(|value| (key, value)));
                Ok(found.collect::<Vec<Option<(String, Value)>>>())
            })
        })
    })
}

/// The second names each key.
fn link_get_all(batch: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    batch.func_wrap_async("get-many", |store: Store<'_>, (bucket, keys): (Resource<Bucket>, Vec<String>)| {
        on(&store, &bucket, |kept, bucket| {
            Box::pin(async move {
                let values = kept.get(bucket, keys.clone()).await?;
                Ok(keys.into_iter().zip(values).collect::<Vec<(String, Option<Value>)>>())
            })
        })
    })
}
