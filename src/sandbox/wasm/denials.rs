//! What a guest asked for and was not given.

use crate::model::Denial;

/// Denials of one import kept for one execution; further ones say nothing new.
const MOST: usize = 20;

/// Those of one guest.
#[derive(Default)]
pub(super) struct Denials(Vec<Denial>);

impl Denials {
    /// Keeps one, if it says something new.
    pub(super) fn note(&mut self, denial: Denial) {
        let alike = self.0.iter().filter(|known| known.import == denial.import).count();
        if alike < MOST && !self.0.contains(&denial) {
            self.0.push(denial);
        }
    }

    /// All of them.
    pub(super) fn take(&mut self) -> Vec<Denial> {
        std::mem::take(&mut self.0)
    }
}
