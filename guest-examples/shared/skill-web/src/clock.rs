//! Waiting, but not for ever.

use wasip2::clocks::monotonic_clock;
use wasip2::io::poll::{Pollable, poll};

use crate::Refusal;

const NANOSECONDS: u64 = 1_000_000;

/// When a skill gives up by itself.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(u64);

impl Deadline {
    /// So many milliseconds from now.
    pub fn in_ms(ms: u64) -> Self {
        Self(monotonic_clock::now().saturating_add(ms.saturating_mul(NANOSECONDS)))
    }

    /// Whether it has come.
    pub fn is_over(self) -> bool {
        monotonic_clock::now() >= self.0
    }

    /// Waits for something, or says that it is too late.
    pub fn wait(self, what: &Pollable) -> Result<(), Refusal> {
        let timer = monotonic_clock::subscribe_instant(self.0);
        let ready = poll(&[what, &timer]);
        if ready.contains(&0) {
            Ok(())
        } else {
            Err(Refusal::late())
        }
    }
}
