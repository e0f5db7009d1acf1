//! Sessions, which revisions before 2026-07-28 have: whose each is, and how long it lasts.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio_util::sync::CancellationToken;

use crate::model::{Code, Error, KeyId};

/// Most sessions of one key, and of the host.
const PER_KEY: usize = 100;
const HOST: usize = 10_000;
/// Most streams of one key that wait for news.
const LISTENING: usize = 100;
/// A session that nothing uses for this long has ended.
const IDLE: Duration = Duration::from_secs(10 * 60);

/// The sessions that are open.
pub(super) struct Sessions {
    /// Theirs who speaks the protocol. It ends none by itself.
    pub(super) local: Arc<LocalSessionManager>,
    known: Mutex<HashMap<String, Session>>,
    /// How many streams of each key wait for news.
    listening: Arc<Mutex<HashMap<KeyId, usize>>>,
}

/// What handlers see of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct Life {
    /// Cancelled when the session ends.
    pub(super) ended: CancellationToken,
    is_told: Arc<AtomicBool>,
}

impl Life {
    /// Whether nobody has asked this before: its client is told of changes once.
    pub(super) fn begins_to_be_told(&self) -> bool {
        !self.is_told.swap(true, Ordering::Relaxed)
    }
}

struct Session {
    key: KeyId,
    used: Instant,
    /// Requests and streams that are open.
    open: usize,
    life: Life,
}

impl Session {
    fn is_idle(&self, since: Instant) -> bool {
        self.open == 0 && self.used <= since
    }
}

impl Sessions {
    pub(super) fn new() -> Arc<Self> {
        let mut local = LocalSessionManager::default();
        // A stream that is open and silent is in use, which they cannot see.
        local.session_config.keep_alive = None;
        // Nothing can be resumed: who leaves cancels.
        local.session_config.sse_retry = None;
        local.session_config.completed_cache_ttl = Duration::ZERO;
        Arc::new(Self { local: Arc::new(local), known: Mutex::default(), listening: Arc::default() })
    }

    /// Makes room for a session more of this key's: what is idle for long goes, and then what
    /// was not used for longest.
    ///
    /// # Errors
    ///
    /// `rate_limited` if all of the key's are in use, `overloaded` if all of the host's are.
    pub(super) fn make_room(self: &Arc<Self>, key: &KeyId, now: Instant) -> Result<(), Error> {
        self.reap(now);
        let mut known = self.known.lock();
        let mut closed = Vec::new();
        let made = loop {
            let own = known.values().filter(|session| session.key == *key).count();
            let (code, detail) = match (own >= PER_KEY, known.len() >= HOST) {
                (true, _) => (Code::RateLimited, "this key has as many open MCP sessions as it may; end some"),
                (_, true) => (Code::Overloaded, "too many MCP sessions are open on this host"),
                _ => break Ok(()),
            };
            let candidates = known.iter().filter(|(_, session)| session.key == *key || own < PER_KEY);
            let idle = candidates.filter(|(_, session)| session.is_idle(now)).min_by_key(|(_, session)| session.used);
            let Some(oldest) = idle.map(|(id, _)| id.clone()) else { break Err(Error::new(code, detail)) };
            closed.extend(known.remove_entry(&oldest));
        };
        drop(known);
        for (id, session) in closed {
            self.close(id, Some(session));
        }
        made
    }

    /// Takes note of a session that was opened just now.
    pub(super) fn opened(&self, id: &str, key: KeyId, now: Instant) {
        let session = Session { key, used: now, open: 0, life: Life::default() };
        self.known.lock().insert(id.to_owned(), session);
    }

    /// Uses a session.
    ///
    /// # Errors
    ///
    /// `not_found`, also for another key's.
    pub(super) fn enter(self: &Arc<Self>, id: &str, key: &KeyId) -> Result<InUse, Error> {
        let mut known = self.known.lock();
        let session = known.get_mut(id).filter(|session| session.key == *key);
        let session = session.ok_or_else(|| Error::not_found("session"))?;
        session.open += 1;
        Ok(InUse { sessions: Arc::clone(self), id: id.to_owned(), life: session.life.clone() })
    }

    /// A place for a stream of this key's that waits for news: each looks at every change.
    ///
    /// # Errors
    ///
    /// `rate_limited` if it has as many as it may.
    pub(super) fn attend(&self, key: &KeyId) -> Result<Attending, Error> {
        let mut listening = self.listening.lock();
        let count = listening.entry(key.clone()).or_default();
        if *count >= LISTENING {
            return Err(Error::new(Code::RateLimited, "this key has as many open MCP streams as it may; end some"));
        }
        *count += 1;
        Ok(Attending { listening: Arc::clone(&self.listening), key: key.clone() })
    }

