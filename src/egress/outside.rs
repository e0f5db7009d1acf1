//! The network itself: looking names up, and connecting to addresses.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use tokio::net::TcpStream;

/// The network, or one that a test wrote.
pub(super) enum Outside {
    /// The one that the machine is in.
    Real,
    /// Answers in their order, one look-up each, and what was dialled.
    #[cfg(test)]
    Scripted(Script),
}

/// A network for tests.
#[cfg(test)]
#[derive(Default)]
pub(super) struct Script {
    pub(super) answers: parking_lot::Mutex<std::collections::VecDeque<Vec<IpAddr>>>,
    pub(super) looked_up: parking_lot::Mutex<Vec<String>>,
    pub(super) dialled: parking_lot::Mutex<Vec<SocketAddr>>,
}

impl Outside {
    /// The addresses of a name. `place` is given back when the system has answered, which no
    /// deadline can make it do.
    pub(super) async fn look_up(&self, name: &str, place: impl Send + 'static) -> io::Result<Vec<IpAddr>> {
        match self {
            Self::Real => {
                let name = name.to_owned();
                let answer = tokio::task::spawn_blocking(move || {
                    let _place = place;
                    let addresses = (name.as_str(), 0).to_socket_addrs()?;
                    Ok(addresses.map(|address| address.ip()).collect())
                });
                answer.await.map_err(io::Error::other)?
            }
            #[cfg(test)]
            Self::Scripted(script) => {
                drop(place);
                script.looked_up.lock().push(name.to_owned());
                Ok(script.answers.lock().pop_front().unwrap_or_default())
            }
        }
    }

    /// A connection to exactly this address.
    pub(super) async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        match self {
            Self::Real => TcpStream::connect(address).await,
            #[cfg(test)]
            Self::Scripted(script) => {
                script.dialled.lock().push(address);
                Err(io::ErrorKind::ConnectionRefused.into())
            }
        }
    }
}
