//! Skills that two versions may call: what one of them can do more through another callee.

use std::cell::Cell;

use crate::model::SkillId;

use super::{Find, grants};

/// Most pairs of callees that are compared for one difference. Beyond, more is taken for granted.
const MOST: usize = 256;

/// Compares callees.
pub(super) struct Callees<'a> {
    find: &'a Find<'a>,
    left: Cell<usize>,
}

impl<'a> Callees<'a> {
    pub(super) fn new(find: &'a Find<'a>) -> Self {
        Self { find, left: Cell::new(MOST) }
    }

    /// How the newer of two callees is more than the other, if it is. What cannot be compared may be.
    pub(super) fn more(&self, old: SkillId, new: SkillId) -> Option<&'static str> {
        let left = self.left.get().checked_sub(1);
        let (Some(left), Some(old), Some(new)) = (left, (self.find)(old), (self.find)(new)) else {
            return Some("what that one might do cannot be compared");
        };
        self.left.set(left);
        if old.skill.owner != new.skill.owner {
            return Some("that is a skill of another owner");
        }
        let changes = grants::below((Some(&old.skill), &new.skill), self);
        changes.iter().any(|change| change.grows).then_some("that version may do more")
    }
}
