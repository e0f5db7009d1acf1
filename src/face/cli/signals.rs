//! The signals that ask a process to end, or to read its certificate again.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit::Failure;

/// SIGTERM and SIGINT, from now on.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts to listen; from then on they do not end the process by themselves.
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// Comes back with the next one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// SIGHUP, from now on, where it means something; elsewhere it ends the process as ever.
pub(super) struct Hangups(Option<Signal>);

impl Hangups {
    /// Starts to listen if `wanted`.
    pub(super) fn new(wanted: bool) -> Result<Self, Failure> {
        wanted.then(|| listen(SignalKind::hangup())).transpose().map(Self)
    }

    /// Comes back with the next one, or never.
    pub(super) async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::internal(format!("cannot listen for signals: {error}")))
}
