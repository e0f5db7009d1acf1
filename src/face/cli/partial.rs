//! Files that are downloaded.

use std::path::{Path, PathBuf};

use tokio::io::AsyncWriteExt;

use super::exit::Failure;

/// A file under another name until it is whole; removed if it never is.
pub(super) struct Partial {
    file: tokio::fs::File,
    part: PathBuf,
    target: PathBuf,
}

impl Partial {
    /// Begins to write what will be `target`.
    pub(super) async fn create(target: &Path) -> Result<Self, Failure> {
        let mut part = target.as_os_str().to_owned();
        part.push(".part");
        let file = tokio::fs::File::create(&part).await.map_err(|error| unwritable(target, &error))?;
        Ok(Self { file, part: part.into(), target: target.to_owned() })
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).await.map_err(|error| unwritable(&self.target, &error))
    }

    /// Puts it in its place.
    pub(super) async fn finish(mut self) -> Result<(), Failure> {
        let synced = async {
            self.file.flush().await?;
            tokio::fs::rename(&self.part, &self.target).await
        };
        synced.await.map_err(|error| unwritable(&self.target, &error))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.part);
    }
}

fn unwritable(file: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("cannot write {}: {error}", file.display()))
}
