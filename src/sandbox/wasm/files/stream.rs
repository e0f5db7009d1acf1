//! A stream into a file, which counts what it writes.

use std::fs::File;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};
use wasmtime_wasi::runtime::{AbortOnDropJoinHandle, spawn};

use crate::workspace::{Quota, Space};

/// Most bytes of one write.
const CAPACITY: usize = 64 << 10;

/// A stream to a place in a file, or to its end.
pub(super) struct FileStream {
    target: Target,
    /// Where the next bytes go; none is the end.
    at: Option<u64>,
    state: Writing,
}

/// What is written to, and how much may be.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) space: Arc<Space>,
    pub(super) file: Arc<File>,
    pub(super) quota: Quota,
}

impl Target {
    /// Writes all of it, or nothing where the quota has no room.
    pub(super) async fn write(self, bytes: Bytes, at: Option<u64>) -> io::Result<()> {
        let Self { space, file, quota } = self;
        space.alone(move |alone| alone.write(&file, &bytes, at, quota)).await
    }
}

enum Writing {
    Ready,
    Waiting(AbortOnDropJoinHandle<io::Result<()>>),
    Failed(io::Error),
    Closed,
}

impl FileStream {
    pub(super) fn new(target: Target, at: Option<u64>) -> Self {
        Self { target, at, state: Writing::Ready }
    }

    /// What went wrong, once.
    fn failure(&mut self) -> StreamResult<()> {
        match std::mem::replace(&mut self.state, Writing::Closed) {
            Writing::Failed(error) => Err(StreamError::LastOperationFailed(error.into())),
            Writing::Closed => Err(StreamError::Closed),
            state => {
                self.state = state;
                Ok(())
            }
        }
    }
}

#[async_trait]
impl OutputStream for FileStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.failure()?;
        if matches!(self.state, Writing::Waiting(_)) || bytes.len() > CAPACITY {
            return Err(StreamError::trap("more was written than check-write allows"));
        }
        let at = self.at;
        self.at = at.map(|at| at.saturating_add(bytes.len() as u64));
        self.state = Writing::Waiting(spawn(self.target.clone().write(bytes, at)));
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.failure()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.failure()?;
        Ok(if matches!(self.state, Writing::Waiting(_)) { 0 } else { CAPACITY })
    }
}

#[async_trait]
impl Pollable for FileStream {
    async fn ready(&mut self) {
        if let Writing::Waiting(task) = &mut self.state {
            self.state = match task.await {
                Ok(()) => Writing::Ready,
                Err(error) => Writing::Failed(error),
            };
        }
    }
}
