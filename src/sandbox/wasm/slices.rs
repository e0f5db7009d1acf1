//! Slices of the processors, shared out evenly between owners.
//!
//! A guest gives way at each tick of a millisecond. Who goes on then is not who waits the longest, but
//! somebody of the owner that has the fewest slices now: beside any number of another owner's guests, the next
//! slice but one is ours.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

use crate::model::OwnerId;
use crate::sandbox::Fair;

/// As many slices at one time as there are threads: what waits for one is in no thread's way.
pub(super) struct Slices(Mutex<Fair<Arc<Turn>>>);

/// What wakes the work, and says to it that its turn has come.
#[derive(Default)]
struct Turn {
    has_come: AtomicBool,
    /// Whether it wants to go on.
    woken: AtomicBool,
    waker: AtomicWaker,
}

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// Work that goes on in slices.
pub(super) struct Sliced<F> {
    work: F,
    owner: OwnerId,
    slices: Arc<Slices>,
    turn: Arc<Turn>,
    /// The same as a waker.
    waker: Waker,
    /// Where it waits for its next slice.
    waits: Option<u64>,
    /// Whether it has a slice now.
    goes_on: bool,
}

impl Slices {
    /// So many at one time.
    pub(super) fn new(threads: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Fair::new(threads, threads))))
    }

    /// The same work in slices.
    pub(super) fn of<F: Future<Output = ()> + Unpin>(self: &Arc<Self>, owner: OwnerId, work: F) -> Sliced<F> {
        let turn = Arc::<Turn>::default();
        let (slices, waker) = (Arc::clone(self), Waker::from(Arc::clone(&turn)));
        Sliced { work, owner, slices, turn, waker, waits: None, goes_on: false }
    }

    fn leave(&self, owner: &OwnerId) {
        let next = self.0.lock().leave(owner);
        if let Some(next) = next {
            next.come();
        }
    }
}

impl Turn {
    fn come(self: Arc<Self>) {
        self.has_come.store(true, Ordering::Release);
        self.waker.wake();
    }
}

impl<F> Sliced<F> {
    /// Whether there is a slice for it now; if not, it is woken when there is.
    fn may_go_on(&mut self) -> bool {
        if self.waits.is_some() {
            let has_come = self.turn.has_come.swap(false, Ordering::AcqRel);
            if has_come {
                self.waits = None;
            }
            return has_come;
        }
        let mut slices = self.slices.0.lock();
        if slices.take(&self.owner) {
            return true;
        }
        self.waits = Some(slices.line_up(&self.owner, Arc::clone(&self.turn)));
        false
    }

    /// Gives the slice back. Who wants to go on at once lines up before that: else those of others who
    /// have done so already would go first every time.
    fn give_way(&mut self) {
        self.goes_on = false;
        let mut slices = self.slices.0.lock();
        if self.turn.woken.load(Ordering::Acquire) {
            self.waits = Some(slices.line_up(&self.owner, Arc::clone(&self.turn)));
        }
        let next = slices.leave(&self.owner);
        drop(slices);
        if let Some(next) = next {
            next.come();
        }
    }
}

impl<F: Future<Output = ()> + Unpin> Future for Sliced<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.turn.waker.register(cx.waker());
        if !self.may_go_on() {
            return Poll::Pending;
        }
        let Self { work, turn, waker, goes_on, .. } = &mut *self;
        *goes_on = true;
        turn.woken.store(false, Ordering::Release);
        let polled = Pin::new(work).poll(&mut Context::from_waker(waker));
        if polled.is_pending() {
            self.give_way();
        }
        polled
    }
}

impl<F> Drop for Sliced<F> {
    fn drop(&mut self) {
        let has_slice = match self.waits.take() {
            Some(number) => !self.slices.0.lock().give_up(&self.owner, number),
            None => self.goes_on,
        };
        if has_slice {
            self.slices.leave(&self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream::{FuturesUnordered, StreamExt};

    use super::*;

    type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Work of so many slices that writes down each.
    fn work(name: &'static str, slices: usize, order: &Arc<Mutex<Vec<&'static str>>>) -> Work {
        let order = Arc::clone(order);
        Box::pin(async move {
            for _ in 0..slices {
                order.lock().push(name);
                let mut yielded = false;
                std::future::poll_fn(|cx| {
                    // As a guest does at a tick.
                    cx.waker().wake_by_ref();
                    if std::mem::replace(&mut yielded, true) { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
            }
        })
    }

    #[tokio::test]
    async fn beside_a_hundred_of_another_owner_every_other_slice_is_ours() {
        let (slices, order) = (Slices::new(1), Arc::default());
        let owner = |name: &str| -> OwnerId { name.parse().unwrap() };
        let mut running = FuturesUnordered::new();
        // Holds the only slice while the others line up.
        assert!(slices.0.lock().take(&owner("a")));
        for _ in 0..100 {
            running.push(slices.of(owner("a"), work("a", 3, &order)));
        }
        running.push(slices.of(owner("b"), work("b", 10, &order)));
        assert!(futures_util::poll!(running.next()).is_pending());
        slices.leave(&owner("a"));
        while running.next().await.is_some() {}
        let order = order.lock();
        assert_eq!(order.len(), 310);
        let last = order.iter().rposition(|name| *name == "b").unwrap();
        assert!(last < 24, "{:?}", &order[..=last]);
        assert_eq!(slices.0.lock().counts(), (0, 0));
    }

    #[tokio::test]
    async fn who_is_ended_while_it_waits_or_has_its_turn_takes_no_slice_along() {
        let (slices, order) = (Slices::new(1), Arc::default());
        let owner: OwnerId = "a".parse().unwrap();
        let new = || slices.of(owner.clone(), work("a", 1, &order));
        assert!(slices.0.lock().take(&owner));
        let (mut waits, mut has_turn) = (new(), new());
        assert!(futures_util::poll!(&mut has_turn).is_pending() && futures_util::poll!(&mut waits).is_pending());
        slices.leave(&owner);
        drop(waits);
        drop(has_turn);
        assert_eq!(slices.0.lock().counts(), (0, 0));
        new().await;
        assert_eq!(order.lock().len(), 1);
    }
}
