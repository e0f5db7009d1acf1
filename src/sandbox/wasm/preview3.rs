//! WASI 0.3, for components with async functions: the same policy as for 0.2.
//!
//! Clocks, randomness, arguments, variables and what is printed are there for all. Sockets are closed.
//! The way out is `wasi:http` 0.3 (`http`), and the workspace `wasi:filesystem` 0.3 (`super::files`).
//! While a guest waits it holds no thread, and its deadline and its being cancelled end it all the same.

mod http;

use wasmtime::component::{Accessor, Linker, Resource};
use wasmtime::{Store, StoreContextMut};
use wasmtime_wasi::p3::bindings::sockets::ip_name_lookup::ErrorCode as LookupError;
use wasmtime_wasi::p3::bindings::sockets::types::{ErrorCode, IpAddress, IpAddressFamily, TcpSocket, UdpSocket};

use crate::model::plain;

use super::files;
use super::sockets::{MAX_NAME, deny};
use super::state::State;

/// The interfaces that the library links, by their whole names.
const SOCKETS: &str = "wasi:sockets/types@0.3.0";
const NAMES: &str = "wasi:sockets/ip-name-lookup@0.3.0";
/// Tasks, streams and futures that a guest may have under way at once. Each may hold a stack, of
/// which there are so many for each instance.
pub(super) const MAX_TASKS: u32 = 256;

type Refused<T> = wasmtime::Result<(Result<Resource<T>, ErrorCode>,)>;
type Addresses = (Result<Vec<IpAddress>, LookupError>,);

/// Bounds what a guest has under way, where its engine is for such.
pub(super) fn bound(store: &mut Store<State>) {
    if let Some(tasks) = store.concurrent_resource_table() {
        tasks.set_max_capacity(MAX_TASKS as usize);
    }
}

/// Links it.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasmtime_wasi::p3::add_to_linker(linker)?;
    http::link(linker)?;
    files::add_preview3_to_linker(linker)?;
    linker.allow_shadowing(true);
    let mut sockets = linker.instance(SOCKETS)?;
    sockets.func_wrap(
        "[static]tcp-socket.create",
        |store: StoreContextMut<'_, State>, (_,): (IpAddressFamily,)| -> Refused<TcpSocket> {
            deny(store.data(), "wasi:sockets/types", "a TCP socket");
            Ok((Err(ErrorCode::AccessDenied),))
        },
    )?;
    sockets.func_wrap(
        "[static]udp-socket.create",
        |store: StoreContextMut<'_, State>, (_,): (IpAddressFamily,)| -> Refused<UdpSocket> {
            deny(store.data(), "wasi:sockets/types", "a UDP socket");
            Ok((Err(ErrorCode::AccessDenied),))
        },
    )?;
    linker.instance(NAMES)?.func_wrap_concurrent(
        "resolve-addresses",
        |accessor: &Accessor<State>, (name,): (String,)| {
            let asked = format!("the addresses of {}", plain(&name, MAX_NAME));
            accessor.with(|mut store| deny(store.get(), "wasi:sockets/ip-name-lookup", &asked));
            let answer: Addresses = (Err(LookupError::PermanentResolverFailure),);
            Box::pin(async move { Ok(answer) })
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}
