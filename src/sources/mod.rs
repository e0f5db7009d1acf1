//! Where skills come from besides uploads: files at URLs and artefacts in registries.
//!
//! One file for each kind of source. All fetch through `egress`, so that a source reaches no
//! further than the ceiling of who asks, or the sources that the operator lists. What comes is
//! handed on as it comes, and is checked against its digest where it is written down.

mod login;
pub mod oci;
mod refused;
mod url;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http_body_util::BodyDataStream;

use crate::egress::{Errand, FetchError, Fetched, Fetcher, Guard, Meter};
use crate::model::{Code, Digest, Error, NetworkRule, OwnerId, Source, SourceRule};

pub use self::login::Login;

/// How long the head of an answer may take, and how long its body may pause.
const SILENCE: Duration = Duration::from_secs(30);
/// How every component and every core module begins.
const MAGIC: &[u8] = b"\0asm";

/// What the operator says about sources.
#[derive(Clone, Debug)]
pub struct SourceSettings {
    /// What anybody may install from who may install at all.
    pub allowed: Vec<SourceRule>,
    /// Hosts (`host[:port]`) that are spoken to without TLS.
    pub insecure_hosts: Vec<String>,
    /// How long fetching may take, all in all.
    pub timeout: Duration,
    /// Most bytes of a component.
    pub max_bytes: u64,
}

impl Default for SourceSettings {
    fn default() -> Self {
        Self { allowed: Vec::new(), insecure_hosts: Vec::new(), timeout: Duration::from_secs(120), max_bytes: 64 << 20 }
    }
}

/// The way to sources.
pub struct Sources {
    guard: Arc<Guard>,
    settings: SourceSettings,
}

/// Something to be fetched for somebody.
#[derive(Debug)]
pub struct Order<'a> {
    /// From where.
    pub source: &'a Source,
    /// Who the source is told that we are.
    pub login: Option<Login>,
    /// For whom.
    pub owner: OwnerId,
    /// What the key of who asks may reach.
    pub ceiling: Vec<NetworkRule>,
}

/// A component on its way.
pub struct Opened {
    /// The digest of the manifest that led to it.
    pub manifest_digest: Option<Digest>,
    /// The digest that it must have.
    pub digest: Option<Digest>,
    /// What it may be called, where it does not say itself.
    pub suggested: Suggested,
    /// Its bytes, as they come. They begin as WebAssembly does.
    pub body: BoxStream<'static, Result<Bytes, Error>>,
}

/// What a source says about what it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suggested {
    /// A name.
    pub name: Option<String>,
    /// A version.
    pub version: Option<String>,
    /// What it does.
    pub description: Option<String>,
}

impl Sources {
    /// Sources behind `guard`.
    pub fn new(guard: Arc<Guard>, settings: SourceSettings) -> Self {
        Self { guard, settings }
    }

    /// Most bytes of a component.
    pub fn max_bytes(&self) -> u64 {
        self.settings.max_bytes
    }

    /// Begins to fetch a component.
    ///
    /// # Errors
    ///
    /// `denied` if that is not allowed or the source wants to know somebody else; `not_found` if
    /// it has no such thing; `invalid_component` if what it has is no component;
    /// `digest_mismatch`, `too_large`; `unavailable` if it does not answer as it should.
    pub async fn open(&self, order: Order<'_>) -> Result<Opened, Error> {
        let fetcher = self.fetcher(&order);
        match order.source {
            Source::Url(url) => self::url::open(&fetcher, url, (order.login, self.settings.max_bytes)).await,
            Source::Oci(reference) => oci::open(fetcher, reference, order.login, self.settings.max_bytes).await,
            Source::Git(_) => {
                let detail = "this version installs from https://… and [oci://]registry/repository only";
                Err(Error::at(Code::NotSupported, "/source", detail))
            }
        }
    }

    fn fetcher(&self, order: &Order<'_>) -> Fetcher {
        let rules = order.ceiling.iter().cloned().chain(self.allowed(order.source)).collect();
        let errand = errand(order.owner.clone(), self.settings.timeout);
        Fetcher::new(Arc::clone(&self.guard), rules, errand).without_tls_to(&self.settings.insecure_hosts)
    }

    /// What the operator lets this source reach. A rule about URLs also stands for what an
    /// artefact or a redirect leads to.
    fn allowed(&self, source: &Source) -> Vec<NetworkRule> {
        let rule = |rule: &SourceRule| match (rule, source) {
            (SourceRule::Url(rule), _) => Some(rule.clone()),
            (rule, Source::Oci(reference)) if rule.names(source) => {
                let host = oci::host(&reference.registry);
                let clear = self.settings.insecure_hosts.iter().any(|insecure| insecure == host);
                format!("GET {}://{host}", if clear { "http" } else { "https" }).parse().ok()
            }
            _ => None,
        };
        self.settings.allowed.iter().filter_map(rule).collect()
    }
}

/// For whom and how long something is fetched.
pub fn errand(owner: OwnerId, timeout: Duration) -> Errand {
    Errand {
        owner,
        deadline: Instant::now() + timeout,
        connect_timeout: None,
        first_byte_timeout: Some(SILENCE),
        between_bytes_timeout: Some(SILENCE),
        most_body: crate::egress::MAX_BODY,
        meter: Meter::default(),
    }
}

/// The body of an answer, if it begins as WebAssembly does. What else it may be is not said: who
/// asks must not learn what an answer that is none of his has in it.
async fn component(fetched: Fetched) -> Result<BoxStream<'static, Result<Bytes, Error>>, Error> {
    let target = fetched.target;
    let body = BodyDataStream::new(fetched.response.into_body());
    let refused = move |failure: crate::egress::Failure| {
        refused::refused(&FetchError { why: failure.into(), target: target.clone() })
    };
    let mut body = body.map(move |chunk| chunk.map_err(&refused)).boxed();
    let mut start = Vec::new();
    while start.len() < MAGIC.len() {
        let Some(chunk) = body.next().await.transpose()? else { break };
        start.extend_from_slice(&chunk);
    }
    if !start.starts_with(MAGIC) {
        let detail = "what the source answered is not WebAssembly; the source must be the component itself";
        return Err(Error::at(Code::InvalidComponent, "/source", detail));
    }
    let start = futures_util::stream::iter([Ok(Bytes::from(start))]);
    Ok(start.chain(body).boxed())
}
