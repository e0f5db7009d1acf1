//! `list-keys`, whose cursor is a number in one draft and a text in the other.

use wasmtime::component::{ComponentType, Lift, LinkerInstance, Lower, Resource};

use crate::model::{Code, Error};
use crate::sandbox::wasm::state::State;

use super::{Bucket, DRAFT, Store, on};

/// Some keys, in the words of the first draft.
#[derive(ComponentType, Lift, Lower)]
#[component(record)]
struct Numbered {
    keys: Vec<String>,
    cursor: Option<u64>,
}

/// Some keys, in the words of the second.
#[derive(ComponentType, Lift, Lower)]
#[component(record)]
struct Named {
    keys: Vec<String>,
    cursor: Option<String>,
}

pub(super) fn link(store: &mut LinkerInstance<'_, State>, version: &str) -> wasmtime::Result<()> {
    const NAME: &str = "[method]bucket.list-keys";
    if version == DRAFT {
        return store.func_wrap_async(NAME, |store: Store<'_>, (bucket, after): (Resource<Bucket>, Option<u64>)| {
            on(&store, &bucket, move |kept, bucket| {
                Box::pin(async move {
                    let page = kept.keys(bucket, after.unwrap_or(0)).await?;
                    Ok(Numbered { keys: page.keys, cursor: page.next })
                })
            })
        });
    }
    store.func_wrap_async(NAME, |store: Store<'_>, (bucket, after): (Resource<Bucket>, Option<String>)| {
        on(&store, &bucket, |kept, bucket| {
            Box::pin(async move {
                let unknown = |_| Error::new(Code::InvalidArgs, "the cursor is none that list-keys gave");
                let after = after.map_or(Ok(0), |after| after.parse::<u64>().map_err(unknown))?;
                let page = kept.keys(bucket, after).await?;
                Ok(Named { keys: page.keys, cursor: page.next.map(|next| next.to_string()) })
            })
        })
    })
}
