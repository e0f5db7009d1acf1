//! One repository of a registry, and what it wants to see before it answers.

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::Deserialize;
use url::Url;

use crate::egress::{Ask, Fetched, Fetcher, Target};
use crate::model::{Code, Digest, Error, OciReference};
use crate::sources::Login;
use crate::sources::refused::{answered, at, refused, unavailable};

use super::challenge::Challenge;
use super::{MAX_MANIFEST, manifest};

/// Largest answer with a token, and largest answer of which only the status counts, in bytes.
const MAX_TOKEN: u64 = 64 << 10;

/// The host that serves a registry: Docker's is another than its name says.
pub fn host(registry: &str) -> &str {
    if registry == "docker.io" { "registry-1.docker.io" } else { registry }
}

/// A repository, and how we are known there.
pub struct Registry {
    fetcher: Fetcher,
    /// `https://host[:port]`.
    origin: String,
    repository: String,
    login: Option<Login>,
    actions: &'static str,
    authorization: Option<HeaderValue>,
}

/// A request to a repository.
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) target: Target,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) most: u64,
}

impl Registry {
    /// The repository of `reference`, for `actions` (`pull`, or `pull,push`).
    ///
    /// # Errors
    ///
    /// `malformed` if its host is none.
    pub fn new(
        fetcher: Fetcher,
        reference: &OciReference,
        login: Option<Login>,
        actions: &'static str,
    ) -> Result<Self, Error> {
        let host = host(&reference.registry);
        let scheme = if fetcher.speaks_in_the_clear(host) { "http" } else { "https" };
        let target = Target::parse(&format!("{scheme}://{host}/"));
        let origin = target.map_err(|why| at(Code::Malformed, format!("the source {why}")))?.origin();
        let repository = reference.repository.clone();
        Ok(Self { fetcher, origin, repository, login, actions, authorization: None })
    }

    /// The address of something in the repository.
    pub(super) fn at(&self, rest: &str) -> Result<Target, Error> {
        let url = format!("{}/v2/{}/{rest}", self.origin, self.repository);
        Target::parse(&url).map_err(|why| at(Code::Malformed, format!("the source {why}")))
    }

    /// An address that the registry gave out, which may be relative.
    pub(super) fn given(&self, location: &str) -> Result<Url, Error> {
        let url = Url::parse(&self.origin).and_then(|base| base.join(location));
        url.map_err(|_| unavailable(format!("{} sends us to what is no URL", self.origin)))
    }

    /// A manifest, by tag or digest.
    pub(super) async fn manifest(&mut self, wanted: &str) -> Result<Fetched, Error> {
        let target = self.at(&format!("manifests/{wanted}"))?;
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(manifest::ACCEPT))]);
        let call = Call { method: Method::GET, target, headers, body: Bytes::new(), most: MAX_MANIFEST };
        let fetched = self.ask(&call).await?;
        self.expect(fetched, &format!("{}:{wanted}", self.repository))
    }

    /// The bytes of something of at most `most` bytes.
    pub(super) async fn blob(&mut self, digest: Digest, most: u64) -> Result<Fetched, Error> {
        let target = self.at(&format!("blobs/{digest}"))?;
        let call = Call { method: Method::GET, target, headers: HeaderMap::new(), body: Bytes::new(), most };
        let fetched = self.ask(&call).await?;
        self.expect(fetched, &format!("{digest} in {}", self.repository))
    }

    /// Refuses what is no success.
    pub(super) fn expect(&self, fetched: Fetched, what: &str) -> Result<Fetched, Error> {
        if fetched.status().is_success() { Ok(fetched) } else { Err(answered(fetched.status(), &self.origin, what)) }
    }

    /// Asks; and once more as who we are, if the registry wants to know.
    pub(super) async fn ask(&mut self, call: &Call) -> Result<Fetched, Error> {
        let first = self.ask_once(call).await?;
        if first.status() != StatusCode::UNAUTHORIZED {
            return Ok(first);
        }
        let challenge = first.response.headers().get_all(WWW_AUTHENTICATE).iter();
        let challenge = challenge.filter_map(|value| Challenge::parse(value.to_str().ok()?)).next();
        // What challenges us may be where a redirect led, which must not learn who we are.
        let is_ours = first.target.origin() == self.origin;
        drop(first);
        self.authorization = match challenge.filter(|_| is_ours) {
            None => return Err(answered(StatusCode::UNAUTHORIZED, &self.origin, &self.repository)),
            Some(Challenge::Basic) => match &self.login {
                Some(login) => Some(login.header()?),
                None => return Err(answered(StatusCode::UNAUTHORIZED, &self.origin, &self.repository)),
            },
            Some(Challenge::Bearer { realm, service }) => Some(self.token(&realm, service.as_deref()).await?),
        };
        self.ask_once(call).await
    }

    async fn ask_once(&self, call: &Call) -> Result<Fetched, Error> {
        let Call { method, target, headers, body, most } = call;
        let (method, target, mut headers) = (method.clone(), target.clone(), headers.clone());
        // An upload may go on at another host.
        if let Some(value) = self.authorization.clone().filter(|_| target.origin() == self.origin) {
            headers.insert(AUTHORIZATION, value);
        }
        let ask = Ask { method, target, headers, body: body.clone(), most: *most };
        self.fetcher.fetch(ask).await.map_err(|error| refused(&error))
    }

    /// A token for this repository alone. The registry says where it is to be had; that may be
    /// another host, which must be allowed as every other.
    async fn token(&self, realm: &str, service: Option<&str>) -> Result<HeaderValue, Error> {
        let wrong = |why: &str| unavailable(format!("{} wants a token from {why}", self.origin));
        let mut url = Url::parse(realm).map_err(|_| wrong("what is no URL"))?;
        if let Some(service) = service {
            url.query_pairs_mut().append_pair("service", service);
        }
        url.query_pairs_mut().append_pair("scope", &format!("repository:{}:{}", self.repository, self.actions));
        let target = Target::parse(url.as_str()).map_err(|why| wrong(&format!("a place whose request {why}")))?;
        if url.scheme() != "https" && self.origin.to_string().starts_with("https:") {
            // The name and the password would go there for all to read.
            return Err(wrong("a place without TLS"));
        }
        let origin = target.origin();
        let mut ask = Ask::get(target, MAX_TOKEN);
        if let Some(login) = &self.login {
            ask = ask.with(AUTHORIZATION, login.header()?);
        }
        let fetched = self.fetcher.fetch(ask).await.map_err(|error| refused(&error))?;
        if !fetched.status().is_success() {
            return Err(answered(fetched.status(), &origin, &format!("a token for {}", self.repository)));
        }
        let bytes = fetched.bytes().await.map_err(|error| refused(&error))?;
        let token: Token = serde_json::from_slice(&bytes).map_err(|_| wrong("a place that gives none"))?;
        let token = token.token.or(token.access_token).ok_or_else(|| wrong("a place that gives none"))?;
        let mut value =
            HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| wrong("a place that gives none"))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

/// A head with what the body is.
pub(super) fn typed(kind: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))])
}
