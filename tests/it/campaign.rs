//! How large a randomised test is, and from which seed: `scripts/campaign` says so by
//! `CAMPAIGN_SEED` and `CAMPAIGN_SIZE`; without it a test is small and its seed a new one.

/// Random numbers that a seed repeats (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The same numbers for the same seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    /// True in `percent` of 100 cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// The seed of this run. Print it: a failure is repeated with `CAMPAIGN_SEED`.
pub(crate) fn seed() -> u64 {
    number("CAMPAIGN_SEED").unwrap_or_else(|| getrandom::u64().unwrap())
}

/// The size of this run: `usual`, where no campaign says otherwise.
pub(crate) fn size(usual: usize) -> usize {
    number("CAMPAIGN_SIZE").map_or(usual, |size| usize::try_from(size).unwrap())
}

#[expect(clippy::disallowed_methods, reason = "the size of a test is no setting of the program")]
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} = {text:?} is no number")))
}
