//! Servers (SPEC §4, shape 4): the arguments as the JSON of a request, the result from the response.

use std::pin::pin;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;
use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, InstancePre, Resource};
use wasmtime_wasi_http::WasiHttpView;
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, Scheme};
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;
use wasmtime_wasi_http::p2::types::{HostIncomingRequest, HostResponseOutparam};
use wasmtime_wasi_http::p3 as preview3;
use wasmtime_wasi_http::p3::bindings::http::types::ErrorCode as AsyncErrorCode;

use crate::model::{Code, Limits, RunError, plain};
use crate::sandbox::SandboxCall;

use super::failures::output_too_large;
use super::program::text;
use super::run::{Called, MAX_ERROR_MESSAGE, output_bytes};
use super::state::State;

/// What the request is for. The host is a name that there is nowhere.
const ADDRESS: &str = "http://skill.invalid/";
/// Most bytes of the body of a refusal that are kept with the error; the audit keeps it.
const MAX_ERROR_BODY: usize = 16 << 10;
/// Longest part of such a body in the message, in bytes.
const MAX_SHOWN: usize = 200;

type Answer = Result<http::Response<HyperOutgoingBody>, ErrorCode>;

/// Has a component handle one request. What it does after its response belongs to the run: the
/// run succeeds once the handler has returned.
pub(super) async fn call(
    store: &mut Store<State>,
    (instance, handle): (&InstancePre<State>, ComponentExportIndex),
    asked: &SandboxCall,
    args: String,
) -> Called {
    type Params = (Resource<HostIncomingRequest>, Resource<HostResponseOutparam>);
    let limits = &asked.limits;
    let (sender, receiver) = oneshot::channel();
    let mut http = store.data_mut().http();
    let request = http.new_incoming_request(Scheme::Http, request(args)?)?;
    let params = (request, http.new_response_outparam(sender)?);
    let mut guest = pin!(async {
        let instance = instance.instantiate_async(&mut *store).await?;
        let handle = instance.get_typed_func::<Params, ()>(&mut *store, handle)?;
        handle.call_async(&mut *store, params).await
    });
    let mut response = pin!(unconstrained(receive(receiver, limits)));
    let received = tokio::select! {
        biased;
        received = &mut response => received,
        ended = &mut guest => {
            ended?;
            // Nobody is left to write more of it.
            match futures_util::poll!(&mut response) {
                std::task::Poll::Ready(received) => return Ok(received.and_then(|response| response.output(limits))),
                std::task::Poll::Pending => return Ok(Err(incomplete())),
            }
        }
    };
    let received = match received {
        Ok(received) => received,
        Err(error) => return Ok(Err(error)),
    };
    guest.await?;
    Ok(received.output(limits))
}

/// The same by WASI 0.3: the handler gives a response whose body it may still be writing. The run
/// ends when that is whole; what the handler would do after it ends with it.
pub(super) async fn call_async(
    store: &mut Store<State>,
    (instance, handle): (&InstancePre<State>, ComponentExportIndex),
    asked: &SandboxCall,
    args: String,
) -> Called {
    type Answer = (Result<Resource<preview3::Response>, AsyncErrorCode>,);
    let limits = &asked.limits;
    let asking = request(args)?.map(|body| body.map_err(|never| -> wasmtime_wasi_http::Error { match never {} }));
    let http = store.data_mut().http();
    let (request, _read) = preview3::Request::from_http(http.hooks, asking);
    let request = http.table.push(request)?;
    let instance = instance.instantiate_async(&mut *store).await?;
    let handle = instance.get_typed_func::<(Resource<preview3::Request>,), Answer>(&mut *store, handle)?;
    let response = match handle.call_async(&mut *store, (request,)).await?.0 {
        Ok(response) => store.data_mut().http().table.delete(response)?,
        Err(error) => return Ok(Err(gave_error(&error))),
    };
    let response = response.into_http(&mut *store, async { Ok(()) })?;
    let received = store.run_concurrent(async |_| unconstrained(whole(response, limits)).await).await?;
    Ok(received.and_then(|received| received.output(limits)))
}

