//! Which pages are fetched: the one that was named, and those that it leads to.

use std::collections::{BTreeSet, VecDeque};

use skill_web::{Deadline, Refusal, Url, parse_url};

use crate::fetch::{Limits, fetch};
use crate::page::{Page, read};
use crate::{Answer, Args, Fetched, Format};

/// Time where nothing is said, and at most.
const DEFAULT_MS: u64 = 20_000;
const MOST_MS: u64 = 60_000;
/// Bytes of all contents together where nothing is said, and at most.
const DEFAULT_BYTES: usize = 256_000;
const MOST_BYTES: usize = 768_000;
/// Links that are told of one page.
const MOST_LINKS: usize = 300;
/// Pages beside the first, by depth.
const PAGES: [usize; 3] = [0, 10, 25];
/// How far from the first page one may be.
const MOST_DEPTH: u8 = 2;

pub(crate) fn crawl(args: &Args) -> Result<Answer, Refusal> {
    if args.format == Format::Screenshot {
        let why = "this skill makes no screenshots; use the skill `browser`";
        return Err(Refusal::new("unsupported-format", why));
    }
    let url = parse_url(&args.url)?;
    let depth = args.depth.min(MOST_DEPTH);
    let ms = args.timeout_ms.filter(|ms| *ms > 0).unwrap_or(DEFAULT_MS);
    let most = args.max_bytes.filter(|most| *most > 0);
    let mut crawl = Crawl {
        args,
        deadline: Deadline::in_ms(ms.min(MOST_MS)),
        left: most.unwrap_or(DEFAULT_BYTES).min(MOST_BYTES),
        seen: BTreeSet::new(),
        waiting: VecDeque::new(),
        truncated: false,
    };
    let (first, at) = crawl.page(&url)?;
    crawl.seen.insert(plain(&at));
    crawl.remember(&first.links, &at, depth);
    let page = crawl.told(first);
    let pages = crawl.rest(&at, PAGES.get(usize::from(depth)).copied().unwrap_or(0));
    Ok(Answer {
        success: (200..300).contains(&page.status),
        provider: "skillvisor",
        page,
        pages: (depth > 0).then_some(pages),
        screenshot_url: None,
        truncated: crawl.truncated,
    })
}

struct Crawl<'a> {
    args: &'a Args,
    deadline: Deadline,
    /// Bytes of contents that there is still room for.
    left: usize,
    seen: BTreeSet<String>,
    /// Addresses, and how far one may go on from there.
    waiting: VecDeque<(Url, u8)>,
    truncated: bool,
}

impl Crawl<'_> {
    /// A page and its last address.
    fn page(&mut self, url: &Url) -> Result<(Page, Url), Refusal> {
        let got = fetch(
            url,
            &Limits {
                deadline: self.deadline,
            },
        )?;
        self.truncated |= got.truncated;
        let at = got.url.clone();
        let page = read(got, self.args.format)?;
        self.truncated |= page.truncated;
        Ok((page, at))
    }

    /// Lines up the links that stay on the site.
    fn remember(&mut self, links: &[crate::page::Link], at: &Url, depth: u8) {
        if depth == 0 {
            return;
        }
        for link in links {
            let Ok(url) = parse_url(&link.url) else {
                continue;
            };
            if url.origin() == at.origin() && self.seen.insert(plain(&url)) {
                self.waiting.push_back((url, depth - 1));
            }
        }
    }

    /// Fetches what waits, as long as there is room and time. A page that cannot be had is left out.
    fn rest(&mut self, first: &Url, most: usize) -> Vec<Fetched> {
        let mut pages = Vec::new();
        let mut tried = 0;
        while let Some((url, depth)) = self.waiting.pop_front() {
            if tried >= most || self.left == 0 || self.deadline.is_over() {
                self.truncated = true;
                break;
            }
            tried += 1;
            let Ok((page, at)) = self.page(&url) else {
                continue;
            };
            // A redirect may have led elsewhere, or to what is there already.
            let is_new = plain(&at) == plain(&url) || self.seen.insert(plain(&at));
            if at.origin() != first.origin() || !is_new {
                continue;
            }
            self.remember(&page.links, &at, depth);
            pages.push(self.told(page));
        }
        pages
    }

    /// The page as the caller gets it, cut to what there is room for.
    fn told(&mut self, page: Page) -> Fetched {
        let Page {
            url,
            status,
            mut content,
            mut links,
            metadata,
            ..
        } = page;
        if content.len() > self.left {
            let mut end = self.left;
            while !content.is_char_boundary(end) {
                end -= 1;
            }
            content.truncate(end);
            self.truncated = true;
        }
        self.left -= content.len();
        if links.len() > MOST_LINKS {
            links.truncate(MOST_LINKS);
            self.truncated = true;
        }
        let with_metadata = self.args.include_metadata.unwrap_or(true);
        Fetched {
            url,
            status,
            content,
            links,
            metadata: metadata.filter(|_| with_metadata),
        }
    }
}

/// An address without the place within the page.
fn plain(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    url.into()
}
