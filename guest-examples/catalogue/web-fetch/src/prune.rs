//! Taking out of a page what is not there to be read.

use std::rc::Rc;

use htmd::Node;
use markup5ever_rcdom::NodeData;

/// How deep elements may lie. Browsers stop at about 500; what walks the tree calls itself.
const MOST_DEPTH: usize = 96;
/// Elements of one page.
const MOST_NODES: usize = 200_000;
/// Characters that make a part of a page its main one.
const ENOUGH: usize = 140;

/// What nobody reads.
const NEVER: [&str; 22] = [
    "applet", "audio", "button", "canvas", "datalist", "dialog", "embed", "frame", "iframe",
    "input", "math", "noscript", "object", "optgroup", "option", "script", "select", "style",
    "svg", "template", "textarea", "video",
];
/// What is on every page of a site.
const AROUND: [&str; 4] = ["aside", "footer", "menu", "nav"];

/// The name of an element.
pub(crate) fn element(node: &Node) -> Option<&str> {
    match &node.data {
        NodeData::Element { name, .. } => Some(&name.local),
        _ => None,
    }
}

/// The value of an attribute.
pub(crate) fn attribute(node: &Node, name: &str) -> Option<String> {
    let NodeData::Element { attrs, .. } = &node.data else {
        return None;
    };
    let attrs = attrs.borrow();
    let found = attrs.iter().find(|attr| &*attr.name.local == name);
    found.map(|attr| attr.value.to_string())
}

/// Takes out scripts, forms, what is hidden, and whatever lies too deep; says whether there was some
/// of the latter.
pub(crate) fn prune(document: &Rc<Node>) -> bool {
    let mut cut = false;
    let mut nodes = 0;
    let mut waiting = vec![(Rc::clone(document), 0)];
    while let Some((node, depth)) = waiting.pop() {
        let mut children = node.children.borrow_mut();
        let mut dropped = Vec::new();
        nodes += children.len();
        if depth >= MOST_DEPTH || nodes > MOST_NODES {
            cut |= !children.is_empty();
            dropped.append(&mut children);
        }
        let (kept, gone): (Vec<_>, Vec<_>) = children.drain(..).partition(|child| is_read(child));
        dropped.extend(gone);
        *children = kept;
        waiting.extend(children.iter().map(|child| (Rc::clone(child), depth + 1)));
        std::mem::forget(dropped);
    }
    cut
}

fn is_read(node: &Node) -> bool {
    let name = match &node.data {
        NodeData::Comment { .. } | NodeData::ProcessingInstruction { .. } => return false,
        NodeData::Element { name, .. } => &*name.local,
        _ => return true,
    };
    let is_hidden = attribute(node, "hidden").is_some()
        || attribute(node, "aria-hidden").as_deref() == Some("true")
        || attribute(node, "style").is_some_and(|style| {
            let style: String = style.to_ascii_lowercase().split_whitespace().collect();
            style.contains("display:none") || style.contains("visibility:hidden")
        });
    !NEVER.contains(&name) && !is_hidden
}

/// The part of a page that is there to be read: its `main` or only `article` where there is one with
/// something in it, else all of it without what stands around.
pub(crate) fn main_part(document: &Rc<Node>) -> Rc<Node> {
    let mains = named(document, &["main"]);
    let articles = named(document, &["article"]);
    let only = |found: Vec<Rc<Node>>| {
        (found.len() == 1)
            .then(|| found.into_iter().next())
            .flatten()
    };
    let main = only(mains).or_else(|| only(articles));
    if let Some(main) = main.filter(|main| length(main) >= ENOUGH) {
        return main;
    }
    let body = named(document, &["body"]).into_iter().next();
    let body = body.unwrap_or_else(|| Rc::clone(document));
    if length(&body) >= ENOUGH {
        without_around(&body);
    }
    body
}

/// Every element of these names that lies in no other one.
fn named(document: &Rc<Node>, names: &[&str]) -> Vec<Rc<Node>> {
    let (mut found, mut waiting) = (Vec::new(), vec![Rc::clone(document)]);
    while let Some(node) = waiting.pop() {
        if element(&node).is_some_and(|name| names.contains(&name)) {
            found.push(node);
            continue;
        }
        waiting.extend(node.children.borrow().iter().rev().map(Rc::clone));
    }
    found
}

/// Characters of text that are not white space.
fn length(part: &Rc<Node>) -> usize {
    let (mut count, mut waiting) = (0, vec![Rc::clone(part)]);
    while let Some(node) = waiting.pop() {
        if let NodeData::Text { contents } = &node.data {
            count += contents
                .borrow()
                .chars()
                .filter(|c| !c.is_whitespace())
                .count();
        }
        waiting.extend(node.children.borrow().iter().map(Rc::clone));
    }
    count
}

/// Takes out what stands around, unless nothing would be left.
fn without_around(body: &Rc<Node>) {
    let around: usize = named(body, &AROUND).iter().map(length).sum();
    if length(body).saturating_sub(around) < ENOUGH {
        return;
    }
    let mut waiting = vec![Rc::clone(body)];
    while let Some(node) = waiting.pop() {
        let mut children = node.children.borrow_mut();
        children.retain(|child| !element(child).is_some_and(|name| AROUND.contains(&name)));
        waiting.extend(children.iter().map(Rc::clone));
    }
}
