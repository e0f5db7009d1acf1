//! Valid components, made a little or quite a lot worse.

use super::tree::{Body, Section, Tree, length};
use crate::campaign::Random;
use crate::support::guest;

/// The guests, the small ones more than once: they are compiled in a moment.
const GUESTS: &[&str] = &[
    "start-loop",
    "post-return-loop",
    "table-hog",
    "many-instances",
    "start-loop",
    "post-return-loop",
    "table-hog",
    "start-loop",
    "post-return-loop",
    "table-hog",
    "state-leak",
    "stack-overflow",
    "echo",
    "hello",
    "trap",
    "refuse",
    "spin",
    "bad-output",
    "context-probe",
    "wasi-probe",
    "resource-flood",
    "word-count",
];

/// Numbers at which readers stumble.
const EDGES: &[u8] = &[0, 1, 0x3f, 0x40, 0x7f, 0x80, 0xfe, 0xff];

/// Makes one bad component after another.
pub(super) struct Mutator {
    guests: Vec<Tree>,
}

impl Mutator {
    pub(super) fn new() -> Self {
        Self { guests: GUESTS.iter().map(|name| Tree::read(&guest(name))).collect() }
    }

    /// The next one. Half of them differ in one byte only: many of these are valid, and compile
    /// to something that nobody wrote.
    pub(super) fn next(&self, random: &mut Random) -> Vec<u8> {
        let mut tree = random.pick(&self.guests).clone();
        if random.chance(50) {
            let mut bytes = tree.write();
            let at = random.below(bytes.len());
            if random.chance(70) {
                bytes[at] ^= 1 << random.below(8)
            } else {
                bytes[at] = *random.pick(EDGES)
            }
            return bytes;
        }
        let changes = random.below(3);
        for _ in 0..changes {
            let other = random.pick(&self.guests);
            change_tree(&mut tree, other, random);
        }
        let mut bytes = tree.write();
        if changes == 0 || random.chance(30) {
            for _ in 0..=random.below(4) {
                change_bytes(&mut bytes, random);
            }
        }
        bytes
    }
}

/// Swaps, repeats, removes or mixes sections, at any depth, or changes the bytes of one.
fn change_tree(tree: &mut Tree, other: &Tree, random: &mut Random) {
    if tree.sections.is_empty() {
        return;
    }
    let at = random.below(tree.sections.len());
    match (&mut tree.sections[at].body, random.below(8)) {
        (Body::Tree(inner), 0..=5) => {
            let others: Vec<_> = other.sections.iter().filter_map(inner_tree).collect();
            let other = if others.is_empty() { other } else { random.pick(&others) };
            change_tree(inner, other, random);
        }
        (_, 0) => {
            let to = random.below(tree.sections.len());
            tree.sections.swap(at, to);
        }
        (_, 1) => {
            let again = tree.sections[at].clone();
            tree.sections.insert(random.below(tree.sections.len() + 1), again);
        }
        (_, 2) => drop(tree.sections.remove(at)),
        (_, 3) => tree.sections.truncate(at),
        (_, 4) => splice(&mut tree.sections[at], other, random),
        (_, 5) => tree.sections[at].id = u8::try_from(random.below(16)).unwrap(),
        (Body::Bytes(bytes), _) => change_bytes(bytes, random),
        (Body::Tree(_), _) => {}
    }
}

fn inner_tree(section: &Section) -> Option<&Tree> {
    if let Body::Tree(tree) = &section.body { Some(tree) } else { None }
}

/// Puts in what another guest has in a section of the same kind.
fn splice(section: &mut Section, other: &Tree, random: &mut Random) {
    let same: Vec<_> = other.sections.iter().filter(|other| other.id == section.id).collect();
    if !same.is_empty() {
        section.body = random.pick(&same).body.clone();
    }
}

/// Flips, inserts, removes, copies or cuts bytes.
fn change_bytes(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len());
    let rest = bytes.len() - at;
    match random.below(8) {
        0..=1 => bytes[at] ^= 1 << random.below(8),
        2 => bytes[at] = *random.pick(EDGES),
        3 => {
            let new: Vec<_> = (0..=random.below(8)).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
            drop(bytes.splice(at..at, new));
        }
        4 => drop(bytes.drain(at..at + random.below(rest.min(16)) + 1)),
        5 => bytes.truncate(at),
        // A length that is a lie.
        6 => {
            let huge = *random.pick(&[0, 1, 127, 128, 65_535, 1 << 20, u32::MAX as usize]);
            drop(bytes.splice(at..=at, length(huge)));
        }
        _ => {
            let piece = bytes[at..at + random.below(rest.min(64)) + 1].to_vec();
            let to = random.below(bytes.len());
            drop(bytes.splice(to..to, piece));
        }
    }
}
