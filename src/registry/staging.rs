//! A component on its way to the disk: hashed and counted while it streams.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt;

use crate::files;
use crate::model::{Code, Digest, Error};

/// Bytes of the disk that uploads leave free: what runs must still be written down.
const FLOOR: u64 = 256 << 20;
/// How many bytes are written before the disk is looked at again.
const STEP: u64 = 1 << 20;

/// A component's bytes in a temporary file, synced; removed when dropped.
#[derive(Debug)]
pub struct StagedComponent {
    /// The file.
    pub file: PathBuf,
    /// SHA-256 of its bytes.
    pub digest: Digest,
    /// How many bytes.
    pub bytes: u64,
}

impl Drop for StagedComponent {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

impl StagedComponent {
    /// Writes `body` to a new file in `directory` and syncs it; takes at most `most` bytes.
    ///
    /// # Errors
    ///
    /// `too_large` past `most`; `storage_full`, also if less than 256 MiB of the disk would be
    /// left; and those of `body`.
    pub async fn receive(
        directory: &Path,
        most: u64,
        body: impl Stream<Item = Result<Bytes, Error>>,
    ) -> Result<Self, Error> {
        Self::receive_above(FLOOR, directory, most, body).await
    }

    async fn receive_above(
        floor: u64,
        directory: &Path,
        most: u64,
        body: impl Stream<Item = Result<Bytes, Error>>,
    ) -> Result<Self, Error> {
        let path = directory.join(format!("{}.upload", uuid::Uuid::now_v7()));
        let file = files::create_private(&path).map_err(disk)?;
        // From here on the file goes away again unless it is registered.
        let mut staged = Self { file: path, digest: Digest::of(b""), bytes: 0 };
        let mut file = tokio::fs::File::from_std(file);
        let mut hash = Sha256::new();
        let mut looked_at = None;
        let mut body = std::pin::pin!(body);
        while let Some(chunk) = body.next().await {
            let chunk = chunk?;
            staged.bytes += chunk.len() as u64;
            if staged.bytes > most {
                let detail = format!("the upload has more than {most} bytes (setting upload.max_bytes)");
                return Err(Error::new(Code::TooLarge, detail));
            }
            if looked_at.is_none_or(|bytes| staged.bytes - bytes >= STEP) {
                require_free(&file, floor.saturating_add(chunk.len() as u64))?;
                looked_at = Some(staged.bytes);
            }
            hash.update(&chunk);
            file.write_all(&chunk).await.map_err(disk)?;
        }
        file.flush().await.map_err(disk)?;
        file.sync_all().await.map_err(disk)?;
        staged.digest = Digest::from_bytes(hash.finalize().into());
        Ok(staged)
    }
}

/// Refuses unless the disk with this file has `bytes` free.
fn require_free(file: &tokio::fs::File, bytes: u64) -> Result<(), Error> {
    let disk = rustix::fs::fstatvfs(file).map_err(|error| disk(error.into()))?;
    if disk.f_bavail.saturating_mul(disk.f_frsize) < bytes {
        return Err(full("the disk of the data directory is nearly full"));
    }
    Ok(())
}

fn full(detail: &str) -> Error {
    Error::new(Code::StorageFull, detail).retry_after(5)
}

fn disk(error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            full("the disk of the data directory is full")
        }
        std::io::ErrorKind::ReadOnlyFilesystem => {
            let detail = "the data directory is read-only";
            Error { source: Some(error.into()), ..Error::new(Code::Unavailable, detail).retry_after(5) }
        }
        _ => Error::internal(error),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    #[tokio::test]
    async fn an_upload_leaves_some_of_the_disk_free_and_nothing_behind_where_it_cannot() {
        let dir = tempfile::tempdir().unwrap();
        let receive = async |floor| {
            let body = stream::iter((0..4).map(|_| Ok(Bytes::from(vec![0; 1 << 20]))));
            StagedComponent::receive_above(floor, dir.path(), u64::MAX, body).await
        };
        assert_eq!(receive(0).await.unwrap().bytes, 4 << 20);
        assert_eq!(receive(u64::MAX).await.unwrap_err().code, Code::StorageFull);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
