//! The listening sockets and their connections.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::http::{Request, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::Service;

use crate::face::mcp::Sites;
use crate::host::Host;
use crate::model::{Code, Error};

use super::connections::{Connections, Place};
use super::opening::Opening;
use super::refusals::Peer;
use super::tls::{Accepted, Tls};
use super::untaken::Untaken;
use super::{App, Pace, clear_text_router, metrics_router, router};

/// How long a client may take over the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest head of a request, and what is read ahead of a body, in bytes.
const MAX_HEAD: usize = 64 << 10;
/// Connections that wait to be accepted. A client beyond that tries again only after a second.
const BACKLOG: u32 = 4096;

/// Where and what to serve.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// The address; port 0 picks one.
    pub listen: SocketAddr,
    /// Speaks TLS with this certificate.
    pub tls: Option<Arc<Tls>>,
    /// The address of a listener for `/metrics` alone, without TLS and without keys.
    pub metrics_listen: Option<SocketAddr>,
    /// Largest component that may be uploaded, in bytes.
    pub max_upload_bytes: u64,
    /// How slow a client may be.
    pub pace: Pace,
    /// Clients come through a proxy, so that many share an address.
    pub behind_proxy: bool,
    /// Names that `/mcp` answers to besides loopback names and addresses.
    pub allowed_hosts: Vec<String>,
    /// Sites whose pages may talk to `/mcp`.
    pub allowed_origins: Vec<String>,
}

/// A host's HTTP server, bound and not yet serving.
pub struct Server {
    api: Listener,
    metrics: Option<Listener>,
    host: Host,
    behind_proxy: bool,
    /// Ends streams that only wait for news.
    stopping: CancellationToken,
}

/// One socket, and what answers there.
struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    router: Router,
    pace: Pace,
    tls: Option<Arc<Tls>>,
}

/// The connections of a server that are open.
struct Open {
    places: Connections,
    graceful: GracefulShutdown,
    /// Ends handshakes, which have nothing to finish.
    stopping: CancellationToken,
}

impl Open {
    fn new(behind_proxy: bool) -> Self {
        let places = Connections::for_this_process(behind_proxy);
        Self { places, graceful: GracefulShutdown::new(), stopping: CancellationToken::new() }
    }
}

impl Server {
    /// Binds the addresses.
    ///
    /// # Errors
    ///
    /// `unavailable` if one is taken or not ours.
    pub async fn bind(host: Host, options: HttpOptions) -> Result<Self, Error> {
        let pace = options.pace;
        let stopping = CancellationToken::new();
        let sites = Sites::new(&options.allowed_hosts, &options.allowed_origins);
        let app = App::new(host.clone(), options.max_upload_bytes, sites, stopping.clone());
        let metrics = match options.metrics_listen {
            Some(address) => Some(Listener::bind(address, metrics_router(app.clone(), pace), pace)?),
            None => None,
        };
        let api = Listener::bind(options.listen, router(app, pace), pace)?;
        let api = Listener { tls: options.tls, ..api };
        Ok(Self { api, metrics, host, behind_proxy: options.behind_proxy, stopping })
    }

    /// The address the API is reached at.
    pub fn url(&self) -> String {
        self.api.url()
    }

    /// The address the metrics are reached at, where they have a listener of their own.
    pub fn metrics_url(&self) -> Option<String> {
        self.metrics.as_ref().map(|listener| format!("{}/metrics", listener.url()))
    }

    /// Serves until `stop`, then lets what is under way end for at most `drain`.
    pub async fn run(self, stop: impl Future<Output = ()> + Send, drain: Duration) {
        let open = Open::new(self.behind_proxy);
        let metrics = async {
            match &self.metrics {
                Some(listener) => listener.serve(&open).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.api.serve(&open) => {}
            () = metrics => {}
            () = stop => {}
        }
        open.stopping.cancel();
        self.stopping.cancel();
        let all = async { tokio::join!(open.graceful.shutdown(), self.host.executor.drain()) };
        if tokio::time::timeout(drain, all).await.is_err() {
            tracing::warn!("Some requests did not end within {drain:?} and are cut off");
        }
        self.host.close().await;
    }
}

impl Listener {
    fn bind(listen: SocketAddr, router: Router, pace: Pace) -> Result<Self, Error> {
        let taken =
            |error: std::io::Error| Error::new(Code::Unavailable, format!("cannot listen on {listen}: {error}"));
        let socket = bound(listen).map_err(taken)?;
        let address = socket.local_addr().map_err(taken)?;
        Ok(Self { socket, address, router, pace, tls: None })
    }

    fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Takes connections, for ever. Nothing that a client does holds this loop up.
    async fn serve(&self, open: &Open) {
        loop {
            match self.socket.accept().await {
                Ok((stream, peer)) => match open.places.enter(peer.ip()) {
                    Ok(place) => self.start(stream, peer, place, open),
                    Err(why) => open.places.refuse(&stream, why),
                },
                Err(error) => {
                    // Out of descriptors, most likely: give those in use time to end.
                    tracing::warn!("A connection could not be accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    /// Serves one connection, in a task of its own.
    fn start(&self, stream: TcpStream, peer: SocketAddr, place: Place, open: &Open) {
        // Small replies must not wait for a full packet.
        let _ = stream.set_nodelay(true);
        hold_to_pace(&stream, self.pace);
        let talk = Talk { router: self.router.clone(), peer, pace: self.pace, watcher: open.graceful.watcher(), place };
        let Some(tls) = self.tls.clone() else {
            tokio::spawn(talk.over(stream));
            return;
        };
        let stopping = open.stopping.clone();
        tokio::spawn(async move {
            let accepted = tokio::select! {
                accepted = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)) => accepted,
                () = stopping.cancelled() => return,
            };
            match accepted {
                Ok(Ok(Accepted::Tls(stream))) => talk.over(stream).await,
                Ok(Ok(Accepted::ClearText(stream))) => {
                    Talk { router: clear_text_router(talk.pace), ..talk }.over(stream).await;
                }
                Ok(Err(error)) => tracing::debug!("A TLS handshake failed: {error}"),
                Err(_) => tracing::debug!("A TLS handshake took longer than {HANDSHAKE_TIMEOUT:?}"),
            }
        });
    }
}

/// What answers on one connection.
struct Talk {
    router: Router,
    peer: SocketAddr,
    pace: Pace,
    watcher: Watcher,
    place: Place,
}

impl Talk {
    /// Answers the requests that come in over `stream`.
    async fn over(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Self { router, peer, pace, watcher, place } = self;
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(pace.head).max_buf_size(MAX_HEAD);
        builder.http2().timer(TokioTimer::new()).keep_alive_interval(pace.head).keep_alive_timeout(pace.head);
        let untaken = Untaken::new();
        let answers = untaken.clone();
        // HTTP/1 has its own end: a head that does not come. All of it counts as one request.
        let http1 = OnceLock::new();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            let asked = (request.version() == Version::HTTP_2).then(|| answers.asked());
            if asked.is_none() {
                http1.get_or_init(|| answers.asked());
            }
            // A router is always ready.
            let answer = router.clone().call(request);
            async move {
                let answer = answer.await?;
                Ok::<_, Infallible>(match asked {
                    Some(asked) => asked.watch(answer),
                    None => answer,
                })
            }
        });
        let stream = TokioIo::new(Opening::new(stream, pace.head));
        let connection = builder.serve_connection(stream, service).into_owned();
        tokio::select! {
            biased;
            ended = watcher.watch(connection) => if let Err(error) = ended {
                tracing::debug!("A connection ended: {error}");
            },
            () = untaken.stalled(pace.answer_pause) => tracing::debug!("A client takes none of its answers"),
            () = untaken.unused(pace.head) => tracing::debug!("A client asks nothing"),
        }
        drop(place);
    }
}

/// Has the system end the connection once its client takes nothing of what was sent. It alone
/// sees what the client takes: what a socket holds says little about it.
fn hold_to_pace(stream: &TcpStream, pace: Pace) {
    let pause = u32::try_from(pace.answer_pause.as_millis()).unwrap_or(u32::MAX);
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(stream, pause) {
        tracing::debug!("A connection cannot be held to its pace: {error}");
    }
}

fn bound(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Or a server that restarts would wait for the old one's connections to be forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
