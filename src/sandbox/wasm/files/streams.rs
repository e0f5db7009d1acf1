//! The streams of `wasi:filesystem` 0.3: into a file, counted, and out of a directory.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::oneshot;
use wasmtime::StoreContextMut;
use wasmtime::component::{Destination, Source, StreamConsumer, StreamProducer, StreamResult, VecBuffer};
use wasmtime_wasi::p3::bindings::filesystem::types::{DirectoryEntry, ErrorCode};
use wasmtime_wasi::runtime::{AbortOnDropJoinHandle, spawn};

use super::stream::Target;

/// Most bytes of one write.
const CAPACITY: usize = 64 << 10;

/// Where it is said how a stream ended, once.
pub(super) struct Ended(Option<oneshot::Sender<Result<(), ErrorCode>>>);

impl Ended {
    pub(super) fn new(sender: oneshot::Sender<Result<(), ErrorCode>>) -> Self {
        Self(Some(sender))
    }

    fn say(&mut self, result: Result<(), ErrorCode>) {
        if let Some(sender) = self.0.take() {
            // Nobody has to listen.
            let _ = sender.send(result);
        }
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.say(Ok(()));
    }
}

/// Writes what a guest sends to a place in a file, or to its end.
pub(super) struct Sink {
    target: Target,
    /// Where the next bytes go; none is the end.
    at: Option<u64>,
    writing: Option<(AbortOnDropJoinHandle<io::Result<()>>, usize)>,
    ended: Ended,
}

impl Sink {
    pub(super) fn new(target: Target, at: Option<u64>, ended: Ended) -> Self {
        Self { target, at, writing: None, ended }
    }
}

impl<D> StreamConsumer<D> for Sink {
    type Item = u8;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        store: StoreContextMut<'_, D>,
        source: Source<'_, u8>,
        _finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let this = &mut *self;
        let mut source = source.as_direct(store);
        let (task, length) = this.writing.get_or_insert_with(|| {
            let length = source.remaining().len().min(CAPACITY);
            let bytes = Bytes::copy_from_slice(&source.remaining()[..length]);
            (spawn(this.target.clone().write(bytes, this.at)), length)
        });
        // What has begun is waited for, also if the guest does not want it any more.
        let written = ready!(Pin::new(task).poll(cx));
        let length = *length;
        this.writing = None;
        match written {
            Ok(()) => {
                source.mark_read(length);
                this.at = this.at.map(|at| at.saturating_add(length as u64));
                Poll::Ready(Ok(StreamResult::Completed))
            }
            Err(error) => {
                this.ended.say(Err(error.into()));
                Poll::Ready(Ok(StreamResult::Dropped))
            }
        }
    }
}

/// Gives the entries of a directory, all of which are read before the first is given: what waits
/// for a guest to go on is memory, and no thread.
pub(super) struct Entries {
    reading: Option<AbortOnDropJoinHandle<io::Result<Vec<DirectoryEntry>>>>,
    ended: Ended,
    /// One of those that are counted.
    _counted: Arc<()>,
}

impl Entries {
    pub(super) fn new(
        reading: impl Future<Output = io::Result<Vec<DirectoryEntry>>> + Send + 'static,
        ended: Ended,
        counted: Arc<()>,
    ) -> Self {
        Self { reading: Some(spawn(reading)), ended, _counted: counted }
    }
}

impl<D> StreamProducer<D> for Entries {
    type Item = DirectoryEntry;
    type Buffer = VecBuffer<DirectoryEntry>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut store: StoreContextMut<'a, D>,
        mut destination: Destination<'a, DirectoryEntry, Self::Buffer>,
        finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        if destination.remaining(&mut store) == Some(0) {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        let read = match &mut self.reading {
            Some(reading) => match Pin::new(reading).poll(cx) {
                Poll::Pending if finish => return Poll::Ready(Ok(StreamResult::Cancelled)),
                read => ready!(read),
            },
            None => Ok(Vec::new()),
        };
        self.reading = None;
        match read {
            Ok(entries) if !entries.is_empty() => {
                destination.set_buffer(entries.into());
                Poll::Ready(Ok(StreamResult::Completed))
            }
            read => {
                self.ended.say(read.map(drop).map_err(Into::into));
                Poll::Ready(Ok(StreamResult::Dropped))
            }
        }
    }
}
