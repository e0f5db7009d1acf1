//! The guard: from a request and its grants to a response.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, Version};
use http_body::Body as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Limited};
use ipnet::IpNet;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use crate::model::{BoxError, Error, OwnerId};

use super::address;
use super::body::{Held, Pace, Received};
use super::connection::{Connection, MAX_HEAD, Wire};
use super::credential::{Credentials, Injected, require_plain};
use super::failure::Failure;
use super::outside::Outside;
use super::pool::{Owner, Place, Pool};
use super::rule::NetworkGrant;
use super::scrubbed::Answer;
use super::target::{Host, Origin, Scheme, Target};
use super::tls::Tls;

/// Most bytes of a body, there and back, where who asks says nothing else.
pub const MAX_BODY: u64 = 64 << 20;
/// How long waiting for a place, the look-up, connecting and the TLS handshake may take together.
const CONNECT: Duration = Duration::from_secs(10);
/// How long the look-up alone may take.
const LOOK_UP: Duration = Duration::from_secs(5);
/// Most addresses of a name that are tried, and how long each but the last.
const ADDRESSES: usize = 4;
const ATTEMPT: Duration = Duration::from_secs(3);
/// How often connections are looked at that wait.
const SWEEP: Duration = Duration::from_secs(5);

/// Fields that speak of the connection and not of the request.
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// The body of a request.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Bytes of HTTP, both ways.
pub type Meter = Arc<AtomicU64>;

/// What the operator says about ways out.
#[derive(Clone, Debug, Default)]
pub struct EgressSettings {
    /// Networks that may be reached although they are not of the public internet.
    pub allow_cidrs: Vec<IpNet>,
    /// Authorities (PEM) that are trusted beside the system's.
    pub ca_file: Option<PathBuf>,
}

/// For whom and how long something is fetched.
#[derive(Clone, Debug)]
pub struct Errand {
    /// Whose connections are used.
    pub owner: OwnerId,
    /// When the response must be there, body and all.
    pub deadline: std::time::Instant,
    /// Shorter than the guard's own, maybe.
    pub connect_timeout: Option<Duration>,
    /// How long the head of the response may take.
    pub first_byte_timeout: Option<Duration>,
    /// How long the body may pause.
    pub between_bytes_timeout: Option<Duration>,
    /// Most bytes of a body, there and back.
    pub most_body: u64,
    /// Where bytes are counted.
    pub meter: Meter,
}

/// A request's target that the grants allow. Only the guard makes one.
#[derive(Clone, Debug)]
pub struct Admitted {
    method: Method,
    target: Target,
    injected: Injected,
}

impl Admitted {
    /// The same, sent with those secrets that are for it.
    ///
    /// # Errors
    ///
    /// `OwnHeader` if the request, whose head is `own`, has a header where a secret goes.
    pub fn with(self, credentials: &Credentials, own: &HeaderMap) -> Result<Self, Failure> {
        let injected = credentials.choose(&self.method, &self.target, own)?;
        if !injected.is_empty() {
            credentials.note_use();
        }
        Ok(Self { injected, ..self })
    }

    /// Where it goes.
    pub fn target(&self) -> &Target {
        &self.target
    }
}

/// Lets requests out.
pub struct Guard {
    allowed: Vec<IpNet>,
    tls: Tls,
    outside: Outside,
    runtime: Handle,
    pub(super) pool: Pool,
}

impl Guard {
    /// A guard that works on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// `unavailable` if the file with authorities cannot be used.
    pub fn new(settings: EgressSettings) -> Result<Arc<Self>, Error> {
        Self::in_front_of(Outside::Real, settings)
    }

    pub(super) fn in_front_of(outside: Outside, settings: EgressSettings) -> Result<Arc<Self>, Error> {
        let tls = Tls::open(settings.ca_file.as_deref())?;
        let (runtime, pool) = (Handle::current(), Pool::new());
        let guard = Arc::new(Self { allowed: settings.allow_cidrs, tls, outside, runtime, pool });
        let weak = Arc::downgrade(&guard);
        guard.runtime.spawn(async move {
            loop {
                tokio::time::sleep(SWEEP).await;
                match weak.upgrade() {
                    Some(guard) => guard.pool.sweep(),
                    None => break,
                }
            }
        });
        Ok(guard)
    }

