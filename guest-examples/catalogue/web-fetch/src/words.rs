//! Words without their markup.

use std::rc::Rc;

use htmd::Node;
use markup5ever_rcdom::NodeData;

use crate::prune::element;

/// Elements that stand on lines of their own.
const BLOCKS: [&str; 34] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "caption",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "tr",
    "ul",
];

/// The text of a part of a page, with its lines.
pub(crate) fn plain_text(part: &Rc<Node>) -> String {
    let mut text = String::new();
    walk(part, false, &mut text);
    text.trim().to_owned()
}

/// The tree is no deeper than `prune` leaves it.
fn walk(node: &Rc<Node>, is_verbatim: bool, text: &mut String) {
    if let NodeData::Text { contents } = &node.data {
        let contents = contents.borrow();
        if is_verbatim {
            text.push_str(&contents);
        } else {
            add_words(&contents, text);
        }
        return;
    }
    let name = element(node).unwrap_or_default();
    let is_block = BLOCKS.contains(&name);
    if is_block || name == "br" {
        end_line(text);
    }
    if matches!(name, "td" | "th") && !text.ends_with('\n') && !text.is_empty() {
        text.push('\t');
    }
    for child in node.children.borrow().iter() {
        walk(child, is_verbatim || name == "pre", text);
    }
    if is_block {
        end_line(text);
    }
    if matches!(
        name,
        "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "pre" | "table" | "ul" | "ol"
    ) && !text.is_empty()
        && !text.ends_with("\n\n")
    {
        text.push('\n');
    }
}

fn end_line(text: &mut String) {
    while text.ends_with([' ', '\t']) {
        text.pop();
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// Adds words with one space between them.
fn add_words(words: &str, text: &mut String) {
    let gap = |text: &mut String| {
        if !text.is_empty() && !text.ends_with([' ', '\n', '\t']) {
            text.push(' ');
        }
    };
    if words.starts_with(char::is_whitespace) {
        gap(text);
    }
    let mut is_first = true;
    for word in words.split_whitespace() {
        if !is_first {
            gap(text);
        }
        text.push_str(word);
        is_first = false;
    }
    if !is_first && words.ends_with(char::is_whitespace) {
        gap(text);
    }
}

/// Text on one line, cut.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").chars().take(most).collect()
}
