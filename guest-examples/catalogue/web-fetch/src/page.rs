//! What a page says: its content, its links, and what it says of itself.

use std::collections::BTreeSet;
use std::rc::Rc;

use htmd::options::{BulletListMarker, Options};
use htmd::{HtmlToMarkdown, Node};
use markup5ever_rcdom::NodeData;
use serde::Serialize;
use skill_web::{Refusal, Url, decode};

use crate::Format;
use crate::fetch::Got;
use crate::prune::{attribute, element, main_part, prune};
use crate::tree::tree;
use crate::words::{one_line, plain_text};

/// Links of one page that are looked at.
const MOST_LINKS: usize = 2000;
/// Characters of a link's text and of one value of the metadata.
const MOST_WORDS: usize = 300;

/// A link.
#[derive(Clone, Serialize)]
pub(crate) struct Link {
    pub(crate) url: String,
    pub(crate) text: String,
}

/// What a page says of itself.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    content_type: String,
    charset: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    canonical: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    site_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
}

/// A page that was read.
pub(crate) struct Page {
    pub(crate) url: String,
    pub(crate) status: u16,
    pub(crate) content: String,
    pub(crate) links: Vec<Link>,
    pub(crate) metadata: Option<Metadata>,
    pub(crate) truncated: bool,
}

/// Reads what came as a page.
pub(crate) fn read(got: Got, format: Format) -> Result<Page, Refusal> {
    let kind = got
        .content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    let is_html = matches!(kind, "" | "text/html" | "application/xhtml+xml");
    let is_text = kind.starts_with("text/")
        || ["json", "xml", "yaml"]
            .iter()
            .any(|text| kind.contains(text));
    if !is_html && !is_text {
        let why = format!(
            "the page is no text but `{}`; use the skill `http-request`",
            one_line(kind, 100)
        );
        return Err(Refusal::new("unsupported-content", why));
    }
    let text = decode(&got.body, &got.content_type);
    let metadata = Metadata {
        content_type: kind.to_owned(),
        charset: text.charset,
        ..Metadata::default()
    };
    let page = Page {
        url: got.url.to_string(),
        status: got.status,
        content: String::new(),
        links: Vec::new(),
        metadata: Some(metadata),
        truncated: false,
    };
    if is_html {
        html(page, &got.url, &text.text, format)
    } else {
        let content = if format == Format::Links {
            String::new()
        } else {
            text.text
        };
        Ok(Page { content, ..page })
    }
}

fn html(mut page: Page, url: &Url, text: &str, format: Format) -> Result<Page, Refusal> {
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        ..Options::default()
    };
    let converter = HtmlToMarkdown::builder().options(options).build();
    let (document, cut) = tree(text);
    // Before anything walks the tree by calling itself: how deep it is, is up to its author.
    page.truncated = prune(&document) || cut;
    let mut found = Found {
        base: url.clone(),
        links: Vec::new(),
        seen: BTreeSet::new(),
        metadata: page.metadata.take().unwrap_or_default(),
    };
    found.look(&document);
    (page.links, page.metadata) = (found.links, Some(found.metadata));
    page.content = match format {
        Format::Html => text.to_owned(),
        Format::Links | Format::Screenshot => String::new(),
        Format::Text => plain_text(&main_part(&document)),
        Format::Markdown => converter.tree_to_markdown(&main_part(&document)),
    };
    // The tree goes with the instance; to take it apart costs time and stack.
    std::mem::forget(document);
    Ok(page)
}

/// What was found in a tree.
struct Found {
    base: Url,
    links: Vec<Link>,
    seen: BTreeSet<String>,
    metadata: Metadata,
}

impl Found {
    /// Looks at every element in the order of the page, makes addresses whole, and takes those away
    /// that are none.
    fn look(&mut self, document: &Rc<Node>) {
        let mut waiting = vec![Rc::clone(document)];
        while let Some(node) = waiting.pop() {
            match element(&node) {
                Some("base") => self.rebase(&node),
                Some("a" | "area") => self.link(&node),
                Some("img") => {
                    self.complete(&node, "src");
                }
                Some("html") => self.metadata.language = attribute(&node, "lang").map(short),
                Some("title") if self.metadata.title.is_none() => {
                    self.metadata.title =
                        Some(short(plain_text(&node))).filter(|title| !title.is_empty());
                }
                Some("meta") => self.meta(&node),
                Some("link") if attribute(&node, "rel").as_deref() == Some("canonical") => {
                    self.metadata.canonical =
                        attribute(&node, "href").and_then(|to| self.whole(&to));
                }
                _ => {}
            }
            waiting.extend(node.children.borrow().iter().rev().map(Rc::clone));
        }
    }

    fn rebase(&mut self, node: &Rc<Node>) {
        let base = attribute(node, "href").and_then(|to| self.base.join(&to).ok());
        if let Some(base) = base.filter(|base| matches!(base.scheme(), "http" | "https")) {
            self.base = base;
        }
    }

    /// An address of the web, made whole.
    fn whole(&self, to: &str) -> Option<String> {
        let url = self.base.join(to.trim()).ok()?;
        let is_web = matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none();
        is_web.then(|| url.into())
    }

    /// Makes the address in an attribute whole, or takes it away.
    fn complete(&self, node: &Rc<Node>, name: &str) -> Option<String> {
        let NodeData::Element { attrs, .. } = &node.data else {
            return None;
        };
        let mut attrs = attrs.borrow_mut();
        let at = attrs.iter().position(|attr| &*attr.name.local == name)?;
        let whole = self.whole(&attrs[at].value);
        match &whole {
            Some(url) => attrs[at].value = url.as_str().into(),
            None => drop(attrs.remove(at)),
        }
        whole
    }

    fn link(&mut self, node: &Rc<Node>) {
        let Some(url) = self.complete(node, "href") else {
            return;
        };
        if self.links.len() < MOST_LINKS && self.seen.insert(url.clone()) {
            let text = short(plain_text(node));
            self.links.push(Link { url, text });
        }
    }

    fn meta(&mut self, node: &Rc<Node>) {
        let name = attribute(node, "name").or_else(|| attribute(node, "property"));
        let (Some(name), Some(content)) = (name, attribute(node, "content")) else {
            return;
        };
        let place = match name.to_ascii_lowercase().as_str() {
            "description" | "og:description" => &mut self.metadata.description,
            "author" | "article:author" => &mut self.metadata.author,
            "article:published_time" | "date" => &mut self.metadata.published,
            "og:site_name" => &mut self.metadata.site_name,
            "og:image" => &mut self.metadata.image,
            "og:title" => &mut self.metadata.title,
            _ => return,
        };
        if place.is_none() {
            *place = Some(short(content));
        }
    }
}

fn short(text: String) -> String {
    one_line(&text, MOST_WORDS)
}
