//! What must not come back: secrets, in the forms that servers write what they were sent in.

use std::collections::HashMap;

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::model::SecretValue;

/// Finds secrets in a text, in one pass over it.
///
/// No `Debug`: it is made of secrets.
pub(super) struct Needles {
    automaton: NFA,
    start: StateID,
    /// How many bytes of a form each state has seen.
    depths: HashMap<StateID, usize>,
    /// Bytes of the longest form.
    pub(super) longest: usize,
}

impl Needles {
    /// What finds these secrets, in each of their forms; none if there are none.
    pub(super) fn of<'a>(values: impl IntoIterator<Item = &'a SecretValue>) -> Option<Self> {
        let mut forms: Vec<Vec<u8>> = values.into_iter().flat_map(|value| forms(value.reveal())).collect();
        forms.sort_unstable();
        forms.dedup();
        if forms.is_empty() {
            return None;
        }
        // Without a prefilter, which only helps searches that this does not do.
        let built = NFA::builder().match_kind(MatchKind::Standard).prefilter(false).build(&forms);
        let automaton = built.ok()?;
        let start = automaton.start_state(Anchored::No).ok()?;
        let mut depths = HashMap::new();
        for form in &forms {
            let mut state = start;
            for (depth, byte) in (1..).zip(form) {
                state = automaton.next_state(Anchored::No, state, *byte);
                depths.insert(state, depth);
            }
        }
        let longest = forms.iter().map(Vec::len).max().unwrap_or(0);
        Some(Self { automaton, start, depths, longest })
    }

    /// Where a text begins.
    pub(super) fn start(&self) -> StateID {
        self.start
    }

    /// One byte further.
    pub(super) fn next(&self, state: StateID, byte: u8) -> StateID {
        self.automaton.next_state(Anchored::No, state, byte)
    }

    /// Bytes of the longest form that ends here.
    pub(super) fn ends(&self, state: StateID) -> Option<usize> {
        if !self.automaton.is_match(state) {
            return None;
        }
        let forms = (0..self.automaton.match_len(state)).map(|index| self.automaton.match_pattern(state, index));
        forms.map(|form| self.automaton.pattern_len(form)).max()
    }

    /// How many of the last bytes may be the beginning of a form.
    pub(super) fn depth(&self, state: StateID) -> usize {
        self.depths.get(&state).copied().unwrap_or(0)
    }
}

/// The value itself, in hexadecimal digits, escaped, and in base64 wherever it stands in what was
/// encoded.
fn forms(value: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![value.to_owned(), hex::encode(value), hex::encode_upper(value)];
    forms.extend(escaped(value));
    for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
        for before in 0..3 {
            let text = engine.encode([&[0; 2][..before], value.as_bytes()].concat());
            // Digits that also hold bits of what stands around the value differ from text to text.
            let first = (before * 8).div_ceil(6);
            let last = (before + value.len()) * 8 / 6;
            forms.push(text[first..last].to_owned());
        }
    }
    forms.into_iter().map(String::into_bytes).collect()
}

/// As JSON and HTML have it. Undoing escapes finds these too, but for values in which something looks
/// like an escape of another kind.
fn escaped(value: &str) -> impl Iterator<Item = String> {
    let json = value.replace('\\', "\\\\").replace('"', "\\\"");
    let html = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let quoted = [("&quot;", "'"), ("&quot;", "&#39;"), ("&#34;", "&#39;"), ("&quot;", "&#x27;")];
    let quoted = quoted.map(|(double, single)| html.replace('"', double).replace('\'', single));
    [json.replace('/', "\\/"), json, html].into_iter().chain(quoted)
}
