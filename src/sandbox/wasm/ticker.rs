//! The thread that moves the engine's epoch: how a guest is made to look at the clock.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use wasmtime::EngineWeak;

use crate::model::Error;

/// Time between two looks at the clock.
const TICK: Duration = Duration::from_millis(1);

/// Ticks while a guest runs and sleeps while none does.
///
/// It has a thread of its own, because a timer on a runtime that guests keep busy would
/// come late exactly when it matters.
pub(super) struct Ticker {
    shared: Arc<Shared>,
}

struct Shared {
    running: Mutex<usize>,
    started: Condvar,
    engine: EngineWeak,
}

/// While it lives, the epoch moves.
pub(super) struct Ticking {
    shared: Arc<Shared>,
}

impl Ticker {
    /// Starts the thread; it ends when the engine is gone.
    pub(super) fn start(engine: EngineWeak) -> Result<Self, Error> {
        let shared = Arc::new(Shared { running: Mutex::new(0), started: Condvar::new(), engine });
        let thread = Arc::downgrade(&shared);
        std::thread::Builder::new()
            .name("epoch-ticker".into())
            .spawn(move || {
                while let Some(shared) = thread.upgrade() {
                    shared.wait_for_a_guest();
                    let Some(engine) = shared.engine.upgrade() else { return };
                    drop(shared);
                    std::thread::sleep(TICK);
                    engine.increment_epoch();
                }
            })
            .map_err(Error::internal)?;
        Ok(Self { shared })
    }

    /// Keeps the epoch moving as long as the answer lives.
    pub(super) fn hold(&self) -> Ticking {
        let mut running = self.shared.running.lock();
        *running += 1;
        if *running == 1 {
            self.shared.started.notify_one();
        }
        Ticking { shared: Arc::clone(&self.shared) }
    }
}

impl Shared {
    fn wait_for_a_guest(&self) {
        let mut running = self.running.lock();
        if *running == 0 {
            // Not for ever, so that the thread notices when the engine is gone.
            self.started.wait_for(&mut running, Duration::from_secs(1));
        }
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        *self.shared.running.lock() -= 1;
    }
}
