//! A folder for one run: data directories, logs, copies.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::options::Options;

/// Removed on drop. It lies in the checkout, not in `/tmp`, which is often no real disk.
pub struct WorkDir(PathBuf);

impl WorkDir {
    pub fn create(options: &Options) -> Result<Self> {
        let name = format!("benches/target/run-{}", std::process::id());
        let path = options.root.join(name);
        make_private(&path)?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A new folder in it that only this user can use.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        make_private(&path)?;
        Ok(path)
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("bench: {} stays behind: {error}", self.0.display());
        }
    }
}

fn make_private(path: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot make {}", path.display()))
}
