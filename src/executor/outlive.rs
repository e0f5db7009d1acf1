//! Work that goes on when the one who waits for it leaves.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A future that runs in its caller's task, which costs no hand-over between tasks, and that
/// is moved to a task of its own, to be finished there, if the caller drops it before its end.
pub(super) struct Outlive<T: Send + 'static> {
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    left: CancellationToken,
    runtime: Handle,
}

impl<T: Send + 'static> Outlive<T> {
    /// Starts `work`; `left` is cancelled when the caller leaves before its end, and `all`
    /// knows of it until then. Must be called on a tokio runtime.
    pub(super) fn new(
        left: CancellationToken,
        all: &TaskTracker,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        let work = all.track_future(work);
        Self { work: Some(Box::pin(work)), left, runtime: Handle::current() }
    }
}

impl<T: Send + 'static> Future for Outlive<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        let done = work.as_mut().poll(cx);
        if done.is_ready() {
            self.work = None;
        }
        done
    }
}

impl<T: Send + 'static> Drop for Outlive<T> {
    fn drop(&mut self) {
        // A future that panicked must not be polled again.
        if let Some(work) = self.work.take().filter(|_| !std::thread::panicking()) {
            self.left.cancel();
            drop(self.runtime.spawn(work));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_ends_in_place_when_its_caller_stays() {
        let left = CancellationToken::new();
        assert_eq!(Outlive::new(left.clone(), &TaskTracker::new(), async { 7 }).await, 7);
        assert!(!left.is_cancelled());
    }

    #[tokio::test]
    async fn work_is_finished_after_its_caller_left() {
        let (left, (said, heard)) = (CancellationToken::new(), oneshot::channel());
        let (leaving, all) = (left.clone(), TaskTracker::new());
        let mut work = Box::pin(Outlive::new(left, &all, async move {
            leaving.cancelled().await;
            said.send("closed").unwrap();
        }));
        assert!(futures_util::poll!(&mut work).is_pending());
        drop(work);
        all.close();
        all.wait().await;
        assert_eq!(heard.await.unwrap(), "closed");
    }
}
