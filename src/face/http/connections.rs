//! How many connections are held at one time, so that files never run out.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// More connections than this are not held, however many files may be open.
const MOST: u64 = 16_384;

/// Raises the number of files this process may have open as far as the system lets it.
///
/// # Errors
///
/// As the system gives them; the limit then stays as it was.
pub fn raise_descriptor_limit() -> std::io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

/// Log lines about refused connections are at least this far apart.
const INTERVAL: Duration = Duration::from_secs(10);

/// The places for connections.
pub(super) struct Connections {
    places: Arc<Semaphore>,
    /// Most places of one client; none where all clients come from the address of a proxy.
    share: Option<usize>,
    /// How many places each client has.
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
    logged: Mutex<Option<Instant>>,
}

/// One connection's place; free again when dropped.
pub(super) struct Place {
    client: IpAddr,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
    _permit: OwnedSemaphorePermit,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// Nobody gets one.
    Host,
    /// This client has as many as one may have.
    Client,
}

impl Connections {
    /// Three of four files that this process may have open are for connections; uploads, the
    /// database and compile workers have the fourth. Of those, one client may have three of
    /// four, so that it cannot lock out the others, unless `behind_proxy`.
    pub(super) fn for_this_process(behind_proxy: bool) -> Self {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let places = usize::try_from((files / 4 * 3).min(MOST)).unwrap_or(Semaphore::MAX_PERMITS);
        Self::new(places, (!behind_proxy).then_some((places / 4 * 3).max(1)))
    }

    fn new(places: usize, share: Option<usize>) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), share, taken: Arc::default(), logged: Mutex::default() }
    }

    /// A place for a client, if one is free.
    ///
    /// # Errors
    ///
    /// Whose places are taken.
    pub(super) fn enter(&self, address: IpAddr) -> Result<Place, Full> {
        let client = client(address);
        let mut taken = self.taken.lock();
        let own = taken.get(&client).copied().unwrap_or_default();
        if self.share.is_some_and(|share| own >= share) {
            return Err(Full::Client);
        }
        let permit = Arc::clone(&self.places).try_acquire_owned().map_err(|_| Full::Host)?;
        taken.insert(client, own + 1);
        Ok(Place { client, taken: Arc::clone(&self.taken), _permit: permit })
    }

    /// Tells a client that there is no place for it. Nothing waits: what does not fit into
    /// the socket at once is not sent.
    pub(super) fn refuse(&self, stream: &TcpStream, why: Full) {
        let _ = stream.try_write(why.reply().as_bytes());
        let mut logged = self.logged.lock();
        if logged.is_none_or(|at| at.elapsed() >= INTERVAL) {
            *logged = Some(Instant::now());
            tracing::warn!("Connections are refused: {}; the limit on open files sets it", why.detail());
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        if let Entry::Occupied(mut own) = taken.entry(self.client) {
            *own.get_mut() -= 1;
            if *own.get() == 0 {
                own.remove();
            }
        }
    }
}

impl Full {
    const fn detail(self) -> &'static str {
        match self {
            Self::Host => "this host holds as many connections as it can",
            Self::Client => "this host holds as many connections of one address as it may",
        }
    }

    /// What the client is sent, whatever it wanted to say.
    fn reply(self) -> String {
        let body = format!(
            "{{\"type\":\"/problems/overloaded\",\"title\":\"Overloaded\",\"status\":503,\"detail\":\"{}; try again \
             later\",\"instance\":\"/\",\"code\":\"overloaded\"}}",
            self.detail()
        );
        format!(
            "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncache-control: no-store\r\n\
             x-content-type-options: nosniff\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\r\n\
             {body}",
            body.len()
        )
    }
}

/// Who counts as one client. A single customer of a network has 2^64 addresses of IPv6 (RFC 6177).
fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_as_long_as_it_says() {
        for why in [Full::Host, Full::Client] {
            let reply = why.reply();
            let (head, body) = reply.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
            let problem: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!(problem["code"], crate::model::Code::Overloaded.as_str());
        }
    }

    #[test]
    fn one_client_has_its_share_and_no_more_however_many_addresses_it_has() {
        let connections = Connections::new(4, Some(3));
        let enter = |address: &str| connections.enter(address.parse().unwrap());
        let mut places: Vec<_> = ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::"].map(enter).into();
        assert_eq!(enter("2001:db8::3").err(), Some(Full::Client));
        places.push(enter("2001:db8:0:1::1"));
        assert!(places.iter().all(Result::is_ok));
        assert_eq!(enter("192.0.2.1").err(), Some(Full::Host));
        drop(places);
        let places: Vec<_> = ["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1"].map(enter).into();
        assert_eq!(enter("192.0.2.1").err(), Some(Full::Client));
        drop((enter("192.0.2.2").ok(), places));
        assert!(connections.taken.lock().is_empty());
    }

    #[test]
    fn behind_a_proxy_one_address_may_have_every_place() {
        let connections = Connections::new(2, None);
        let places = [1, 2].map(|_| connections.enter("192.0.2.1".parse().unwrap()));
        assert!(places.iter().all(Result::is_ok));
        assert_eq!(connections.enter("192.0.2.1".parse().unwrap()).err(), Some(Full::Host));
    }
}
