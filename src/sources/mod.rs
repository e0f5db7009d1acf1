//! Where skills come from besides uploads: files at URLs, artefacts in registries, folders in
//! repositories.
//!
//! One file for each kind of source. All fetch through `egress`, so that a source reaches no
//! further than the ceiling of who asks, or the sources that the operator lists. What comes is
//! handed on as it comes, and is checked against its digest where it is written down.

mod git;
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
use tokio::sync::Semaphore;

use crate::egress::{Errand, FetchError, Fetched, Fetcher, Guard, Meter};
use crate::model::{Code, Digest, Error, GitPart, NetworkRule, OwnerId, Source, SourceRule};

pub use self::login::Login;

/// How long the head of an answer may take, and how long its body may pause.
const SILENCE: Duration = Duration::from_secs(30);
/// How many archives are expanded at one time.
const EXPANDING: usize = 1;
/// How every component and every core module begins.
const MAGIC: &[u8] = b"\0asm";
/// How a zip with something in it begins.
const ZIP: &[u8] = b"PK\x03\x04";

/// What the operator says about sources.
#[derive(Clone, Debug)]
pub struct SourceSettings {
    /// What anybody may install from who may install at all.
    pub allowed: Vec<SourceRule>,
    /// Hosts (`host[:port]`) that are spoken to without TLS.
    pub insecure_hosts: Vec<String>,
    /// How long fetching may take, all in all.
    pub timeout: Duration,
    /// Most bytes of a component, and of an archive.
    pub max_bytes: u64,
    /// The host of `owner/repo`, without a slash at the end.
    pub git_base_url: String,
}

impl Default for SourceSettings {
    fn default() -> Self {
        Self {
            allowed: Vec::new(),
            insecure_hosts: Vec::new(),
            timeout: Duration::from_secs(120),
            max_bytes: 64 << 20,
            git_base_url: "https://github.com".into(),
        }
    }
}

/// The way to sources.
pub struct Sources {
    guard: Arc<Guard>,
    settings: SourceSettings,
    /// Places to expand archives in.
    pub expanding: Semaphore,
}

/// Something to be fetched for somebody.
#[derive(Debug)]
pub struct Order<'a> {
    /// From where.
    pub source: &'a Source,
    /// Which part of it.
    pub part: &'a GitPart,
    /// Who the source is told that we are.
    pub login: Option<Login>,
    /// For whom.
    pub owner: OwnerId,
    /// What the key of who asks may reach.
    pub ceiling: Vec<NetworkRule>,
}

/// A component, or an archive with one, on its way.
pub struct Opened {
    /// The digest of the manifest that led to it.
    pub manifest_digest: Option<Digest>,
    /// The digest that it must have.
    pub digest: Option<Digest>,
    /// What it may be called, where it does not say itself.
    pub suggested: Suggested,
    /// Whether it is a zip with a skill folder in it.
    pub is_archive: bool,
    /// Its bytes, as they come. They begin as a zip does, or as WebAssembly.
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
        Self { guard, settings, expanding: Semaphore::new(EXPANDING) }
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
            Source::Git(name) => {
                let base = &self.settings.git_base_url;
                git::open(&fetcher, (base, name, order.part), (order.login, self.settings.max_bytes)).await
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
            (rule, Source::Git(name)) if rule.names(source) => git::rule(&self.settings.git_base_url, name),
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

type Chunks = BoxStream<'static, Result<Bytes, Error>>;

/// The body of an answer, if it begins as WebAssembly does.
async fn component(fetched: Fetched) -> Result<Chunks, Error> {
    match sorted(fetched).await? {
        (false, body) => Ok(body),
        (true, _) => Err(nothing()),
    }
}

/// What else an answer may be is not said: who asks must not learn what is in one that is none of
/// his.
fn nothing() -> Error {
    let detail = "what the source answered is neither WebAssembly nor, at a URL, a zipped skill folder";
    Error::at(Code::InvalidComponent, "/source", detail)
}

/// The body of an answer that begins as WebAssembly does or as a zip, and whether it is a zip.
async fn sorted(fetched: Fetched) -> Result<(bool, Chunks), Error> {
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
    let is_archive = start.starts_with(ZIP);
    if !is_archive && !start.starts_with(MAGIC) {
        return Err(nothing());
    }
    let start = futures_util::stream::iter([Ok(Bytes::from(start))]);
    Ok((is_archive, start.chain(body).boxed()))
}
