//! One page over the network, wherever it has moved to.

use skill_web::{Deadline, Refusal, Request, Response, Url, parse_url, send};

/// Bytes of one page, as they come and as they unpack.
const MOST: usize = 2 << 20;
/// Redirects that are followed. Each is a request of its own, which the host checks as the first.
const REDIRECTS: usize = 5;

/// Until when.
pub(crate) struct Limits {
    pub(crate) deadline: Deadline,
}

/// What came from the last address.
pub(crate) struct Got {
    pub(crate) url: Url,
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
    pub(crate) truncated: bool,
}

pub(crate) fn fetch(url: &Url, limits: &Limits) -> Result<Got, Refusal> {
    let accept = "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5";
    let headers = [
        ("accept".to_owned(), accept.to_owned()),
        (
            "user-agent".to_owned(),
            concat!("skillvisor-web-fetch/", env!("CARGO_PKG_VERSION")).to_owned(),
        ),
    ];
    let mut url = url.clone();
    for _ in 0..=REDIRECTS {
        url.set_fragment(None);
        let response = send(&Request {
            method: "GET",
            url: &url,
            headers: &headers,
            body: None,
            deadline: limits.deadline,
            most: MOST,
        })?;
        match next(&response, &url)? {
            Some(to) => url = to,
            None => return Ok(got(url, response)),
        }
    }
    let why = format!("the page redirects more than {REDIRECTS} times");
    Err(Refusal::new("too-many-redirects", why))
}

/// Where a response leads to, if it does.
fn next(response: &Response, from: &Url) -> Result<Option<Url>, Refusal> {
    if !matches!(response.status, 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.header("location") else {
        return Ok(None);
    };
    let joined = from
        .join(location)
        .map_err(|_| Refusal::new("invalid-url", "the page redirects to what is no URL"))?;
    parse_url(joined.as_str()).map(Some)
}

fn got(url: Url, response: Response) -> Got {
    let content_type = response.header("content-type").unwrap_or_default();
    Got {
        url,
        status: response.status,
        content_type: content_type.to_ascii_lowercase(),
        body: response.body,
        truncated: response.truncated,
    }
}