    #[cfg(test)]
    pub(super) fn outside(&self) -> &Outside {
        &self.outside
    }

    /// Matches a request with its grants. Nothing has been looked up or sent yet.
    ///
    /// # Errors
    ///
    /// `Unsafe` or `Denied`.
    pub fn admit(&self, grant: &NetworkGrant, method: &Method, target: Target) -> Result<Admitted, Failure> {
        // CONNECT asks for a tunnel, and TRACE shows what others added to the request.
        if matches!(*method, Method::CONNECT | Method::TRACE) {
            return Err(Failure::Unsafe("has the method CONNECT or TRACE"));
        }
        grant.check(method, &target)?;
        Ok(Admitted { method: method.clone(), target, injected: Injected::default() })
    }

    /// Sends an admitted request. What the request itself says of method and URL is replaced.
    /// Dropping the handle closes the connection.
    pub fn send(
        self: &Arc<Self>,
        errand: Errand,
        admitted: Admitted,
        request: Request<Body>,
    ) -> AbortOnDropHandle<Result<Response<Answer>, Failure>> {
        let guard = Arc::clone(self);
        AbortOnDropHandle::new(self.runtime.spawn(async move {
            let deadline = Instant::from_std(errand.deadline);
            let sent = timeout_at(deadline, guard.carry_out(errand, admitted, request)).await;
            sent.unwrap_or(Err(Failure::Late))
        }))
    }

    async fn carry_out(
        self: Arc<Self>,
        errand: Errand,
        admitted: Admitted,
        request: Request<Body>,
    ) -> Result<Response<Answer>, Failure> {
        let owner = self.pool.owner(&errand.owner);
        let by = Instant::now() + errand.connect_timeout.map_or(CONNECT, |asked| asked.min(CONNECT));
        let place = timeout_at(by, self.pool.place(&owner)).await.ok().flatten();
        let place = place.ok_or(Failure::TooManyConnections)?;
        let origin = admitted.target.origin.clone();
        let mut request = prepared(&admitted, request, errand.most_body)?;
        loop {
            let reused = owner.reuse(&origin).await;
            let is_reused = reused.is_some();
            let mut connection = match reused {
                Some(connection) => connection,
                None => timeout_at(by, self.open(&origin, &owner)).await.map_err(|_| Failure::ConnectTimeout)??,
            };
            connection.count_for(Some(Arc::clone(&errand.meter)));
            let again = is_reused.then(|| repeatable(&request)).flatten();
            let sent = connection.sender.try_send_request(request);
            let sent = match errand.first_byte_timeout {
                Some(timeout) => tokio::time::timeout(timeout, sent).await.map_err(|_| Failure::ReadTimeout)?,
                None => sent.await,
            };
            match sent {
                Ok(response) => {
                    let received = self.received(response, &errand, (connection, place, owner, origin));
                    return cleaned(received, &admitted.injected);
                }
                // The other side has closed a connection that waited, before anything was sent
                // or while it was. A new connection is not tried twice, so this ends.
                Err(mut error) => match (error.take_message(), again) {
                    (Some(unsent), _) if is_reused => request = unsent,
                    (None, Some(again)) if error.error().is_incomplete_message() => request = again,
                    _ => return Err(Failure::of(&error.into_error(), MAX_HEAD, errand.most_body)),
                },
            }
        }
    }

    fn received(
        self: &Arc<Self>,
        response: Response<hyper::body::Incoming>,
        errand: &Errand,
        (connection, place, owner, origin): (Connection, Place, Arc<Owner>, Origin),
    ) -> Response<Received> {
        let pace = Pace { deadline: Instant::from_std(errand.deadline), pause: errand.between_bytes_timeout };
        let held = Held { connection, place, guard: Arc::clone(self), owner, origin };
        response.map(|incoming| Received::new(incoming, errand.most_body, pace, held))
    }

    /// A new connection to an address that was checked.
    async fn open(&self, origin: &Origin, owner: &Owner) -> Result<Connection, Failure> {
        let addresses = self.addresses(&origin.host, owner).await?;
        let stream = self.connect(&addresses, origin.port).await?;
        // A request is one write; waiting for more would only make it late.
        let _ = stream.set_nodelay(true);
        let wire: Box<dyn Wire> = match origin.scheme {
            Scheme::Http => Box::new(stream),
            Scheme::Https => Box::new(self.shake_hands(&origin.host, stream).await?),
        };
        Connection::begin(wire, &self.runtime).await
    }