fn request(args: String) -> http::Result<http::Request<Full<bytes::Bytes>>> {
    http::Request::post(ADDRESS)
        .header(CONTENT_TYPE, "application/json")
        .header(CONTENT_LENGTH, args.len())
        .header(ACCEPT, "application/json, text/*;q=0.9, */*;q=0.1")
        .body(Full::new(args.into()))
}

/// A response that came whole.
struct Received {
    status: StatusCode,
    /// Its content type in lower case, without parameters.
    kind: Option<String>,
    body: Vec<u8>,
}

/// Waits for the response, and reads it to its end or to the limit of outputs.
async fn receive(answer: oneshot::Receiver<Answer>, limits: &Limits) -> Result<Received, RunError> {
    let response = match answer.await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(gave_error(&error)),
        Err(_) => return Err(incomplete()),
    };
    whole(response, limits).await
}

/// Reads a response to its end or to the limit of outputs.
async fn whole<B>(response: http::Response<B>, limits: &Limits) -> Result<Received, RunError>
where
    B: http_body::Body<Data = bytes::Bytes> + Unpin,
{
    let (head, mut body) = response.into_parts();
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| incomplete())?.into_data() else { continue };
        if bytes.len() + data.len() > output_bytes(limits) {
            return Err(output_too_large(limits));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Received { status: head.status, kind, body: bytes })
}

impl Received {
    /// The output that the response is.
    ///
    /// # Errors
    ///
    /// `skill_error` for a status of 400 and more, `invalid_output` for JSON that is none,
    /// `output_too_large`.
    fn output(self, limits: &Limits) -> Result<String, RunError> {
        if self.status.as_u16() >= 400 {
            return Err(self.refusal());
        }
        if self.body.is_empty() {
            return Ok("null".into());
        }
        match String::from_utf8(self.body) {
            Ok(body) if self.kind.as_deref().is_none_or(is_json) => match serde_json::from_str::<&RawValue>(&body) {
                Ok(_) => Ok(body),
                Err(_) if self.kind.is_none() => text(&body, limits),
                Err(error) => Err(no_json(&error)),
            },
            Ok(body) => text(&body, limits),
            Err(_) if self.kind.as_deref().is_some_and(is_json) => Err(no_json(&"it is not UTF-8")),
            Err(bytes) => text(&STANDARD.encode(bytes.as_bytes()), limits),
        }
    }

    /// The error of a handler that says no, with what it says.
    fn refusal(self) -> RunError {
        let said = String::from_utf8_lossy(&self.body);
        let message = match plain(said.trim(), MAX_SHOWN) {
            said if said.is_empty() => format!("the handler answered {}", self.status),
            said => format!("the handler answered {}: {said}", self.status),
        };
        let value = if self.body.len() > MAX_ERROR_BODY {
            None
        } else {
            let json = self.kind.as_deref().is_none_or(is_json).then(|| serde_json::from_str(&said).ok()).flatten();
            Some(json.unwrap_or_else(|| Value::from(plain(&said, MAX_ERROR_BODY))))
        };
        let detail = json!({ "status": self.status.as_u16(), "value": value });
        RunError { code: Code::SkillError, message, detail: Some(detail) }
    }
}

fn gave_error(error: &dyn std::fmt::Debug) -> RunError {
    let message = format!("the handler gave an error instead of a response: {error:?}");
    RunError::new(Code::SkillError, plain(&message, MAX_ERROR_MESSAGE))
}

fn is_json(kind: &str) -> bool {
    kind == "application/json" || kind.ends_with("+json")
}

fn no_json(error: &dyn std::fmt::Display) -> RunError {
    RunError::new(Code::InvalidOutput, format!("the response is not JSON, as its content type says: {error}"))
}

fn incomplete() -> RunError {
    RunError::new(Code::InvalidOutput, "the handler ended without a whole response")
}
