//! What a guest says, on its way to those who follow its run: the newest of it is kept, up to
//! bounds, and each reader takes it at its own pace. Nobody waits for a reader.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::model::{Event, ExecutionId, Heard, Saying};

/// Most events that are kept.
const MAX_EVENTS: usize = 1024;
/// Most bytes of their texts.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// Pieces of a stream that nobody has taken are put together up to this many bytes.
const PIECE: usize = 8 << 10;

/// Where those who follow a run hear of it.
#[derive(Debug, Default)]
pub(super) struct Hub {
    state: Mutex<State>,
    news: Notify,
}

#[derive(Debug, Default)]
struct State {
    kept: VecDeque<Arc<Event>>,
    bytes: usize,
    /// The number of the newest event, and of the newest that a reader took.
    newest: u64,
    taken: u64,
    opened: Option<ExecutionId>,
    ended: bool,
}

/// One who follows a run.
#[derive(Debug)]
pub struct Reader {
    hub: Arc<Hub>,
    after: u64,
    /// Whether what this reader knows is of an earlier life of the host.
    is_lost: bool,
}

impl Hub {
    /// Tells something to all who follow, and to those who come later.
    pub(super) fn tell(&self, attempt: u32, said: Saying) {
        let mut state = self.state.lock();
        if !state.joined(attempt, &said) {
            state.newest += 1;
            let event = Event { id: state.newest, attempt, said };
            state.bytes += event.said.bytes();
            state.kept.push_back(Arc::new(event));
        }
        while state.kept.len() > MAX_EVENTS || state.bytes > MAX_BYTES {
            let Some(gone) = state.kept.pop_front() else { break };
            state.bytes -= gone.said.bytes();
        }
        drop(state);
        self.news.notify_waiters();
    }

    /// Something is left out that will not be told.
    pub(super) fn skip(&self) {
        self.state.lock().newest += 1;
    }

    /// The run is on record.
    pub(super) fn open(&self, id: ExecutionId) {
        self.state.lock().opened = Some(id);
        self.news.notify_waiters();
    }

    /// There is no more.
    pub(super) fn end(&self) {
        self.state.lock().ended = true;
        self.news.notify_waiters();
    }
}

impl State {
    /// Puts a piece of a stream to the one before, if nobody has taken that.
    fn joined(&mut self, attempt: u32, said: &Saying) -> bool {
        let taken = self.taken;
        let Some(last) = self.kept.back_mut().filter(|last| last.id > taken && last.attempt == attempt) else {
            return false;
        };
        let Some(last) = Arc::get_mut(last) else { return false };
        let (text, more) = match (&mut last.said, said) {
            (Saying::Stdout(text), Saying::Stdout(more)) | (Saying::Stderr(text), Saying::Stderr(more)) => (text, more),
            _ => return false,
        };
        if text.len() + more.len() > PIECE {
            return false;
        }
        text.push_str(more);
        self.bytes += more.len();
        true
    }
}

impl Reader {
    /// One who knows what came up to number `after`.
    pub(super) fn new(hub: Arc<Hub>, after: u64) -> Self {
        let is_lost = after > hub.state.lock().newest;
        Self { hub, after: if is_lost { 0 } else { after }, is_lost }
    }

    /// What comes next; nothing when there is no more.
    pub async fn next(&mut self) -> Option<Heard> {
        let hub = Arc::clone(&self.hub);
        loop {
            let mut news = std::pin::pin!(hub.news.notified());
            news.as_mut().enable();
            if let Some(heard) = self.ready() {
                return Some(heard);
            }
            if hub.state.lock().ended {
                // Something may have come in between.
                return self.ready();
            }
            news.await;
        }
    }

    /// What is there already.
    pub fn ready(&mut self) -> Option<Heard> {
        if std::mem::take(&mut self.is_lost) {
            return Some(Heard::Gap(None));
        }
        let mut state = self.hub.state.lock();
        let at = state.kept.partition_point(|event| event.id <= self.after);
        let next = state.kept.get(at).map(Arc::clone);
        let known = next.as_ref().map_or(state.newest, |event| event.id - 1);
        if known > self.after {
            let dropped = known - self.after;
            self.after = known;
            return Some(Heard::Gap(Some(dropped)));
        }
        let event = next?;
        self.after = event.id;
        state.taken = state.taken.max(event.id);
        Some(Heard::Event(event))
    }

    /// Waits until the run is on record.
    pub async fn opened(&self) -> ExecutionId {
        loop {
            let mut news = std::pin::pin!(self.hub.news.notified());
            news.as_mut().enable();
            if let Some(id) = self.hub.state.lock().opened {
                return id;
            }
            news.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(heard: Option<Heard>) -> String {
        match heard {
            Some(Heard::Event(event)) => match &event.said {
                Saying::Stdout(text) | Saying::Stderr(text) => text.clone(),
                other => panic!("{other:?}"),
            },
            Some(Heard::Gap(dropped)) => format!("gap {dropped:?}"),
            None => "end".into(),
        }
    }

    #[tokio::test]
    async fn a_reader_that_is_too_slow_is_told_of_the_gap_and_goes_on_behind_it() {
        let hub = Arc::new(Hub::default());
        let (mut slow, mut quick) = (Reader::new(Arc::clone(&hub), 0), Reader::new(Arc::clone(&hub), 0));
        for number in 0..3000 {
            hub.tell(1, Saying::Stdout(format!("{number} ")));
            assert_eq!(text(quick.ready()), format!("{number} "));
        }
        let kept = 3000 - MAX_EVENTS as u64;
        assert_eq!(text(slow.next().await), format!("gap Some({kept})"));
        assert_eq!(text(slow.next().await), format!("{kept} "));
        let mut again = Reader::new(Arc::clone(&hub), 2999);
        assert_eq!(text(again.next().await), "2999 ");
        hub.end();
        assert!(again.next().await.is_none() && quick.next().await.is_none());
        let mut of_earlier_life = Reader::new(hub, 3001);
        assert_eq!(text(of_earlier_life.next().await), "gap None");
    }

    #[tokio::test]
    async fn what_nobody_took_is_put_together_and_large_texts_push_out_old_ones() {
        let hub = Arc::new(Hub::default());
        for _ in 0..100_000 {
            hub.tell(1, Saying::Stderr("x".into()));
        }
        assert_eq!(hub.state.lock().newest, 100_000_u64.div_ceil(PIECE as u64));
        for _ in 0..40 {
            hub.tell(1, Saying::Stdout("y".repeat(60_000)));
        }
        assert!(hub.state.lock().bytes <= MAX_BYTES);
        assert!(text(Reader::new(hub, 0).next().await).starts_with("gap"));
    }
}
