//! Failed authentication in the log: the first at once, a flood as one number.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use parking_lot::Mutex;

use super::problem::instance;

/// Lines are at least this far apart, so that a flood cannot fill the disk.
const INTERVAL: Duration = Duration::from_secs(10);

/// Where a request came from. The server puts it into each request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Counts the requests without a valid key.
#[derive(Clone)]
pub(crate) struct Refusals {
    interval: Duration,
    /// How many were not logged since the last line; none if the next one will be.
    unlogged: Arc<Mutex<Option<u64>>>,
}

impl Default for Refusals {
    fn default() -> Self {
        Self { interval: INTERVAL, unlogged: Arc::default() }
    }
}

impl Refusals {
    /// Takes note of a request that was refused. `why` has nothing in it that was sent.
    pub(super) fn note(&self, parts: &Parts, why: &'static str) {
        let mut unlogged = self.unlogged.lock();
        if let Some(count) = &mut *unlogged {
            *count += 1;
            return;
        }
        *unlogged = Some(0);
        drop(unlogged);
        let peer = parts.extensions.get::<Peer>().map(|peer| peer.0.ip());
        tracing::warn!(
            http.method = %parts.method, http.path = instance(&parts.uri), http.peer = peer.map(tracing_ip), reason = why,
            "A request without a valid key was refused"
        );
        tokio::spawn(self.clone().sum_up());
    }

    /// Logs how many more there were, once the interval is over.
    async fn sum_up(self) {
        tokio::time::sleep(self.interval).await;
        let more = self.unlogged.lock().take().unwrap_or_default();
        if more > 0 {
            tracing::warn!(
                requests = more,
                interval_s = self.interval.as_secs(),
                "{more} more requests without a valid key were refused"
            );
        }
    }
}

fn tracing_ip(address: IpAddr) -> String {
    address.to_canonical().to_string()
}

#[cfg(test)]
mod tests {
    use std::io;

    use axum::http::Request;

    use super::*;

    /// Log lines, kept.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_flood_is_two_lines_and_the_next_flood_too() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        let refusals = Refusals { interval: Duration::from_millis(20), ..Refusals::default() };
        let request = Request::get("/api/skills?key=hidden").header("authorization", "Bearer hidden").body(()).unwrap();
        let (parts, ()) = request.into_parts();
        for _ in 0..2 {
            for _ in 0..1000 {
                refusals.note(&parts, "a reason");
            }
            while refusals.unlogged.lock().is_some() {
                tokio::task::yield_now().await;
            }
        }
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        assert_eq!(text.lines().count(), 4, "{text}");
        assert_eq!(text.matches("999 more requests").count(), 2, "{text}");
        assert!(text.contains("http.path=\"/api/skills\"") && text.contains("a reason"), "{text}");
        assert!(!text.contains("hidden"), "{text}");
    }
}
