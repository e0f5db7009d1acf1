//! Outgoing HTTP of guests: linked for every guest, granted to few.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use http_body_util::BodyExt;
use parking_lot::Mutex;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::{Error, RequestOptions, Result, WasiBody, WasiHttpHooks};

use crate::egress::{Allowance, Credentials, Errand, Failure, Guard, MAX_BODY, Meter, NetworkGrant, Target, Withheld};
use crate::model::{Denial, Layer, plain};
use crate::sandbox::{RunContext, SandboxCall};

use super::denials::Denials;

/// Most bytes of an address in a denial.
const MAX_ADDRESS: usize = 256;
/// Most bytes of a command in a denial.
const MAX_FIX: usize = 512;
/// Most bytes of a body that the host takes in one write; it holds two writes of each body.
const BODY_CHUNK: usize = 4 << 10;

/// The way out of one guest, and what it was not given.
pub(super) struct Egress {
    guard: Arc<Guard>,
    grant: Arc<NetworkGrant>,
    credentials: Arc<Credentials>,
    context: Arc<RunContext>,
    deadline: Instant,
    denials: Shared,
    tally: Tally,
    /// The interface that the guest last asked by.
    import: &'static str,
}

/// Counts what went out and in, and tells the budget of it.
struct Tally {
    meter: Meter,
    told: u64,
    allowance: Option<Allowance>,
}

impl Tally {
    fn tell(&mut self) {
        let bytes = self.meter.load(Ordering::Relaxed);
        if let Some(allowance) = &self.allowance {
            allowance.spend(bytes.saturating_sub(self.told));
        }
        self.told = bytes;
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.tell();
    }
}

type Shared = Arc<Mutex<Denials>>;
type Worker = Box<dyn Future<Output = Result<(), Error>> + Send>;
type Answer = Result<(http::Response<WasiBody>, Worker)>;

impl Egress {
    /// What `call` may do through `guard`.
    pub(super) fn new(call: &SandboxCall, guard: Arc<Guard>) -> Self {
        Self {
            guard,
            grant: Arc::clone(&call.network),
            credentials: Arc::clone(&call.credentials),
            context: Arc::clone(&call.context),
            deadline: call.deadline,
            denials: Shared::default(),
            tally: Tally { meter: Meter::default(), told: 0, allowance: call.network.allowance.clone() },
            import: "wasi:http/outgoing-handler",
        }
    }

    /// The way out that all guests share.
    pub(super) fn guard(&self) -> Arc<Guard> {
        Arc::clone(&self.guard)
    }

    /// Says by which interface the guest asks for what comes next.
    pub(super) fn asked_by(&mut self, import: &'static str) {
        self.import = import;
    }

    /// What was not given, and how many bytes went out and in.
    pub(super) fn end(self) -> (Vec<Denial>, u64) {
        let denials = self.denials.lock().take();
        (denials, self.tally.meter.load(Ordering::Relaxed))
    }

    /// Notes that something else was not given.
    pub(super) fn deny(&self, denial: Denial) {
        self.denials.lock().note(denial);
    }

    fn errand(&self, options: Option<RequestOptions>) -> Errand {
        let RequestOptions { connect_timeout, first_byte_timeout, between_bytes_timeout } = options.unwrap_or_default();
        Errand {
            owner: self.context.owner.clone(),
            deadline: self.deadline,
            connect_timeout,
            first_byte_timeout,
            between_bytes_timeout,
            most_body: MAX_BODY,
            meter: Arc::clone(&self.tally.meter),
        }
    }
}

