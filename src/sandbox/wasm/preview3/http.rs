//! `wasi:http` 0.3: the same way out as that of 0.2, with the same bounds.
//!
//! The hooks are those of `egress`, and so are the grants, the secrets and the caps. What is different
//! is only how a guest says it: the request is a value, its body a stream that the host reads while it
//! is sent, and the answer comes when it comes.

use wasmtime::StoreContextMut;
use wasmtime::component::{Accessor, Linker, Resource};
use wasmtime_wasi_http::p3::bindings::http::client::HostWithStore;
use wasmtime_wasi_http::p3::bindings::http::types::{ErrorCode, HostRequest as _, Method};
use wasmtime_wasi_http::p3::{Request, Response};
use wasmtime_wasi_http::{WasiHttp, WasiHttpView};

use super::super::bindings::{MAX_AUTHORITY, MAX_METHOD, MAX_PATH};
use super::super::state::State;

/// The interfaces that the library links, by their whole names.
const TYPES: &str = "wasi:http/types@0.3.0";
const CLIENT: &str = "wasi:http/client@0.3.0";
/// What a denial calls the way out.
const IMPORT: &str = "wasi:http/client";

/// Links it.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p3::add_to_linker(linker)?;
    linker.allow_shadowing(true);
    bound_requests(linker)?;
    name_the_way_out(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Bounds the texts of requests, which the library keeps as long as the guest keeps the request.
fn bound_requests(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Answer = wasmtime::Result<(Result<(), ()>,)>;
    let mut http = linker.instance(TYPES)?;
    http.func_wrap(
        "[method]request.set-method",
        |mut store: StoreContextMut<'_, State>, (request, method): (Resource<Request>, Method)| -> Answer {
            match &method {
                Method::Other(name) if name.len() > MAX_METHOD => Ok((Err(()),)),
                _ => Ok((store.data_mut().http().set_method(request, method)?,)),
            }
        },
    )?;
    http.func_wrap(
        "[method]request.set-path-with-query",
        |mut store: StoreContextMut<'_, State>, (request, path): (Resource<Request>, Option<String>)| -> Answer {
            if path.as_ref().is_some_and(|path| path.len() > MAX_PATH) {
                return Ok((Err(()),));
            }
            Ok((store.data_mut().http().set_path_with_query(request, path)?,))
        },
    )?;
    http.func_wrap(
        "[method]request.set-authority",
        |mut store: StoreContextMut<'_, State>, (request, authority): (Resource<Request>, Option<String>)| -> Answer {
            if authority.as_ref().is_some_and(|authority| authority.len() > MAX_AUTHORITY) {
                return Ok((Err(()),));
            }
            Ok((store.data_mut().http().set_authority(request, authority)?,))
        },
    )
}

/// Sends as the library does, once it is known by which door: denials name it.
fn name_the_way_out(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Answer = (Result<Resource<Response>, ErrorCode>,);
    linker.instance(CLIENT)?.func_wrap_concurrent(
        "send",
        |accessor: &Accessor<State>, (request,): (Resource<Request>,)| {
            Box::pin(async move {
                accessor.with(|mut store| store.get().egress.asked_by(IMPORT));
                let http = accessor.with_getter::<WasiHttp>(State::http);
                let sent = <WasiHttp as HostWithStore<State>>::send(&http, request).await;
                let answer: Answer = match sent {
                    Ok(response) => (Ok(response),),
                    Err(error) => (Err(error.downcast()?),),
                };
                Ok(answer)
            })
        },
    )
}
