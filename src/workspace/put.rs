//! A file that comes from outside: whole at its place in the end, or not there.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::Stat;
use tokio::io::AsyncWriteExt;

use crate::files;

use super::{Quota, RelPath, Space};

/// A file on its way in. Dropped before it is [placed](Incoming::place) it leaves nothing.
pub struct Incoming {
    space: Arc<Space>,
    quota: Quota,
    path: PathBuf,
    file: tokio::fs::File,
    bytes: u64,
    placed: bool,
}

impl Incoming {
    /// Begins with nothing.
    ///
    /// # Errors
    ///
    /// As the system gives them.
    pub async fn begin(space: Arc<Space>, quota: Quota) -> io::Result<Self> {
        let path = space.temporary.join(format!("{}.file", uuid::Uuid::now_v7()));
        // Counts what is there, if nobody has.
        let file = space
            .alone({
                let path = path.clone();
                move |_| files::create_private(&path)
            })
            .await?;
        Ok(Self { space, quota, path, file: file.into(), bytes: 0, placed: false })
    }

    /// Adds bytes. They count from now on.
    ///
    /// # Errors
    ///
    /// `ENOSPC`, and as the system gives them.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.space.reserve(bytes.len() as u64, self.quota)?;
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes).await
    }

    /// Puts it where it belongs, once it is on the disk; says whether nothing was there before.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the quota has no place for one more, and as the system gives them.
    pub async fn place(self, path: RelPath) -> io::Result<(Stat, bool)> {
        let mut incoming = self;
        incoming.file.flush().await?;
        incoming.file.sync_all().await?;
        let space = Arc::clone(&incoming.space);
        // What has begun comes to its end also if the caller leaves, and only there it is known how.
        space
            .alone(move |alone| {
                // As a whole: what is left of it on the way out is cleared away by its drop.
                let mut incoming = incoming;
                let placed = alone.place(&incoming.path, &path, incoming.quota);
                // Also where it is there and only may not be on the disk yet.
                incoming.placed = !incoming.path.exists();
                placed
            })
            .await
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.placed {
            let _ = std::fs::remove_file(&self.path);
            self.space.book.lock().release(self.bytes);
        }
    }
}