impl WasiHttpHooks for Egress {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _done: Worker,
    ) -> Box<dyn Future<Output = Answer> + Send> {
        let asked = Asked::of(&request, self.import);
        // What came since the last request counts for whether there may be this one.
        self.tally.tell();
        let admitted = Target::parse(&request.uri().to_string())
            .map_err(Failure::Unsafe)
            .and_then(|target| self.guard.admit(&self.grant, request.method(), target))
            .and_then(|admitted| admitted.with(&self.credentials, request.headers()));
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(failure) => {
                asked.note(&failure, &self.denials, &self.context);
                return Box::new(async move { Err(error(&failure)) });
            }
        };
        for withheld in self.credentials.missing(request.method(), admitted.target()) {
            asked.note_withheld(withheld, admitted.target(), (&self.denials, &self.context));
        }
        let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
        let sent = self.guard.send(self.errand(options), admitted, request);
        let (denials, context) = (Arc::clone(&self.denials), Arc::clone(&self.context));
        Box::new(async move {
            let sent = sent.await.map_err(|_| Error::InternalError(None))?;
            let response = sent.map_err(|failure| {
                asked.note(&failure, &denials, &context);
                error(&failure)
            })?;
            let response = response.map(|body| body.map_err(|failure| error(&failure)).boxed_unsync());
            Ok((response, Box::new(async { Ok(()) }) as Worker))
        })
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        BODY_CHUNK
    }

    fn p3_outgoing_body_chunk_size(&mut self) -> usize {
        BODY_CHUNK
    }
}

/// A request, as a denial tells of it.
struct Asked {
    /// The interface by which it was asked.
    import: &'static str,
    /// Method and URL, without query and user.
    text: String,
    /// The smallest rule that can be pasted into a shell.
    rule: String,
}

impl Asked {
    fn of(request: &http::Request<WasiBody>, import: &'static str) -> Self {
        let (uri, method) = (request.uri(), request.method().as_str());
        let scheme = uri.scheme_str().unwrap_or("https");
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let host = authority.rsplit('@').next().unwrap_or_default();
        let text = plain(&format!("{method} {scheme}://{host}{}", uri.path()), MAX_ADDRESS);
        let rule = Target::parse(&uri.to_string()).map_or_else(
            |_| "none".to_owned(),
            |target| {
                let word = method.bytes().all(|b| b.is_ascii_uppercase());
                let origin = target.origin();
                if word { format!("{method} {origin}") } else { origin }
            },
        );
        Self { import, text, rule: plain(&rule, MAX_ADDRESS) }
    }

    /// Writes down a failure that a grant or the operator could have prevented.
    fn note(&self, failure: &Failure, denials: &Mutex<Denials>, run: &RunContext) {
        let Self { text, rule, .. } = self;
        let (grant, fix) = match failure {
            Failure::Denied(Layer::Manifest) => (
                format!("network: {rule}"),
                format!("add \"{rule}\" to grants.network in the manifest and push it as a new version"),
            ),
            Failure::Denied(Layer::Request) => {
                (format!("network: {rule}"), "send the request without \"networkEnabled\": false".to_owned())
            }
            Failure::Denied(layer) => {
                let flag = format!("--network '{rule}'");
                let Some(missing) = layer.wider_key("network", (rule, &flag), &run.parties()) else { return };
                missing
            }
            Failure::UsedUp => (
                "ceilings.budgets.egressBytesPerDay of the calling key".to_owned(),
                "wait for the next UTC day, or call with a key that has a larger budget".to_owned(),
            ),
            Failure::Prohibited(address) => {
                tracing::info!(egress.address = %address, egress.asked = text, "An address that is not public was refused");
                let fix = "the operator can allow its network: skillvisor serve --egress-allow-cidrs CIDR";
                ("egress.allow_cidrs".to_owned(), fix.to_owned())
            }
            Failure::OwnHeader(name) => (
                "none".to_owned(),
                format!("leave the header that the secret {name} goes into to the host: the guest sets it too"),
            ),
            Failure::Unsafe(why) => ("none".to_owned(), format!("no grant allows it: the request {why}")),
            _ => return,
        };
        self.push(grant, fix, denials);
    }

    /// Writes down that the request goes without a secret.
    fn note_withheld(&self, withheld: &Withheld, target: &Target, (denials, run): (&Mutex<Denials>, &RunContext)) {
        let Withheld { name, layer, .. } = withheld;
        let name = name.as_str();
        let flag = format!("--secret {name}");
        let missing = layer.and_then(|layer| layer.wider_key("secrets", (name, &flag), &run.parties()));
        let (grant, fix) = missing.unwrap_or_else(|| {
            let fix = format!("skillvisor secrets set {name} --for {} --header Authorization", target.origin());
            (format!("secrets: {name}"), fix)
        });
        self.push(grant, plain(&fix, MAX_FIX), denials);
    }