    /// The addresses of a host, all of them checked. One that is not public refuses them all:
    /// a name that leads inside and outside is not what it seems.
    pub(super) async fn addresses(&self, host: &Host, owner: &Owner) -> Result<Vec<IpAddr>, Failure> {
        let name = match host {
            Host::Address(address) => {
                address::check(*address, &self.allowed).map_err(Failure::Prohibited)?;
                return Ok(vec![*address]);
            }
            Host::Name(name) => name,
        };
        let look_up = async {
            let places = self.pool.look_up(owner).await.ok_or(Failure::LookupTimeout)?;
            self.outside.look_up(name, places).await.map_err(|_| Failure::NoAddress)
        };
        let found = tokio::time::timeout(LOOK_UP, look_up).await.map_err(|_| Failure::LookupTimeout)??;
        for address in &found {
            address::check(*address, &self.allowed).map_err(Failure::Prohibited)?;
        }
        if found.is_empty() { Err(Failure::NoAddress) } else { Ok(found) }
    }

    async fn connect(&self, addresses: &[IpAddr], port: u16) -> Result<TcpStream, Failure> {
        let addresses = &addresses[..addresses.len().min(ADDRESSES)];
        let [first @ .., last] = addresses else { return Err(Failure::NoAddress) };
        for address in first {
            let connecting = self.outside.connect(SocketAddr::new(*address, port));
            if let Ok(Ok(stream)) = tokio::time::timeout(ATTEMPT, connecting).await {
                return Ok(stream);
            }
        }
        self.outside.connect(SocketAddr::new(*last, port)).await.map_err(|_| Failure::Unreachable)
    }

    async fn shake_hands(&self, host: &Host, stream: TcpStream) -> Result<impl Wire + use<>, Failure> {
        let name = match host {
            Host::Name(name) => ServerName::try_from(name.clone()).map_err(|_| Failure::Certificate)?,
            Host::Address(address) => ServerName::from(*address),
        };
        let config = self.tls.config().await.map_err(|_| Failure::Tls)?;
        TlsConnector::from(config).connect(name, stream).await.map_err(|error| {
            let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
            if matches!(cause, Some(rustls::Error::InvalidCertificate(_))) {
                Failure::Certificate
            } else {
                Failure::Tls
            }
        })
    }
}

/// The answer without the secrets that went out with the request.
fn cleaned(received: Response<Received>, injected: &Injected) -> Result<Response<Answer>, Failure> {
    if injected.is_empty() {
        return Ok(received.map(|body| Answer::new(body, None)));
    }
    require_plain(received.headers())?;
    // Nothing goes back if it cannot be looked through.
    let scrub = injected.scrub().ok_or(Failure::Coded)?;
    let mut received = received;
    scrub.fields(received.headers_mut());
    Ok(received.map(|body| Answer::new(body, Some(scrub))))
}

/// The same request once more, if it changes nothing to send it twice (RFC 9110, section 9.2.2).
fn repeatable(request: &Request<Body>) -> Option<Request<Body>> {
    if !request.method().is_safe() || !request.body().is_end_stream() {
        return None;
    }
    let mut again = Request::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.headers_mut() = request.headers().clone();
    Some(again)
}

/// The request as it is sent: path and `host` as they were matched.
fn prepared(admitted: &Admitted, request: Request<Body>, most: u64) -> Result<Request<Body>, Failure> {
    let (parts, body) = request.into_parts();
    let target = &admitted.target;
    let illegal = |_| Failure::Unsafe("has a URL that cannot be sent");
    let uri: Uri = target.path_and_query().parse().map_err(illegal)?;
    let host = HeaderValue::try_from(target.origin.authority());
    let host = host.map_err(|_| Failure::Unsafe("has a host that cannot be sent"))?;
    let mut headers: HeaderMap = parts.headers;
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    headers.insert(header::HOST, host);
    admitted.injected.put(&mut headers)?;
    let limit = usize::try_from(most).unwrap_or(usize::MAX);
    let mut request = Request::new(Limited::new(body, limit).boxed_unsync());
    *request.method_mut() = admitted.method.clone();
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_11;
    *request.headers_mut() = headers;
    Ok(request)
}
