//! What the host fetches itself: through the guard, redirects and all.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, COOKIE, HeaderName, LOCATION, PROXY_AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};

use crate::model::NetworkRule;

use super::failure::Failure;
use super::guard::{Errand, Guard};
use super::rule::NetworkGrant;
use super::scrubbed::Answer;
use super::target::Target;

/// Most redirects of one request.
const REDIRECTS: usize = 5;
/// What is for the first origin alone.
const CREDENTIALS: [HeaderName; 3] = [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION];

/// Fetches for somebody, as far as one list of rules goes.
#[derive(Clone)]
pub struct Fetcher {
    guard: Arc<Guard>,
    rules: Arc<[NetworkRule]>,
    /// Who is spoken to without TLS, as `host[:port]`.
    clear: Arc<[String]>,
    errand: Errand,
}

/// One request of the host's own.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The method. Redirects are followed for `GET` and `HEAD`.
    pub method: Method,
    /// Where to.
    pub target: Target,
    /// The head. Credentials in it are dropped with the first redirect to another origin.
    pub headers: HeaderMap,
    /// What is sent.
    pub body: Bytes,
    /// Most bytes of the answer.
    pub most: u64,
}

impl Ask {
    /// A `GET`.
    pub fn get(target: Target, most: u64) -> Self {
        Self { method: Method::GET, target, headers: HeaderMap::new(), body: Bytes::new(), most }
    }

    /// The same with one more header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }
}

/// An answer, and who gave it.
pub struct Fetched {
    /// Where the last redirect led.
    pub target: Target,
    /// What came; its body as it comes.
    pub response: Response<Answer>,
}

impl Fetched {
    /// The status.
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// A header, if it is text.
    pub fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.response.headers().get(name).and_then(|value| value.to_str().ok())
    }

    /// The whole body.
    ///
    /// # Errors
    ///
    /// Why it broke off.
    pub async fn bytes(self) -> Result<Bytes, FetchError> {
        let Self { target, response } = self;
        let whole = response.into_body().collect().await;
        whole.map(http_body_util::Collected::to_bytes).map_err(|failure| FetchError { why: failure.into(), target })
    }
}

/// Why nothing was fetched, and at which step of the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchError {
    /// Why.
    pub why: Why,
    /// Where.
    pub target: Target,
}

/// Why nothing was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// As it happens to a single request.
    Failure(Failure),
    /// It would go without TLS to a host that the operator did not name.
    ClearText,
    /// There were too many redirects.
    Redirects,
    /// A redirect leads nowhere; the text follows "the request".
    Nowhere(&'static str),
}

impl From<Failure> for Why {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl Fetcher {
    /// Fetches through `guard` what `rules` allow; `errand` says for whom and how long.
    pub fn new(guard: Arc<Guard>, rules: Vec<NetworkRule>, errand: Errand) -> Self {
        Self { guard, rules: rules.into(), clear: Arc::default(), errand }
    }

    /// The same, which speaks to `clear` (as `host[:port]`) without TLS too.
    #[must_use]
    pub fn without_tls_to(self, clear: &[String]) -> Self {
        Self { clear: clear.iter().map(|host| host.to_ascii_lowercase()).collect(), ..self }
    }

    /// Whether this host may be spoken to without TLS.
    pub fn speaks_in_the_clear(&self, authority: &str) -> bool {
        self.clear.iter().any(|host| host == authority)
    }

    /// Asks, and follows where that leads. The answer may have any status that is no redirect.
    ///
    /// # Errors
    ///
    /// Why there is no answer.
    pub async fn fetch(&self, ask: Ask) -> Result<Fetched, FetchError> {
        let Ask { method, mut target, mut headers, body, most } = ask;
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("skillvisor/", env!("CARGO_PKG_VERSION"))));
        let follows = matches!(method, Method::GET | Method::HEAD);
        for _ in 0..=REDIRECTS {
            let errand = Errand { most_body: most, ..self.errand.clone() };
            let sent = self.send_one(errand, &method, &target, (&headers, &body)).await;
            let response = sent.map_err(|why| FetchError { why, target: target.clone() })?;
            let Some(location) = redirect(&response).filter(|_| follows) else {
                return Ok(Fetched { target, response });
            };
            let next = next(&target, location).map_err(|why| FetchError { why, target: target.clone() })?;
            if next.origin() != target.origin() {
                CREDENTIALS.iter().for_each(|name| drop(headers.remove(name)));
            }
            target = next;
        }
        Err(FetchError { why: Why::Redirects, target })
    }

    async fn send_one(
        &self,
        errand: Errand,
        method: &Method,
        target: &Target,
        (headers, body): (&HeaderMap, &Bytes),
    ) -> Result<Response<Answer>, Why> {
        if !target.is_secure() && !self.speaks_in_the_clear(&target.authority()) {
            return Err(Why::ClearText);
        }
        let everything = vec![NetworkRule::public()];
        let grant = NetworkGrant {
            manifest: everything.clone(),
            registrar: everything,
            caller: self.rules.to_vec(),
            ..NetworkGrant::default()
        };
        let admitted = self.guard.admit(&grant, method, target.clone())?;
        // What is sent is not what is answered, and has its own length.
        let errand = Errand { most_body: errand.most_body.max(body.len() as u64), ..errand };
        let mut request = Request::new(Full::new(body.clone()).map_err(|never| match never {}).boxed_unsync());
        *request.headers_mut() = headers.clone();
        let sent = self.guard.send(errand, admitted, request).await;
        sent.map_err(|_| Failure::Incomplete)?.map_err(Why::Failure)
    }
}

/// Where a response sends on to.
fn redirect(response: &Response<Answer>) -> Option<&HeaderValue> {
    let moved = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    response.headers().get(LOCATION).filter(|_| moved)
}

/// The next step of the way. What a browser would read in some other way than it is written is
/// written as the browser reads it, and so it is checked.
fn next(from: &Target, location: &HeaderValue) -> Result<Target, Why> {
    let nowhere = Why::Nowhere("is sent on to something that is no URL");
    let location = location.to_str().map_err(|_| nowhere.clone())?;
    let base = url::Url::parse(&from.url()).map_err(|_| nowhere.clone())?;
    let mut url = base.join(location).map_err(|_| nowhere)?;
    url.set_fragment(None);
    Target::parse(url.as_str()).map_err(Why::Nowhere)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(location: &str) -> Result<String, Why> {
        let from = Target::parse("https://a.example/x/y?z").unwrap();
        next(&from, &HeaderValue::from_str(location).unwrap()).map(|target| target.url())
    }

    #[test]
    fn a_redirect_is_read_once_and_then_as_strictly_as_any_url() {
        for (location, url) in [
            ("w?q#f", "https://a.example/x/w?q"),
            ("/v", "https://a.example/v"),
            ("//b.example/", "https://b.example/"),
            ("http://0x7f.1/", "http://127.0.0.1/"),
            ("\\\\b.example\\c", "https://b.example/c"),
        ] {
            assert_eq!(step(location).unwrap(), url, "{location}");
        }
        for bad in ["file:///etc/passwd", "https://user:secret@b.example/", "https://", "/a//b", "data:text/plain,x"] {
            assert!(matches!(step(bad), Err(Why::Nowhere(_))), "{bad}");
        }
    }
}