    fn push(&self, grant: String, fix: String, denials: &Mutex<Denials>) {
        let denial = Denial { import: self.import.into(), asked: self.text.clone(), grant, fix };
        denials.lock().note(denial);
    }
}

/// The interface's own word for a failure.
fn error(failure: &Failure) -> Error {
    match failure {
        Failure::Unsafe(_) => Error::HttpRequestUriInvalid,
        Failure::Denied(_) | Failure::UsedUp | Failure::OwnHeader(_) => Error::HttpRequestDenied,
        Failure::Prohibited(_) => Error::DestinationIpProhibited,
        Failure::NoAddress => Error::DnsError { rcode: None, info_code: None },
        Failure::LookupTimeout => Error::DnsTimeout,
        Failure::TooManyConnections => Error::ConnectionLimitReached,
        Failure::Unreachable => Error::ConnectionRefused,
        Failure::ConnectTimeout => Error::ConnectionTimeout,
        Failure::Certificate => Error::TlsCertificateError,
        Failure::Tls => Error::TlsProtocolError,
        Failure::RequestBody(most) => Error::HttpRequestBodySize(Some(*most)),
        Failure::ResponseHead(most) => Error::HttpResponseHeaderSectionSize(Some(*most)),
        Failure::ResponseBody(most) => Error::HttpResponseBodySize(Some(*most)),
        Failure::ReadTimeout => Error::ConnectionReadTimeout,
        Failure::Late => Error::HttpResponseTimeout,
        Failure::Incomplete => Error::HttpResponseIncomplete,
        Failure::Protocol => Error::HttpProtocolError,
        Failure::Coded => Error::HttpResponseContentCoding(None),
    }
}

/// The same for the guest, for what can happen in the middle of a body.
pub(super) fn body_error(error: &Error) -> Option<ErrorCode> {
    Some(match error {
        Error::HttpRequestBodySize(most) => ErrorCode::HttpRequestBodySize(*most),
        Error::HttpResponseBodySize(most) => ErrorCode::HttpResponseBodySize(*most),
        Error::HttpResponseHeaderSectionSize(most) => ErrorCode::HttpResponseTrailerSectionSize(*most),
        Error::ConnectionReadTimeout => ErrorCode::ConnectionReadTimeout,
        Error::HttpResponseTimeout => ErrorCode::HttpResponseTimeout,
        Error::HttpResponseIncomplete => ErrorCode::HttpResponseIncomplete,
        Error::HttpProtocolError => ErrorCode::HttpProtocolError,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use http_body_util::Empty;

    use super::*;
    use crate::egress::EgressSettings;
    use crate::model::Digest;

    fn denial(uri: &str) -> Denial {
        let call = SandboxCall::detached(Digest::of(b""), "null");
        let mut egress = Egress::new(&call, Guard::new(EgressSettings::default()).unwrap());
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let request = http::Request::get(uri).body(body).unwrap();
        drop(egress.send_request(request, None, Box::new(async { Ok(()) })));
        egress.end().0.remove(0)
    }

    #[tokio::test]
    async fn a_denial_repeats_no_more_of_an_address_than_a_reader_wants() {
        let denial = denial(&format!("https://{0}/{0}", "x".repeat(5000)));
        for text in [&denial.asked, &denial.grant] {
            assert!(text.len() <= MAX_ADDRESS + "network: ".len(), "{text}");
        }
    }

    #[tokio::test]
    async fn a_denial_names_neither_user_nor_query_and_its_fix_can_be_pasted() {
        let denial = denial("https://A.example/x';reboot?token=1");
        assert_eq!(denial.asked, "GET https://A.example/x';reboot");
        assert_eq!(denial.grant, "network: GET https://a.example");
        assert!(denial.fix.contains("\"GET https://a.example\" to grants.network"), "{}", denial.fix);
        let denial = self::denial("https://ada:secret@a.example/");
        assert_eq!((denial.asked.as_str(), denial.grant.as_str()), ("GET https://a.example/", "none"));
        assert!(!denial.fix.contains("secret"), "{}", denial.fix);
    }
}
