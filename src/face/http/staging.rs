//! An uploaded component on its way to the disk: hashed and counted while it streams.

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt;

use crate::files;
use crate::model::{Code, Digest, Error};
use crate::registry::StagedComponent;

use super::{App, read};

/// Writes `body` to a temporary file and syncs it.
///
/// # Errors
///
/// `too_large` past the upload limit; `malformed` if the body breaks off, `request_timeout` if
/// it comes too slowly; `storage_full`.
pub(super) async fn stage<E: std::error::Error + 'static>(
    app: &App,
    body: impl Stream<Item = Result<Bytes, E>>,
) -> Result<StagedComponent, Error> {
    let path = app.host.temporary.join(format!("{}.upload", uuid::Uuid::now_v7()));
    let file = files::create_private(&path).map_err(disk)?;
    // From here on the file goes away again unless it is registered.
    let mut staged = StagedComponent { file: path, digest: Digest::of(b""), bytes: 0 };
    let mut file = tokio::fs::File::from_std(file);
    let mut hash = Sha256::new();
    let mut body = std::pin::pin!(body);
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|error| read::broken_off(&error))?;
        staged.bytes += chunk.len() as u64;
        if staged.bytes > app.max_upload_bytes {
            let detail =
                format!("the component has more than {} bytes (setting upload.max_bytes)", app.max_upload_bytes);
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

fn disk(error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            Error::new(Code::StorageFull, "the disk of the data directory is full")
        }
        _ => Error::internal(error),
    }
}
