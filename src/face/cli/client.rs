//! The HTTP API from the outside.

use std::error::Error as _;
use std::time::Duration;

use futures_util::Stream;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Body, Method, RequestBuilder, Response, Url};
use serde_json::Value;

use crate::model::Secret;

use super::exit::{Exit, Failure};
use super::trust::Trust;

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may take to say that it lives.
const ALIVE_TIMEOUT: Duration = Duration::from_secs(3);

/// One server and one key.
#[derive(Clone, Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    base: Url,
    key: Option<Secret>,
}

/// A path in segments, and a query.
pub(super) type Address<'a> = (&'a [&'a str], &'a [(&'a str, Option<&'a str>)]);

/// What a server answered to a request that it carried out.
#[derive(Debug)]
pub(super) struct Reply {
    /// The HTTP status.
    pub(super) status: u16,
    /// Where to look next.
    pub(super) location: Option<String>,
    /// The body.
    pub(super) text: String,
}

impl Reply {
    /// The body as JSON.
    pub(super) fn json(&self) -> Result<Value, Failure> {
        serde_json::from_str(&self.text)
            .map_err(|_| Failure::unreachable("the answer is not JSON: is there a Skillvisor server at that URL?"))
    }
}

impl Client {
    /// A client for the server at `url`.
    pub(super) fn new(url: &str, key: Option<Secret>, trust: &Trust) -> Result<Self, Failure> {
        let base = base_url(url)?;
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("skillvisor/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            // A redirected POST would arrive as a GET; and a key goes to the named server only.
            .redirect(Policy::none());
        builder = trust.apply(builder, base.scheme() == "https")?;
        if is_loopback(&base) || matches!(trust, Trust::Holder(_)) {
            // What runs on this machine needs no proxy, and a proxy must not see its key.
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|error| Failure::internal(chain(&error)))?;
        Ok(Self { http, base, key })
    }

    /// Whether keys would cross a network in the clear.
    pub(super) fn is_clear_text(&self) -> bool {
        self.base.scheme() == "http" && !is_loopback(&self.base)
    }

    /// Where the server is.
    pub(super) fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// The address of something in the API.
    fn at(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    /// Whether a server answers at all.
    pub(super) async fn is_alive(&self) -> bool {
        let asked = self.http.get(self.at(&["livez"])).timeout(ALIVE_TIMEOUT).send().await;
        asked.is_ok_and(|answer| answer.status().is_success())
    }

    /// `GET`, with those of the query's values that are there.
    pub(super) async fn get(&self, path: &[&str], query: &[(&str, Option<&str>)]) -> Result<Reply, Failure> {
        self.send(self.http.get(with_query(self.at(path), query))).await
    }

    /// `GET` of what a reply's `Location` points to.
    pub(super) async fn follow(&self, location: &str) -> Result<Reply, Failure> {
        let target = self.base.join(location).ok();
        let ours = target.filter(|url| url.origin() == self.base.origin());
        let Some(target) = ours else {
            return Err(Failure::unreachable(format!("the server points to {location:?}, which is not its own")));
        };
        self.send(self.http.get(target)).await
    }

    /// A request with a JSON body.
    pub(super) async fn send_json(&self, method: Method, path: &[&str], body: String) -> Result<Reply, Failure> {
        self.send_json_to(method, (path, &[]), body).await
    }

    /// A request with a JSON body, to a path with those of the query's values that are there.
    pub(super) async fn send_json_to(
        &self,
        method: Method,
        (path, query): Address<'_>,
        body: String,
    ) -> Result<Reply, Failure> {
        let request = self.http.request(method, with_query(self.at(path), query));
        self.send(request.header(CONTENT_TYPE, "application/json").body(body)).await
    }

    /// A request without a body.
    pub(super) async fn send_empty(&self, method: Method, path: &[&str]) -> Result<Reply, Failure> {
        self.send_empty_to(method, (path, &[])).await
    }

    /// A request without a body, to a path with those of the query's values that are there.
    pub(super) async fn send_empty_to(&self, method: Method, (path, query): Address<'_>) -> Result<Reply, Failure> {
        self.send(self.http.request(method, with_query(self.at(path), query))).await
    }

    /// `DELETE`, with those of the query's values that are there.
    pub(super) async fn remove(&self, path: &[&str], query: &[(&str, Option<&str>)]) -> Result<Reply, Failure> {
        self.send(self.http.delete(with_query(self.at(path), query))).await
    }

    /// `GET` of bytes that come piece by piece.
    pub(super) async fn download(&self, path: &[&str], query: &[(&str, Option<&str>)]) -> Result<Response, Failure> {
        self.open(self.http.get(with_query(self.at(path), query))).await
    }

    /// `GET` of events that come one by one.
    pub(super) async fn watch(&self, path: &[&str], headers: HeaderMap) -> Result<Response, Failure> {
        self.open(self.http.get(self.at(path)).headers(headers)).await
    }

    /// A request with a JSON body and more headers, whose answer comes piece by piece.
    pub(super) async fn begin(&self, path: &[&str], headers: HeaderMap, body: String) -> Result<Response, Failure> {
        let request = self.http.post(self.at(path)).headers(headers);
        self.open(request.header(CONTENT_TYPE, "application/json").body(body)).await
    }

    /// Sends a request whose answer comes piece by piece, if it was carried out.
    async fn open(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let answer = self.signed(request).send().await.map_err(|error| self.not_reached(&error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status().as_u16();
        let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let text = answer.text().await.map_err(|error| self.not_reached(&error))?;
        Err(Failure::answered(status, retry_after.as_deref(), &text))
    }

    /// The whole of an answer.
    pub(super) async fn text(&self, answer: Response) -> Result<String, Failure> {
        answer.text().await.map_err(|error| self.not_reached(&error))
    }

    /// Sends `length` bytes that come piece by piece.
    pub(super) async fn upload<S>(&self, upload: Upload<'_>, bytes: S) -> Result<Reply, Failure>
    where
        S: Stream<Item = Result<bytes::Bytes, std::io::Error>> + Send + 'static,
    {
        let url = with_query(self.at(upload.path), upload.query);
        let request = self.http.request(upload.method, url).header(CONTENT_TYPE, upload.content_type);
        self.send(request.header(CONTENT_LENGTH, upload.length).body(Body::wrap_stream(bytes))).await
    }

    /// The same server, for another key.
    pub(super) fn with_key(&self, key: Secret) -> Self {
        Self { key: Some(key), ..self.clone() }
    }

    /// A request to `/mcp`, whose answer is the caller's to read, whatever it is.
    pub(super) async fn message(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Option<String>,
    ) -> Result<Response, Failure> {
        let request = self.http.request(method, self.at(&["mcp"])).headers(headers);
        self.signed(request).body(body.unwrap_or_default()).send().await.map_err(|error| self.not_reached(&error))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Reply, Failure> {
        let answer = self.signed(request).send().await.map_err(|error| self.not_reached(&error))?;
        let status = answer.status();
        let header = |name| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (location, retry_after) = (header(LOCATION), header(RETRY_AFTER));
        let text = answer.text().await.map_err(|error| self.not_reached(&error))?;
        if status.is_success() {
            return Ok(Reply { status: status.as_u16(), location, text });
        }
        if status.is_redirection() {
            let target = location.unwrap_or_default();
            let detail = format!("{} sends its callers on to {target:?}", self.url());
            return Err(Failure::unreachable(detail).hint("give that server's own URL"));
        }
        Err(Failure::answered(status.as_u16(), retry_after.as_deref(), &text))
    }

    /// With the key, if there is one.
    fn signed(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.key {
            Some(key) => request.bearer_auth(key.reveal()),
            None => request,
        }
    }

    fn not_reached(&self, error: &reqwest::Error) -> Failure {
        if error.is_connect() {
            let why = chain(error);
            let hint = hint_against(&why);
            return Failure::unreachable(format!("cannot reach {}: {why}", self.url())).hint(hint);
        }
        let detail = format!("the connection to {} broke: {}", self.url(), chain(error));
        Failure::unreachable(detail)
            .hint("what was asked may have been done all the same; `skillvisor logs` and `skillvisor list` tell")
    }
}

/// What usually helps if a server is not reached for this reason.
fn hint_against(why: &str) -> &'static str {
    // Both words are variants of errors of the TLS library, which has no better ones.
    if why.contains("CaUsedAsEndEntity") {
        return "the server shows the certificate of an authority (CA:TRUE) as its own, as `openssl req -x509` makes \
                one: add -addext basicConstraints=critical,CA:FALSE to that command and give the server what it makes";
    }
    if why.contains("InvalidContentType") {
        return "that port does not speak TLS: use a URL with http://";
    }
    if why.contains("certificate") {
        return "a certificate of an authority of your own is trusted with --ca-file or SKILLVISOR_CA_FILE";
    }
    "is `skillvisor serve` running there? --url or SKILLVISOR_URL names the server"
}

/// What [`Client::upload`] sends, but for the bytes.
pub(super) struct Upload<'a> {
    /// `POST` or `PUT`.
    pub(super) method: Method,
    /// The path, in segments.
    pub(super) path: &'a [&'a str],
    /// The query.
    pub(super) query: &'a [(&'a str, Option<&'a str>)],
    /// What the bytes are.
    pub(super) content_type: &'a str,
    /// How many they are.
    pub(super) length: u64,
}

/// Reads the URL of a server.
fn base_url(text: &str) -> Result<Url, Failure> {
    let wrong = |why: &str| {
        Failure::usage(format!("{text:?} is not the URL of a server: {why}"))
            .hint("it looks like http://127.0.0.1:20128 or https://skills.example")
    };
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("it must start with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("keys do not belong in a URL; set SKILLVISOR_KEY"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("it has a query or a fragment"));
    }
    Ok(url)
}

fn with_query(mut url: Url, query: &[(&str, Option<&str>)]) -> Url {
    for (name, value) in query.iter().filter_map(|(name, value)| value.map(|value| (name, value))) {
        url.query_pairs_mut().append_pair(name, value);
    }
    url
}

/// Whether the URL leads to this machine and nowhere else.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback() || address.is_unspecified())
}

/// An error and what is below it, without what repeats.
fn chain(error: &reqwest::Error) -> String {
    // The URL is named before it already.
    let mut text = String::new();
    let mut below = error.source();
    while let Some(inner) = below {
        text = inner.to_string();
        below = inner.source();
    }
    if text.is_empty() { error.to_string() } else { text }
}

/// A failure where there is no key to send.
pub(super) fn no_key(url: &str) -> Failure {
    Failure::new(Exit::NotAllowed, "unauthenticated", format!("no key for {url}"))
        .hint("set SKILLVISOR_KEY or give --key-file FILE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_a_plain_url() {
        for good in ["http://127.0.0.1:1", "https://h.example/prefix/"] {
            assert!(base_url(good).is_ok(), "{good}");
        }
        for bad in ["", "127.0.0.1:1", "ftp://x", "https://u:p@x", "https://x/?key=1", "https://x/#a"] {
            assert_eq!(base_url(bad).unwrap_err().exit, Exit::Usage, "{bad}");
        }
    }

    #[test]
    fn references_are_written_into_the_path_safely() {
        let client = Client::new("http://localhost:1/prefix", None, &Trust::Authorities(None)).unwrap();
        let at = |reference| client.at(&["api", "skills", reference]).to_string();
        assert_eq!(at("hello@^1.0"), "http://localhost:1/prefix/api/skills/hello@^1.0");
        assert_eq!(at("a/b?c#d"), "http://localhost:1/prefix/api/skills/a%2Fb%3Fc%23d");
    }

    #[test]
    fn keys_in_the_clear_are_noticed() {
        let clear = |url| Client::new(url, None, &Trust::Authorities(None)).unwrap().is_clear_text();
        assert!(clear("http://10.0.0.1:80"));
        assert!(!clear("http://[::1]:80") && !clear("http://127.0.0.1") && !clear("https://x.example"));
    }
}
