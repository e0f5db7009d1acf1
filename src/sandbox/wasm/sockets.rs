//! `wasi:sockets`: linked for every guest, since Python, Go and others import it, and closed for all.
//! The way out is `wasi:http`.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::ResolveAddressStream;
use wasmtime_wasi::p2::bindings::sockets::network::{ErrorCode, IpAddressFamily, Network};
use wasmtime_wasi::p2::bindings::sockets::tcp::TcpSocket;
use wasmtime_wasi::p2::bindings::sockets::udp::UdpSocket;

use crate::model::{Denial, plain};

use super::state::State;

/// The interfaces that the library links, by their whole names.
const TCP: &str = "wasi:sockets/tcp-create-socket@0.2.12";
const UDP: &str = "wasi:sockets/udp-create-socket@0.2.12";
const NAMES: &str = "wasi:sockets/ip-name-lookup@0.2.12";
/// Most bytes of a name in a denial.
pub(super) const MAX_NAME: usize = 256;

type Store<'a> = StoreContextMut<'a, State>;
type Refused<T> = wasmtime::Result<(Result<Resource<T>, ErrorCode>,)>;

/// Takes the place of what the library would refuse without a word to the caller of the skill.
pub(super) fn close(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    linker.instance(TCP)?.func_wrap(
        "create-tcp-socket",
        |store: Store<'_>, (_,): (IpAddressFamily,)| -> Refused<TcpSocket> {
            deny(store.data(), "wasi:sockets/tcp-create-socket", "a TCP socket");
            Ok((Err(ErrorCode::AccessDenied),))
        },
    )?;
    linker.instance(UDP)?.func_wrap(
        "create-udp-socket",
        |store: Store<'_>, (_,): (IpAddressFamily,)| -> Refused<UdpSocket> {
            deny(store.data(), "wasi:sockets/udp-create-socket", "a UDP socket");
            Ok((Err(ErrorCode::AccessDenied),))
        },
    )?;
    linker.instance(NAMES)?.func_wrap(
        "resolve-addresses",
        |store: Store<'_>, (_, name): (Resource<Network>, String)| -> Refused<ResolveAddressStream> {
            let asked = format!("the addresses of {}", plain(&name, MAX_NAME));
            deny(store.data(), "wasi:sockets/ip-name-lookup", &asked);
            Ok((Err(ErrorCode::PermanentResolverFailure),))
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Notes that a socket was not given.
pub(super) fn deny(state: &State, import: &str, asked: &str) {
    let fix = "no grant opens sockets: use wasi:http, and ask for grants.network in the manifest".to_owned();
    state.egress.deny(Denial { import: import.to_owned(), asked: asked.to_owned(), grant: "none".to_owned(), fix });
}
