//! The threads that guests run on, apart from those that serve requests.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::model::{Error, OwnerId};

use super::EVENT_INTERVAL;
use super::slices::Slices;

/// A guest that holds a thread for this long without a break is a lump. Guests give way at
/// each tick of a millisecond; one instruction that fills or copies much memory cannot.
const LUMP: Duration = Duration::from_millis(20);
/// For how long a component is known for its lumps.
const MEMORY: Duration = Duration::from_secs(30);

/// One guest's run.
pub(super) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Two sets of threads, one for each processor in each: those who come in lumps have one of
/// their own, or everybody else would wait behind them. The kernel is fair between threads.
pub(super) struct Threads {
    handles: Handles,
    runtimes: [Option<Runtime>; 2],
}

/// The way to the threads. What is begun after their end is dropped.
#[derive(Clone)]
pub(super) struct Handles {
    /// Where guests run that have done nothing wrong.
    pub(super) even: Handle,
    lumpy: Handle,
    slices: Arc<Slices>,
}

/// When a component was last seen to hold a thread for too long.
#[derive(Debug, Default)]
pub(super) struct Lumps(Mutex<Option<Instant>>);

impl Lumps {
    fn seen(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    fn are_known(&self) -> bool {
        self.0.lock().is_some_and(|at| at.elapsed() < MEMORY)
    }
}

impl Threads {
    /// Starts them.
    pub(super) fn start() -> Result<Self, Error> {
        let (even, lumpy) = (runtime("guest")?, runtime("guest-lumpy")?);
        let slices = Slices::new(even.metrics().num_workers());
        let handles = Handles { even: even.handle().clone(), lumpy: lumpy.handle().clone(), slices };
        Ok(Self { handles, runtimes: [Some(even), Some(lumpy)] })
    }

    /// The way to them.
    pub(super) fn handles(&self) -> Handles {
        self.handles.clone()
    }
}

impl Handles {
    /// Runs a guest to its end for this owner; returns at once.
    pub(super) fn begin(self, owner: OwnerId, work: Work, lumps: Arc<Lumps>) {
        if lumps.are_known() {
            self.lumpy.spawn(work);
        } else {
            let work = Moving { work: Some(work), to: self.lumpy, lumps };
            self.even.spawn(self.slices.of(owner, work));
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for runtime in self.runtimes.iter_mut().filter_map(Option::take) {
            runtime.shutdown_background();
        }
    }
}

fn runtime(name: &str) -> Result<Runtime, Error> {
    let mut builder = Builder::new_multi_thread();
    builder.thread_name(name).event_interval(EVENT_INTERVAL).enable_all().build().map_err(Error::internal)
}

/// A guest that goes on among its like once it has held a thread for too long.
struct Moving {
    work: Option<Work>,
    to: Handle,
    lumps: Arc<Lumps>,
}

impl Future for Moving {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(work) = &mut self.work else { return Poll::Ready(()) };
        let begun = Instant::now();
        let polled = work.as_mut().poll(cx);
        if begun.elapsed() < LUMP {
            return polled;
        }
        self.lumps.seen();
        if polled.is_pending()
            && let Some(work) = self.work.take()
        {
            self.to.spawn(work);
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    /// On which set of threads a guest ends that first does `before`.
    async fn threads_of(handles: Handles, lumps: &Arc<Lumps>, before: Work) -> String {
        let (name, named) = oneshot::channel();
        let work = async move {
            before.await;
            name.send(std::thread::current().name().unwrap_or_default().to_owned()).unwrap();
        };
        handles.begin(OwnerId::system(), Box::pin(work), Arc::clone(lumps));
        named.await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_holds_a_thread_goes_on_among_its_like_and_starts_there_the_next_time() {
        let threads = Threads::start().unwrap();
        let lumps = Arc::new(Lumps::default());
        let ends_on = async |before: Work| threads_of(threads.handles(), &lumps, before).await;
        assert_eq!(ends_on(Box::pin(async {})).await, "guest");
        let lump = async {
            let begun = Instant::now();
            while begun.elapsed() < LUMP {}
            tokio::task::yield_now().await;
        };
        assert_eq!(ends_on(Box::pin(lump)).await, "guest-lumpy");
        assert_eq!(ends_on(Box::pin(async {})).await, "guest-lumpy");
    }
}
