//! From text to a tree, as browsers read it.

use std::rc::Rc;

use htmd::Node;
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::RcDom;

/// Bytes that are read before it is looked how deep the page has become.
const PIECE: usize = 8 << 10;
/// How deep the end of a page may lie. Each element costs as much as there are open ones, so that
/// a page which never closes any would cost the square of its length.
const MOST_OPEN: usize = 512;

/// The tree, and whether the page was read to its end.
pub(crate) fn tree(text: &str) -> (Rc<Node>, bool) {
    let mut parser = parse_document(RcDom::default(), ParseOpts::default());
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = rest.len().min(PIECE);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, later) = rest.split_at(end);
        parser.process(StrTendril::from_slice(piece));
        rest = later;
        if open(&parser.tokenizer.sink.sink.document) > MOST_OPEN {
            break;
        }
    }
    let cut = !rest.is_empty();
    (parser.finish().document, cut)
}

/// How deep the last element lies.
fn open(document: &Rc<Node>) -> usize {
    let (mut depth, mut node) = (0, Rc::clone(document));
    loop {
        let last = node.children.borrow().last().map(Rc::clone);
        match last {
            Some(last) => node = last,
            None => return depth,
        }
        depth += 1;
    }
}
