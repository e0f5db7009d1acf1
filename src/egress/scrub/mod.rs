//! Takes secrets out of what an upstream sends.
//!
//! A byte is given on once it can no longer be part of a secret; what is a secret becomes as many
//! `*`, so that every length that was announced stays true. The text is read three times at once: as
//! it is, with one layer of escapes undone, and with two. Each byte costs the same, whatever it is.
//!
//! What this cannot find: a secret that the other side encrypts, hashes, compresses, reverses, cuts in
//! pieces, or writes in a form that is not listed in [`needles`].

mod escapes;
mod needles;

use std::collections::VecDeque;
use std::sync::Arc;

use aho_corasick::automaton::StateID;
use http::{HeaderMap, HeaderValue};

use crate::model::SecretValue;

use self::escapes::{Escapes, Token};
use self::needles::Needles;

/// What stands in place of each byte of a secret.
const HIDDEN: u8 = b'*';

/// How many layers of escapes are undone.
const LAYERS: usize = 2;

/// Takes some secrets out of texts.
#[derive(Clone)]
pub(super) struct Scrub {
    needles: Arc<Needles>,
    /// As they would look in the name of a header field, which has small letters only.
    in_names: Arc<[String]>,
}

impl Scrub {
    /// For these secrets; none if there are none.
    pub(super) fn of(values: &[&SecretValue]) -> Option<Self> {
        let needles = Arc::new(Needles::of(values.iter().copied())?);
        let in_names = values.iter().map(|value| value.reveal().to_ascii_lowercase()).collect();
        Some(Self { needles, in_names })
    }

    /// A text from its beginning.
    pub(super) fn begin(&self) -> Scrubber {
        Scrubber::new(Arc::clone(&self.needles))
    }

    /// A whole text.
    pub(super) fn whole(&self, text: &[u8]) -> Vec<u8> {
        let mut scrubber = self.begin();
        let mut clean = scrubber.push(text);
        clean.extend(scrubber.end());
        clean
    }

    /// All fields of a head or of trailers.
    pub(super) fn fields(&self, fields: &mut HeaderMap) {
        let named: Vec<_> = fields.keys().filter(|name| self.is_in(name.as_str())).cloned().collect();
        for name in named {
            fields.remove(name);
        }
        for value in fields.values_mut() {
            let clean = self.whole(value.as_bytes());
            if clean != value.as_bytes() {
                *value = HeaderValue::from_bytes(&clean).unwrap_or_else(|_| HeaderValue::from_static("*"));
            }
        }
    }

    fn is_in(&self, name: &str) -> bool {
        self.in_names.iter().any(|secret| name.contains(secret))
    }
}

/// A text on its way.
pub(super) struct Scrubber {
    needles: Arc<Needles>,
    /// What came and was not given on, and where that begins.
    held: Vec<u8>,
    begin: u64,
    plain: Layer,
    /// Undoes a layer, and looks at what comes out.
    layers: [(Escapes, Layer); LAYERS],
}

/// One way to read the text.
struct Layer {
    state: StateID,
    /// Where each of the last bytes begins in the original.
    starts: VecDeque<u64>,
}

impl Layer {
    /// One byte further; gives the place of a secret that ends with it.
    fn step(&mut self, needles: &Needles, token: Token) -> Option<(u64, u64)> {
        self.state = needles.next(self.state, token.byte);
        if self.starts.len() == needles.longest {
            self.starts.pop_front();
        }
        self.starts.push_back(token.start);
        let start = self.starts.get(self.starts.len().checked_sub(needles.ends(self.state)?)?)?;
        Some((*start, token.end))
    }

    /// Where what may become a secret begins.
    fn open_since(&self, needles: &Needles) -> Option<u64> {
        let depth = needles.depth(self.state);
        self.starts.get(self.starts.len().checked_sub(depth)?).copied()
    }
}

impl Scrubber {
    fn new(needles: Arc<Needles>) -> Self {
        let layer = || Layer { state: needles.start(), starts: VecDeque::new() };
        let layers = [(Escapes::default(), layer()), (Escapes::default(), layer())];
        Self { held: Vec::new(), begin: 0, plain: layer(), layers, needles }
    }

    /// Takes what came, and gives what may go on.
    pub(super) fn push(&mut self, text: &[u8]) -> Vec<u8> {
        for byte in text {
            let start = self.begin + self.held.len() as u64;
            self.held.push(*byte);
            self.step(Token { byte: *byte, start, end: start + 1 });
        }
        let open = std::iter::once(&self.plain).chain(self.layers.iter().map(|(_, layer)| layer));
        let open = open.filter_map(|layer| layer.open_since(&self.needles));
        let waiting = self.layers.iter().filter_map(|(escapes, _)| escapes.waiting_since());
        match open.chain(waiting).min() {
            None => self.give(self.held.len()),
            Some(since) => self.give(usize::try_from(since - self.begin).unwrap_or(0)),
        }
    }

    /// Gives the rest: no more comes.
    pub(super) fn end(&mut self) -> Vec<u8> {
        for layer in 0..LAYERS {
            let mut rest = Vec::new();
            self.layers[layer].0.end(&mut |token| rest.push(token));
            for token in rest {
                self.look(layer, token);
            }
        }
        self.give(self.held.len())
    }

    /// How many bytes wait.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    fn step(&mut self, token: Token) {
        if let Some(place) = self.plain.step(&self.needles, token) {
            self.hide(place);
        }
        self.undo(0, token);
    }

    /// Undoes a layer for one byte.
    fn undo(&mut self, layer: usize, token: Token) {
        let Some((escapes, _)) = self.layers.get_mut(layer) else { return };
        if escapes.passes(token.byte) {
            return self.look(layer, token);
        }
        let mut known = [None; 8];
        let mut count = 0;
        escapes.push(token, &mut |token| {
            known[count] = Some(token);
            count += 1;
        });
        for token in known.into_iter().flatten() {
            self.look(layer, token);
        }
    }

    /// Looks at a byte that a layer gave, and gives it to the next.
    fn look(&mut self, layer: usize, token: Token) {
        if let Some(place) = self.layers[layer].1.step(&self.needles, token) {
            self.hide(place);
        }
        self.undo(layer + 1, token);
    }

    fn hide(&mut self, (start, end): (u64, u64)) {
        let place = |at: u64| usize::try_from(at.saturating_sub(self.begin)).unwrap_or(0).min(self.held.len());
        let (start, end) = (place(start), place(end));
        self.held[start..end].fill(HIDDEN);
    }

    fn give(&mut self, count: usize) -> Vec<u8> {
        self.begin += count as u64;
        self.held.drain(..count).collect()
    }
}

#[cfg(test)]
mod tests;
