//! How many connections are held at one time, so that files never run out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// More connections than this are not held, however many files may be open.
const MOST: u64 = 16_384;

/// What a connection gets for which there is no place.
const FULL: &str = "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n\
    cache-control: no-store\r\nx-content-type-options: nosniff\r\ncontent-type: application/problem+json\r\n\
    content-length: 174\r\n\r\n\
    {\"type\":\"/problems/overloaded\",\"title\":\"Overloaded\",\"status\":503,\"detail\":\"this host holds as many \
    connections as it can; try again later\",\"instance\":\"/\",\"code\":\"overloaded\"}";

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
    logged: Mutex<Option<Instant>>,
}

/// One connection's place; free again when dropped.
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
}

impl Connections {
    /// Three of four files that this process may have open are for connections; uploads, the
    /// database and compile workers have the fourth.
    pub(super) fn for_this_process() -> Self {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let places = usize::try_from((files / 4 * 3).min(MOST)).unwrap_or(Semaphore::MAX_PERMITS);
        Self { places: Arc::new(Semaphore::new(places)), logged: Mutex::default() }
    }

    /// A place, if one is free.
    pub(super) fn enter(&self) -> Option<Place> {
        Arc::clone(&self.places).try_acquire_owned().ok().map(|permit| Place { _permit: permit })
    }

    /// Tells a client that there is no place for it. Nothing waits: what does not fit into
    /// the socket at once is not sent.
    pub(super) fn refuse(&self, stream: &TcpStream) {
        let _ = stream.try_write(FULL.as_bytes());
        let mut logged = self.logged.lock();
        if logged.is_none_or(|at| at.elapsed() >= INTERVAL) {
            *logged = Some(Instant::now());
            tracing::warn!("Connections are refused: there is no place for more; the limit on open files sets it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_is_as_long_as_it_says() {
        let (head, body) = FULL.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(problem["code"], crate::model::Code::Overloaded.as_str());
    }
}
