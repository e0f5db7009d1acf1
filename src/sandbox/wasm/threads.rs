//! The threads that guests run on, apart from those that serve requests.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::task::AbortOnDropHandle;

use crate::model::{Code, Error};
use crate::sandbox::SandboxReply;

use super::EVENT_INTERVAL;

/// A guest that holds a thread for this long without a break is a lump. Guests give way at
/// each tick of a millisecond; one instruction that fills or copies much memory cannot.
const LUMP: Duration = Duration::from_millis(20);
/// For how long a component is known for its lumps.
const MEMORY: Duration = Duration::from_secs(30);

/// One guest's run.
pub(super) type Work = Pin<Box<dyn Future<Output = Result<SandboxReply, Error>> + Send>>;

/// Two sets of threads, one for each processor in each: those who come in lumps have one of
/// their own, or everybody else would wait behind them. The kernel is fair between threads.
pub(super) struct Threads {
    even: Option<Runtime>,
    lumpy: Option<Runtime>,
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
        Ok(Self { even: Some(runtime("guest")?), lumpy: Some(runtime("guest-lumpy")?) })
    }

    /// Runs a guest to its end. Dropping the future stops it.
    pub(super) async fn run(&self, work: Work, lumps: Arc<Lumps>) -> Result<SandboxReply, Error> {
        let (Some(even), Some(lumpy)) = (&self.even, &self.lumpy) else {
            return Err(Error::new(Code::Unavailable, "the host is shutting down"));
        };
        let task = if lumps.are_known() {
            lumpy.spawn(work)
        } else {
            even.spawn(Moving { work: Some(work), moved: None, to: lumpy.handle().clone(), lumps })
        };
        AbortOnDropHandle::new(task).await.map_err(Error::internal)?
    }

    /// Where guests run that have done nothing wrong.
    pub(super) fn even(&self) -> Option<&Runtime> {
        self.even.as_ref()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for runtime in [self.even.take(), self.lumpy.take()].into_iter().flatten() {
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
    moved: Option<AbortOnDropHandle<Result<SandboxReply, Error>>>,
    to: Handle,
    lumps: Arc<Lumps>,
}

impl Future for Moving {
    type Output = Result<SandboxReply, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(work) = &mut self.work {
            let begun = Instant::now();
            let polled = work.as_mut().poll(cx);
            if begun.elapsed() >= LUMP {
                self.lumps.seen();
            }
            if polled.is_ready() || begun.elapsed() < LUMP {
                return polled;
            }
            self.moved = self.work.take().map(|work| AbortOnDropHandle::new(self.to.spawn(work)));
        }
        match self.moved.as_mut().map(|task| Pin::new(task).poll(cx)) {
            Some(Poll::Ready(Ok(reply))) => Poll::Ready(reply),
            // As if it had happened here.
            Some(Poll::Ready(Err(error))) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The host is shutting down, and with it whoever waits for this.
            _ => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RunError;

    async fn thread() -> Result<SandboxReply, Error> {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        Ok(SandboxReply::without_run(RunError::new(Code::Internal, name)))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_holds_a_thread_goes_on_among_its_like_and_starts_there_the_next_time() {
        let threads = Threads::start().unwrap();
        let lumps = Arc::new(Lumps::default());
        let name = async |work: Work| threads.run(work, Arc::clone(&lumps)).await.unwrap().outcome.unwrap_err().message;
        assert_eq!(name(Box::pin(thread())).await, "guest");
        let lump = async {
            let begun = Instant::now();
            while begun.elapsed() < LUMP {}
            tokio::task::yield_now().await;
            thread().await
        };
        assert_eq!(name(Box::pin(lump)).await, "guest-lumpy");
        assert_eq!(name(Box::pin(thread())).await, "guest-lumpy");
    }
}
