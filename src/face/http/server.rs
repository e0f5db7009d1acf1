//! The listening sockets and their connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::host::Host;
use crate::model::{Code, Error};

use super::tls::Tls;
use super::{App, metrics_router, router};

/// How long a client may take over the head of a request, and how long an idle connection stays.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client may take over the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

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
}

/// A host's HTTP server, bound and not yet serving.
pub struct Server {
    api: Listener,
    metrics: Option<Listener>,
    host: Host,
}

/// One socket, and what answers there.
struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    router: Router,
    tls: Option<Arc<Tls>>,
}

/// The connections of a server.
#[derive(Default)]
struct Connections {
    graceful: GracefulShutdown,
    /// Ends handshakes, which have nothing to finish.
    stopping: CancellationToken,
}

impl Server {
    /// Binds the addresses.
    ///
    /// # Errors
    ///
    /// `unavailable` if one is taken or not ours.
    pub async fn bind(host: Host, options: HttpOptions) -> Result<Self, Error> {
        let app = App { host: host.clone(), max_upload_bytes: options.max_upload_bytes };
        let metrics = match options.metrics_listen {
            Some(address) => Some(Listener::bind(address, metrics_router(app.clone()), None).await?),
            None => None,
        };
        let api = Listener::bind(options.listen, router(app), options.tls).await?;
        Ok(Self { api, metrics, host })
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
        let connections = Connections::default();
        let metrics = async {
            match &self.metrics {
                Some(listener) => listener.serve(&connections).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.api.serve(&connections) => {}
            () = metrics => {}
            () = stop => {}
        }
        connections.stopping.cancel();
        if tokio::time::timeout(drain, connections.graceful.shutdown()).await.is_err() {
            tracing::warn!("Some requests did not end within {drain:?} and are cut off");
        }
        self.host.close().await;
    }
}

impl Listener {
    async fn bind(listen: SocketAddr, router: Router, tls: Option<Arc<Tls>>) -> Result<Self, Error> {
        let taken =
            |error: std::io::Error| Error::new(Code::Unavailable, format!("cannot listen on {listen}: {error}"));
        let socket = TcpListener::bind(listen).await.map_err(taken)?;
        let address = socket.local_addr().map_err(taken)?;
        Ok(Self { socket, address, router, tls })
    }

    fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Takes connections, for ever. Nothing that a client does holds this loop up.
    async fn serve(&self, connections: &Connections) {
        loop {
            match self.socket.accept().await {
                Ok((stream, _)) => self.start(stream, connections),
                Err(error) => {
                    // Out of descriptors, most likely: give those in use time to end.
                    tracing::warn!("A connection could not be accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    fn start(&self, stream: TcpStream, connections: &Connections) {
        // Small replies must not wait for a full packet.
        let _ = stream.set_nodelay(true);
        let (router, watcher) = (self.router.clone(), connections.graceful.watcher());
        let Some(tls) = self.tls.clone() else {
            tokio::spawn(talk(stream, router, watcher));
            return;
        };
        let stopping = connections.stopping.clone();
        tokio::spawn(async move {
            let accepted = tokio::select! {
                accepted = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)) => accepted,
                () = stopping.cancelled() => return,
            };
            match accepted {
                Ok(Ok(stream)) => talk(stream, router, watcher).await,
                Ok(Err(error)) => tracing::debug!("A TLS handshake failed: {error}"),
                Err(_) => tracing::debug!("A TLS handshake took longer than {HANDSHAKE_TIMEOUT:?}"),
            }
        });
    }
}

/// Answers the requests of one connection.
async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: Router, watcher: Watcher) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(HEADER_TIMEOUT);
    let service = TowerToHyperService::new(router);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!("A connection ended: {error}");
    }
}
