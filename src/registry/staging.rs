//! A component on its way to the disk: hashed and counted while it streams.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt;

use crate::files;
use crate::model::{Code, Digest, Error};

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
    /// `too_large` past `most`; `storage_full`; and those of `body`.
    pub async fn receive(
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
        let mut body = std::pin::pin!(body);
        while let Some(chunk) = body.next().await {
            let chunk = chunk?;
            staged.bytes += chunk.len() as u64;
            if staged.bytes > most {
                let detail = format!("the component has more than {most} bytes (setting upload.max_bytes)");
                return Err(Error::new(Code::TooLarge, detail));
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

fn disk(error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            Error::new(Code::StorageFull, "the disk of the data directory is full")
        }
        _ => Error::internal(error),
    }
}
