//! Work that is long enough for others to wait behind it.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// From how many bytes on reading and checking takes a thread for a millisecond or more.
const LONG: usize = 64 << 10;

/// Does work on so many bytes. Where it takes long, what else this thread has to do goes on on
/// another one.
pub(crate) fn apart<R>(bytes: usize, work: impl FnOnce() -> R) -> R {
    let is_shared = || Handle::try_current().is_ok_and(|home| home.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes >= LONG && is_shared() { block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_go_on_while_much_is_worked_on() {
        let (others, heard) = channel();
        let work = tokio::spawn(async move {
            tokio::spawn(async move { others.send(()).unwrap() });
            apart(LONG, || heard.recv_timeout(Duration::from_secs(60)))
        });
        assert!(work.await.unwrap().is_ok());
    }
}
