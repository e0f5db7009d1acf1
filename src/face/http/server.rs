//! The listening socket and its connections.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};

use crate::host::Host;
use crate::model::{Code, Error};

use super::{App, router};

/// How long a client may take over the head of a request, and how long an idle connection stays.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Where and what to serve.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// The address; port 0 picks one.
    pub listen: SocketAddr,
    /// Largest component that may be uploaded, in bytes.
    pub max_upload_bytes: u64,
}

/// A host's HTTP server, bound and not yet serving.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
    host: Host,
}

impl Server {
    /// Binds the address.
    ///
    /// # Errors
    ///
    /// `unavailable` if it is taken or not ours.
    pub async fn bind(host: Host, options: HttpOptions) -> Result<Self, Error> {
        let taken = |error: std::io::Error| {
            Error::new(Code::Unavailable, format!("cannot listen on {}: {error}", options.listen))
        };
        let listener = TcpListener::bind(options.listen).await.map_err(taken)?;
        let address = listener.local_addr().map_err(taken)?;
        let app = App { host: host.clone(), max_upload_bytes: options.max_upload_bytes };
        Ok(Self { listener, address, router: router(app), host })
    }

    /// The address it is reached at.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves until `stop`, then lets what is under way end for at most `drain`.
    pub async fn run(self, stop: impl Future<Output = ()> + Send, drain: Duration) {
        let graceful = GracefulShutdown::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = &mut stop => break,
            };
            match accepted {
                Ok((stream, _)) => serve(stream, self.router.clone(), &graceful),
                Err(error) => {
                    // Out of descriptors, most likely: give those in use time to end.
                    tracing::warn!("A connection could not be accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
            tracing::warn!("Some requests did not end within {drain:?} and are cut off");
        }
        self.host.close().await;
    }
}

fn serve(stream: TcpStream, router: Router, graceful: &GracefulShutdown) {
    // Small replies must not wait for a full packet.
    let _ = stream.set_nodelay(true);
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(HEADER_TIMEOUT);
    let service = TowerToHyperService::new(router);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!("A connection ended: {error}");
        }
    });
}
