//! What a guest prints to one of its streams, and what is shown of it.

use crate::model::steers;

/// What was printed, up to a cap.
#[derive(Debug, Default)]
pub(super) struct Printed {
    pub(super) bytes: Vec<u8>,
    /// Whether more was printed than is kept.
    pub(super) truncated: bool,
    /// How many of the bytes were handed on.
    told: usize,
}

impl Printed {
    /// Keeps `bytes`, of all that was printed `cap` at most.
    pub(super) fn keep(&mut self, bytes: &[u8], cap: usize) {
        let room = cap.saturating_sub(self.bytes.len());
        self.truncated |= bytes.len() > room;
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// What is new since the last time, as clean text; but for a character that has not come
    /// whole, unless this is the `last` time.
    pub(super) fn news(&mut self, last: bool) -> String {
        let rest = &self.bytes[self.told..];
        let whole = if last { rest.len() } else { whole(rest) };
        let (text, _) = clean(&rest[..whole], usize::MAX);
        self.told += whole;
        text
    }

    /// Of what is new, only the last `most` bytes are told; whether that leaves some out.
    pub(super) fn skip_to(&mut self, most: usize) -> bool {
        let from = self.bytes.len().saturating_sub(most);
        let skips = from > self.told;
        self.told = self.told.max(from);
        skips
    }
}

/// How many of these bytes do not belong to a character that has not come whole.
fn whole(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(3);
    let Some(at) = bytes[from..].iter().rposition(|byte| byte & 0xc0 != 0x80) else { return bytes.len() };
    let needed = match bytes[from + at] {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    if from + at + needed > bytes.len() { from + at } else { bytes.len() }
}

/// UTF-8 with replacement characters for what is not, without what steers a reader's screen,
/// but for line ends and tabs: what a guest prints must not drive the terminal that shows it. A
/// replacement is longer than what it stands for, so the text is cut at `cap` bytes once more;
/// whether it was, comes second.
pub(super) fn clean(bytes: &[u8], cap: usize) -> (String, bool) {
    let mut text = String::with_capacity(bytes.len().min(cap));
    for chunk in bytes.utf8_chunks() {
        let broken = (!chunk.invalid().is_empty()).then_some(char::REPLACEMENT_CHARACTER);
        for c in chunk.valid().chars().filter(|c| !is_unwanted(*c)).chain(broken) {
            if text.len() + c.len_utf8() > cap {
                return (text, true);
            }
            text.push(c);
        }
    }
    (text, false)
}

fn is_unwanted(c: char) -> bool {
    steers(c) && c != '\n' && c != '\t'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_are_together_what_the_whole_is(text in ".{0,40}", cuts in prop::collection::vec(0_usize..100, 0..8)) {
            let mut printed = Printed::default();
            let mut pieces = String::new();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).chain([text.len()]).collect();
            cuts.sort_unstable();
            let mut from = 0;
            for cut in cuts {
                printed.keep(&text.as_bytes()[from..cut], usize::MAX);
                from = cut;
                pieces += &printed.news(false);
            }
            pieces += &printed.news(true);
            prop_assert_eq!(pieces, clean(text.as_bytes(), usize::MAX).0);
        }
    }
}
