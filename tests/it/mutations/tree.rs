//! A component as its sections, so that a change inside of one leaves the lengths around it right.

/// Magic number and version in front of a component or module.
const PREFIX: usize = 8;
/// Sections of a component that hold a whole module or component.
const MODULE: u8 = 1;
const COMPONENT: u8 = 4;

/// A component or module.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    prefix: Vec<u8>,
    pub(super) sections: Vec<Section>,
}

#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) id: u8,
    pub(super) body: Body,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    Bytes(Vec<u8>),
    Tree(Tree),
}

impl Tree {
    /// Reads what a compiler made.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let (prefix, mut rest) = bytes.split_at(PREFIX);
        let is_component = prefix[6] == 1;
        let mut sections = Vec::new();
        while let Some((&id, after)) = rest.split_first() {
            let (length, after) = read_length(after);
            let (body, after) = after.split_at(length);
            let nests = is_component && (id == MODULE || id == COMPONENT);
            let body = if nests { Body::Tree(Self::read(body)) } else { Body::Bytes(body.to_vec()) };
            sections.push(Section { id, body });
            rest = after;
        }
        Self { prefix: prefix.to_vec(), sections }
    }

    /// The bytes, all lengths right.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = self.prefix.clone();
        for section in &self.sections {
            let body = match &section.body {
                Body::Bytes(bytes) => bytes.clone(),
                Body::Tree(tree) => tree.write(),
            };
            bytes.push(section.id);
            bytes.extend(length(body.len()));
            bytes.extend(body);
        }
        bytes
    }
}

fn read_length(bytes: &[u8]) -> (usize, &[u8]) {
    let end = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    let length = bytes[..end].iter().rev().fold(0, |length, byte| length << 7 | usize::from(byte & 0x7f));
    (length, &bytes[end..])
}

/// A number as WebAssembly writes lengths (LEB128).
pub(super) fn length(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).unwrap();
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}
