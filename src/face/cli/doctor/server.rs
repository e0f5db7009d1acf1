//! Who holds the lock, and whether it answers.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::face::cli::client::Client;
use crate::face::cli::embed::Holder;
use crate::face::cli::trust::Trust;
use crate::host::LOCK_FILE;

use super::Check;

pub(super) async fn check(data_dir: &Path) -> Check {
    let holder = Holder::of(data_dir);
    match (is_locked(data_dir), holder) {
        (false, None) => Check::ok("server", "none runs here; commands open the data directory themselves"),
        (false, Some(holder)) => Check::ok(
            "server",
            format!("none runs here; process {} did not stop cleanly, and the next start mends that", holder.pid),
        ),
        (true, None) => Check::warn(
            "server",
            "a process holds the lock and has not said where it serves",
            "it may be starting; look again in some seconds, or find it with `lsof` on the file `lock`",
        ),
        (true, Some(holder)) => answers(&holder).await,
    }
}

async fn answers(holder: &Holder) -> Check {
    let found = format!("process {} serves {}", holder.pid, holder.url);
    match Client::new(&holder.url, None, &Trust::Holder(holder.certificate)) {
        Ok(client) if client.is_alive().await => Check::ok("server", found),
        _ => Check::fail(
            "server",
            format!("{found}, but does not answer"),
            format!(
                "look at its log; `kill {}` ends it, and what ran is closed as interrupted at the next start",
                holder.pid
            ),
        ),
    }
}

/// Whether a process holds the lock. Asks for a shared one, and gives it back at once.
fn is_locked(data_dir: &Path) -> bool {
    let Ok(file) = File::open(data_dir.join(LOCK_FILE)) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[tokio::test]
    async fn a_held_lock_is_seen_and_a_free_one_too() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(check(dir.path()).await.verdict, Verdict::Ok);
        let file = File::create(dir.path().join(LOCK_FILE)).unwrap();
        assert_eq!(check(dir.path()).await.verdict, Verdict::Ok);
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(check(dir.path()).await.verdict, Verdict::Warn);
        std::fs::write(dir.path().join("server.json"), r#"{"pid":1,"url":"http://127.0.0.1:1"}"#).unwrap();
        assert_eq!(check(dir.path()).await.verdict, Verdict::Fail);
    }
}