    /// Ends a session.
    pub(super) fn end(self: &Arc<Self>, id: &str) {
        let session = self.known.lock().remove(id);
        self.close(id.to_owned(), session);
    }

    /// Ends the sessions that were idle for too long at `now`.
    pub(super) fn reap(self: &Arc<Self>, now: Instant) {
        let Some(since) = now.checked_sub(IDLE) else { return };
        let idle: Vec<_> = self.known.lock().extract_if(|_, session| session.is_idle(since)).collect();
        for (id, session) in idle {
            self.close(id, Some(session));
        }
    }

    fn close(self: &Arc<Self>, id: String, session: Option<Session>) {
        let Some(session) = session else { return };
        session.life.ended.cancel();
        let local = Arc::clone(&self.local);
        tokio::spawn(async move {
            if let Err(error) = local.close_session(&id.into()).await {
                tracing::debug!("An MCP session did not close: {error}");
            }
        });
    }

    /// Ends idle sessions from time to time, until `stopping`.
    pub(super) async fn tend(self: Arc<Self>, stopping: CancellationToken) {
        let mut often = tokio::time::interval(IDLE / 10);
        loop {
            tokio::select! {
                () = stopping.cancelled() => return,
                _ = often.tick() => self.reap(Instant::now()),
            }
        }
    }
}

/// A session that something uses; until it is dropped, the session lasts.
pub(super) struct InUse {
    sessions: Arc<Sessions>,
    id: String,
    pub(super) life: Life,
}

impl Drop for InUse {
    fn drop(&mut self) {
        if let Some(session) = self.sessions.known.lock().get_mut(&self.id) {
            session.open = session.open.saturating_sub(1);
            session.used = Instant::now();
        }
    }
}

/// A stream that waits for news.
pub(super) struct Attending {
    listening: Arc<Mutex<HashMap<KeyId, usize>>>,
    key: KeyId,
}

impl Drop for Attending {
    fn drop(&mut self) {
        let mut listening = self.listening.lock();
        if let Some(count) = listening.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                listening.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(sessions: &Sessions) -> usize {
        sessions.known.lock().len()
    }

    #[tokio::test]
    async fn a_session_is_one_keys_and_ends_when_nothing_used_it_for_long() {
        let sessions = Sessions::new();
        let (own, other) = (KeyId::generate(), KeyId::generate());
        let now = Instant::now();
        sessions.opened("a", own.clone(), now);
        assert_eq!(sessions.enter("a", &other).err().unwrap().code, Code::NotFound);
        let used = sessions.enter("a", &own).unwrap();
        let later = now + IDLE * 2;
        sessions.reap(later);
        assert_eq!(count(&sessions), 1, "it is in use");
        let ended = used.life.ended.clone();
        drop(used);
        sessions.reap(now + IDLE / 2);
        assert_eq!((count(&sessions), ended.is_cancelled()), (1, false));
        sessions.reap(later);
        assert_eq!((count(&sessions), ended.is_cancelled()), (0, true));
        assert_eq!(sessions.enter("a", &own).err().unwrap().code, Code::NotFound);
    }

    #[tokio::test]
    async fn a_key_that_abandons_its_sessions_has_no_more_of_them_than_it_may() {
        let sessions = Sessions::new();
        let (key, other) = (KeyId::generate(), KeyId::generate());
        sessions.opened("other", other.clone(), Instant::now());
        for n in 0..PER_KEY * 3 {
            sessions.make_room(&key, Instant::now()).unwrap();
            sessions.opened(&n.to_string(), key.clone(), Instant::now());
        }
        assert_eq!(count(&sessions), PER_KEY + 1);
        let ids: Vec<String> = sessions.known.lock().keys().filter(|id| *id != "other").cloned().collect();
        let used: Vec<_> = ids.iter().map(|id| sessions.enter(id, &key).unwrap()).collect();
        assert_eq!(sessions.make_room(&key, Instant::now()).unwrap_err().code, Code::RateLimited);
        sessions.make_room(&other, Instant::now()).unwrap();
        drop(used);
        sessions.make_room(&key, Instant::now()).unwrap();
        assert!(sessions.enter("other", &other).is_ok());
    }

    #[tokio::test]
    async fn a_key_has_so_many_streams_and_gives_their_places_back() {
        let sessions = Sessions::new();
        let (key, other) = (KeyId::generate(), KeyId::generate());
        let streams: Vec<_> = (0..LISTENING).map(|_| sessions.attend(&key).unwrap()).collect();
        assert_eq!(sessions.attend(&key).err().unwrap().code, Code::RateLimited);
        assert!(sessions.attend(&other).is_ok());
        drop(streams);
        assert!(sessions.attend(&key).is_ok());
        assert!(sessions.listening.lock().is_empty());
    }
}
