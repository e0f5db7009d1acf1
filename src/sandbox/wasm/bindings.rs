//! Our own interfaces of `wit/`, and the linker with everything a guest may import.

use wasmtime::Engine;
use wasmtime::StoreContextMut;
use wasmtime::component::{HasSelf, Linker, Resource};
use wasmtime_wasi::p2::IoError;
use wasmtime_wasi_http::WasiHttpView;
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, HostOutgoingRequest as _, Method};
use wasmtime_wasi_http::p2::types::HostOutgoingRequest;

use crate::model::Digest;

use super::engine::Kind;
use super::state::State;
use super::{children, egress, files, keyvalue, logging, preview3, settings, sockets};

wasmtime::component::bindgen!({ path: "wit", world: "skill" });

use self::skillvisor::skill::{additions, context, progress, types};

/// The interface that the library links, by its whole name.
const HTTP_TYPES: &str = "wasi:http/types@0.2.12";
/// Most bytes of the method, of path and query, and of the authority of a request.
pub(super) const MAX_METHOD: usize = 32;
pub(super) const MAX_PATH: usize = 8 << 10;
pub(super) const MAX_AUTHORITY: usize = 512;

/// A linker with all of WASI 0.2, `wasi:http` and our own interfaces: a guest may import
/// any of them; what they do is decided when they are called. For components with async functions
/// WASI 0.3 is there too.
///
/// # Errors
///
/// Only if two of them define the same name.
pub(super) fn linker(engine: &Engine, kind: Kind) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    files::add_to_linker(&mut linker)?;
    bound_requests(&mut linker)?;
    name_body_errors(&mut linker)?;
    sockets::close(&mut linker)?;
    types::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
    context::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
    progress::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
    additions::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
    logging::link(&mut linker)?;
    settings::link(&mut linker)?;
    keyvalue::link(&mut linker)?;
    children::link(&mut linker)?;
    if kind.concurrent {
        preview3::link(&mut linker)?;
    }
    Ok(linker)
}

/// Bounds the texts of outgoing requests. The library keeps them as long as the guest keeps
/// the request, and bounds the first not at all and the others at 64 KiB.
fn bound_requests(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Request = Resource<HostOutgoingRequest>;
    type Answer = wasmtime::Result<(Result<(), ()>,)>;
    linker.allow_shadowing(true);
    let mut http = linker.instance(HTTP_TYPES)?;
    http.func_wrap(
        "[method]outgoing-request.set-method",
        |mut store: StoreContextMut<'_, State>, (request, method): (Request, Method)| -> Answer {
            match &method {
                Method::Other(name) if name.len() > MAX_METHOD => Ok((Err(()),)),
                _ => Ok((store.data_mut().http().set_method(request, method)?,)),
            }
        },
    )?;
    http.func_wrap(
        "[method]outgoing-request.set-path-with-query",
        |mut store: StoreContextMut<'_, State>, (request, path): (Request, Option<String>)| -> Answer {
            if path.as_ref().is_some_and(|path| path.len() > MAX_PATH) {
                return Ok((Err(()),));
            }
            Ok((store.data_mut().http().set_path_with_query(request, path)?,))
        },
    )?;
    http.func_wrap(
        "[method]outgoing-request.set-authority",
        |mut store: StoreContextMut<'_, State>, (request, authority): (Request, Option<String>)| -> Answer {
            if authority.as_ref().is_some_and(|authority| authority.len() > MAX_AUTHORITY) {
                return Ok((Err(()),));
            }
            Ok((store.data_mut().http().set_authority(request, authority)?,))
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Tells a guest why a body broke off. The library looks for another type than it has put there,
/// and so never has a word for it.
fn name_body_errors(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Answer = wasmtime::Result<(Option<ErrorCode>,)>;
    linker.allow_shadowing(true);
    linker.instance(HTTP_TYPES)?.func_wrap(
        "http-error-code",
        |mut store: StoreContextMut<'_, State>, (error,): (Resource<IoError>,)| -> Answer {
            let error = store.data_mut().http().table.get(&error)?;
            let known = error.downcast_ref::<ErrorCode>().cloned();
            Ok((known.or_else(|| error.downcast_ref().and_then(egress::body_error)),))
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

impl types::Host for State {}

impl context::Host for State {
    fn current(&mut self) -> context::Execution {
        let context = &self.context;
        context::Execution {
            id: context.execution.to_string(),
            skill: context.skill.to_string(),
            owner_hash: Digest::of(context.owner.as_str().as_bytes()).hex(),
            session: context.session.clone(),
            attempt: context.attempt,
            deadline_ms: context.deadline_ms.unsigned_abs(),
        }
    }
}

impl additions::Host for State {
    fn added(&mut self) -> Option<String> {
        self.context.added.as_deref().map(str::to_owned)
    }
}

impl progress::Host for State {
    fn report(&mut self, done: f64, total: Option<f64>, message: String) {
        self.context.journal.report(self.now_ms(), (done, total), &message);
    }
}
