//! What is in the journal and not yet in the database.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::model::Error;

use super::Record;

/// Called when there is something again.
type Wake = Box<dyn Fn() + Send + Sync>;

/// The records that wait for the writer.
pub(in crate::store) struct Backlog {
    state: Mutex<State>,
    applied: Condvar,
    wake: Wake,
}

struct State {
    waiting: Vec<(u64, Record)>,
    /// The number of the last record that came in, and of the last that is in the database.
    last: u64,
    applied: u64,
    /// Why the database takes nothing, if so.
    trouble: Option<Error>,
}

impl Backlog {
    /// None waits, and all up to `applied` are in the database. The writer is woken by `wake`.
    pub(in crate::store) fn new(applied: u64, wake: impl Fn() + Send + Sync + 'static) -> Self {
        let state = State { waiting: Vec::new(), last: applied, applied, trouble: None };
        Self { state: Mutex::new(state), applied: Condvar::new(), wake: Box::new(wake) }
    }

    /// Adds what was written, with its numbers.
    pub(super) fn add(&self, records: Vec<(u64, Record)>) {
        let mut state = self.state.lock();
        let none_waited = state.waiting.is_empty();
        state.last = records.last().map_or(state.last, |(number, _)| *number);
        state.waiting.extend(records);
        drop(state);
        if none_waited {
            (self.wake)();
        }
    }

    /// Takes what waits, behind what is in `to`.
    pub(in crate::store) fn take(&self, to: &mut Vec<(u64, Record)>) {
        let mut state = self.state.lock();
        if to.is_empty() {
            std::mem::swap(to, &mut state.waiting);
        } else {
            to.append(&mut state.waiting);
        }
    }

    /// All up to this number are in the database, on the disk.
    pub(in crate::store) fn applied(&self, number: u64) {
        let mut state = self.state.lock();
        state.applied = state.applied.max(number);
        state.trouble = None;
        drop(state);
        self.applied.notify_all();
    }

    /// The database does not take what it was given. Says whether it did before.
    pub(in crate::store) fn failed(&self, error: Error) -> bool {
        let before = self.state.lock().trouble.replace(error);
        self.applied.notify_all();
        before.is_none()
    }

    /// Whether all that came in is in the database.
    pub(in crate::store) fn is_settled(&self) -> bool {
        let state = self.state.lock();
        state.applied >= state.last
    }

    /// Why the database takes nothing, if so.
    pub(super) fn trouble(&self) -> Option<Error> {
        self.state.lock().trouble.as_ref().map(Error::again)
    }

    /// Waits until all up to this number are in the database, so that the journal may lose them.
    ///
    /// # Errors
    ///
    /// Why the database takes nothing, once it does not.
    pub(super) fn wait_for(&self, number: u64) -> Result<(), Error> {
        let mut state = self.state.lock();
        while state.applied < number {
            if let Some(error) = &state.trouble {
                return Err(error.again());
            }
            (self.wake)();
            self.applied.wait_for(&mut state, Duration::from_millis(100));
        }
        Ok(())
    }
}
