//! The listening socket and its connections.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tower::ServiceExt;

use crate::host::Host;
use crate::model::{Code, Error};

use super::connections::{Connections, Place};
use super::opening::Opening;
use super::refusals::Peer;
use super::{App, Pace, router};

/// Connections that wait to be accepted. A client beyond that tries again only after a second.
const BACKLOG: u32 = 4096;

/// Where and what to serve.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// The address; port 0 picks one.
    pub listen: SocketAddr,
    /// Largest component that may be uploaded, in bytes.
    pub max_upload_bytes: u64,
    /// How slow a client may be.
    pub pace: Pace,
}

/// A host's HTTP server, bound and not yet serving.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
    host: Host,
    pace: Pace,
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
        let listener = listen(options.listen).map_err(taken)?;
        let address = listener.local_addr().map_err(taken)?;
        let app = App::new(host.clone(), options.max_upload_bytes);
        Ok(Self { listener, address, router: router(app, options.pace), host, pace: options.pace })
    }

    /// The address it is reached at.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves until `stop`, then lets what is under way end for at most `drain`.
    pub async fn run(self, stop: impl Future<Output = ()> + Send, drain: Duration) {
        let graceful = GracefulShutdown::new();
        let connections = Connections::for_this_process();
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = &mut stop => break,
            };
            match accepted {
                Ok((stream, peer)) => match connections.enter() {
                    Some(place) => self.serve(stream, peer, place, &graceful),
                    None => connections.refuse(&stream),
                },
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

    /// Serves one connection, in a task of its own.
    fn serve(&self, stream: TcpStream, peer: SocketAddr, place: Place, graceful: &GracefulShutdown) {
        // Small replies must not wait for a full packet.
        let _ = stream.set_nodelay(true);
        let head = self.pace.head;
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(head);
        builder.http2().timer(TokioTimer::new()).keep_alive_interval(head).keep_alive_timeout(head);
        let router = self.router.clone().map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            request
        });
        let stream = TokioIo::new(Opening::new(stream, head));
        let connection = builder.serve_connection(stream, TowerToHyperService::new(router)).into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("A connection ended: {error}");
            }
            drop(place);
        });
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Or a server that restarts would wait for the old one's connections to be forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
