//! The containers that run now, by their ids.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// How long one waits for a container that was told to end.
const GONE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Live(Mutex<HashMap<String, Entry>>);

#[derive(Clone, Debug)]
struct Entry {
    stop: CancellationToken,
    gone: CancellationToken,
}

/// One that runs; when this is dropped, it is gone.
#[derive(Debug)]
pub(super) struct Present {
    live: Arc<Live>,
    id: String,
    entry: Entry,
}

impl Present {
    /// Somebody wants it to end.
    pub(super) fn stop(&self) -> &CancellationToken {
        &self.entry.stop
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.live.0.lock().remove(&self.id);
        self.entry.gone.cancel();
    }
}

impl Live {
    /// Notes one that begins; none if there is one with this id.
    pub(super) fn enter(self: &Arc<Self>, id: String) -> Option<Present> {
        let mut live = self.0.lock();
        if live.contains_key(&id) {
            return None;
        }
        let entry = Entry { stop: CancellationToken::new(), gone: CancellationToken::new() };
        live.insert(id.clone(), entry.clone());
        Some(Present { live: Arc::clone(self), id, entry })
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.0.lock().contains_key(id)
    }

    pub(super) fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// Ends one; whether there was one, and it is gone.
    pub(super) async fn kill(&self, id: &str) -> bool {
        let entry = self.0.lock().get(id).cloned();
        let Some(entry) = entry else { return false };
        entry.stop.cancel();
        tokio::time::timeout(GONE, entry.gone.cancelled()).await.is_ok()
    }

    /// Ends all that run now, and waits until they are gone; how many that were.
    pub(super) async fn kill_all(&self) -> usize {
        let all: Vec<_> = self.0.lock().values().cloned().collect();
        all.iter().for_each(|entry| entry.stop.cancel());
        let gone = async {
            for entry in &all {
                entry.gone.cancelled().await;
            }
        };
        let _ = tokio::time::timeout(GONE, gone).await;
        all.len()
    }
}
