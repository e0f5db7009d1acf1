//! `wasi:config/store`: the values that the manifest gives (`grants.config`).

use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Linker, Lower};

use super::state::State;

/// The interface in the versions that toolchains use.
const NAMES: &[&str] = &["wasi:config/store@0.2.0-draft", "wasi:config/store@0.2.0-rc.1"];

/// Its `error`; nothing here can fail.
#[derive(Clone, ComponentType, Lift, Lower)]
#[component(variant)]
enum StoreError {
    #[component(name = "upstream")]
    Upstream(String),
    #[component(name = "io")]
    Io(String),
}

type One = Result<Option<String>, StoreError>;
type All = Result<Vec<(String, String)>, StoreError>;

/// Links it, for every guest: without a grant there are no values.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    for name in NAMES {
        let mut instance = linker.instance(name)?;
        instance.func_wrap("get", |store: StoreContextMut<'_, State>, (key,): (String,)| {
            let powers = store.data().powers.as_ref();
            let value: One = Ok(powers.and_then(|powers| powers.config().get(&key).cloned()));
            Ok((value,))
        })?;
        instance.func_wrap("get-all", |store: StoreContextMut<'_, State>, (): ()| {
            let powers = store.data().powers.as_ref();
            let pair = |(key, value): (&String, &String)| (key.clone(), value.clone());
            let all: All = Ok(powers.map(|powers| powers.config().iter().map(pair).collect()).unwrap_or_default());
            Ok((all,))
        })?;
    }
    Ok(())
}
