//! Secrets that the guard puts into requests. Who asked never has them in hand.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method};

use crate::model::{Code, Digest, Error, Layer, NetworkRule, SecretName, SecretValue};

use super::failure::Failure;
use super::rule::allows;
use super::scrub::Scrub;
use super::target::{Origin, Scheme, Target};

/// Header fields that speak of the connection, of how the body is coded, or of where a request goes.
const NOT_FOR_SECRETS: [HeaderName; 18] = [
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::EXPECT,
    header::HOST,
    header::IF_RANGE,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::RANGE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::VIA,
    header::MAX_FORWARDS,
];
/// With these, an answer could come coded, or in pieces too small to be known again.
const NOT_BESIDE_SECRETS: [HeaderName; 3] = [header::ACCEPT_ENCODING, header::RANGE, header::IF_RANGE];
/// Most bytes of what stands before a secret in its header.
const MAX_PREFIX: usize = 64;

/// Where a secret goes: to one origin, in one header, behind a fixed text.
#[derive(Clone, Debug)]
pub struct Place {
    origin: Origin,
    header: HeaderName,
    prefix: String,
}

impl Place {
    /// Reads a place.
    ///
    /// # Errors
    ///
    /// `invalid_args`, at `/for`, `/header` or `/prefix`.
    pub fn parse(origin: &str, header: &str, prefix: &str) -> Result<Self, Error> {
        let wrong = |field: &str, why: &str| Error::at(Code::InvalidArgs, format!("/{field}"), why.to_owned());
        let not_an_origin = "must be an https origin, such as https://api.example or https://api.example:8443";
        let target = Target::parse(origin).map_err(|_| wrong("for", not_an_origin))?;
        if target.origin.scheme != Scheme::Https || target.path != "/" || target.query.is_some() {
            return Err(wrong("for", not_an_origin));
        }
        let name = HeaderName::try_from(header);
        let name = name.map_err(|_| wrong("header", "must be the name of a header, such as Authorization"))?;
        if NOT_FOR_SECRETS.contains(&name) {
            return Err(wrong("header", "is a header that the host itself sets or leaves out"));
        }
        let legal = prefix.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        if prefix.len() > MAX_PREFIX || !legal || prefix.starts_with(' ') {
            return Err(wrong("prefix", "may have 64 bytes of visible ASCII and spaces, no space first"));
        }
        Ok(Self { origin: target.origin, header: name, prefix: prefix.to_owned() })
    }

    /// Scheme, host and port, in their one spelling.
    pub fn origin(&self) -> String {
        self.origin.to_string()
    }

    /// The header, in small letters.
    pub fn header(&self) -> &str {
        self.header.as_str()
    }

    /// What stands before the secret.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

/// A secret, and which requests carry it.
#[derive(Clone, Debug)]
pub struct Credential {
    /// Its name.
    pub name: SecretName,
    /// Where it goes.
    pub place: Place,
    /// The only requests that may carry it; none means all to its origin.
    pub only: Option<NetworkRule>,
    /// What it is.
    pub value: SecretValue,
}

/// A secret that a skill asks for and has not, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    /// Its name.
    pub name: SecretName,
    /// Where it would go, if it exists.
    pub origin: Option<String>,
    /// The only requests that would carry it; none means all to its origin.
    pub only: Option<NetworkRule>,
    /// Whose ceilings do not allow it; none if there is no such secret.
    pub layer: Option<Layer>,
}

/// The secrets of a run.
#[derive(Default)]
pub struct Credentials {
    usable: Vec<Arc<Credential>>,
    withheld: Vec<Withheld>,
    used: AtomicBool,
    sealing: Option<Digest>,
}

impl Credentials {
    /// Of those that the run may use, in the order of the manifest, and of those it may not.
    pub fn new(usable: Vec<Credential>, withheld: Vec<Withheld>) -> Self {
        let usable = usable.into_iter().map(Arc::new).collect();
        Self { usable, withheld, used: AtomicBool::new(false), sealing: None }
    }

    /// The same, with what is another one when any of them is, or was stored anew. It must not tell
    /// anything of their values.
    #[must_use]
    pub fn sealed_as(self, sealing: Digest) -> Self {
        Self { sealing: Some(sealing), ..self }
    }

    /// What is the same for the same secrets only, if it was said.
    pub fn sealing(&self) -> Option<Digest> {
        self.sealing
    }

    /// What a request is sent with. Of several that go into one header, the first one counts.
    ///
    /// # Errors
    ///
    /// `OwnHeader` if the request has such a header of its own.
    pub(super) fn choose(&self, method: &Method, target: &Target, own: &HeaderMap) -> Result<Injected, Failure> {
        let mut chosen: Vec<Arc<Credential>> = Vec::new();
        for credential in &self.usable {
            let place = &credential.place;
            let is_meant = place.origin == target.origin && may_carry(credential.only.as_ref(), method, target);
            if is_meant && !chosen.iter().any(|other| other.place.header == place.header) {
                if own.contains_key(&place.header) {
                    return Err(Failure::OwnHeader(credential.name.clone()));
                }
                chosen.push(Arc::clone(credential));
            }
        }
        Ok(Injected { credentials: chosen })
    }

    /// The secrets that a request would have carried.
    pub fn missing<'a>(&'a self, method: &'a Method, target: &'a Target) -> impl Iterator<Item = &'a Withheld> {
        let origin = target.origin();
        self.withheld.iter().filter(move |withheld| {
            withheld.origin.as_ref().is_none_or(|asked| *asked == origin)
                && may_carry(withheld.only.as_ref(), method, target)
        })
    }

    /// Notes that one was sent.
    pub fn note_use(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// Whether one was sent.
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether the run has none that could come back to it.
    pub fn is_empty(&self) -> bool {
        self.usable.is_empty()
    }

    /// Takes them out of texts.
    pub fn cleaner(&self) -> Cleaner {
        let values: Vec<_> = self.usable.iter().map(|credential| &credential.value).collect();
        Cleaner(Scrub::of(&values))
    }
}

/// Takes the secrets of a run out of what it leaves behind.
pub struct Cleaner(Option<Scrub>);

impl Cleaner {
    /// A text without any of them; nothing of it where they cannot be looked for.
    pub fn clean(&self, text: &str) -> String {
        let clean = self.0.as_ref().map(|scrub| scrub.whole(text.as_bytes()));
        String::from_utf8_lossy(&clean.unwrap_or_default()).into_owned()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.usable.iter().map(|credential| credential.name.as_str()).collect();
        f.debug_struct("Credentials").field("usable", &names).field("withheld", &self.withheld).finish_non_exhaustive()
    }
}

/// Whether a rule, if there is one, lets a request have a secret.
fn may_carry(only: Option<&NetworkRule>, method: &Method, target: &Target) -> bool {
    only.is_none_or(|rule| allows(rule.as_str(), method, target))
}

/// What one request is sent with.
#[derive(Clone, Debug, Default)]
pub(super) struct Injected {
    credentials: Vec<Arc<Credential>>,
}

impl Injected {
    pub(super) fn is_empty(&self) -> bool {
        self.credentials.is_empty()
    }

    /// Puts them into the head of a request.
    pub(super) fn put(&self, headers: &mut HeaderMap) -> Result<(), Failure> {
        if self.is_empty() {
            return Ok(());
        }
        for name in NOT_BESIDE_SECRETS {
            headers.remove(name);
        }
        for Credential { place, value, .. } in self.credentials.iter().map(AsRef::as_ref) {
            let text = zeroize::Zeroizing::new(format!("{}{}", place.prefix, value.reveal()));
            let mut value =
                HeaderValue::from_str(&text).map_err(|_| Failure::Unsafe("has a secret that no header takes"))?;
            value.set_sensitive(true);
            headers.insert(place.header.clone(), value);
        }
        Ok(())
    }

    /// What takes them out of the answer.
    pub(super) fn scrub(&self) -> Option<Scrub> {
        let values: Vec<_> = self.credentials.iter().map(|credential| &credential.value).collect();
        Scrub::of(&values)
    }
}

/// Refuses an answer whose body is coded: nobody could see what is in it.
pub(super) fn require_plain(headers: &HeaderMap) -> Result<(), Failure> {
    let all = |name, plain: &str| {
        headers.get_all(name).iter().all(|value| {
            value.to_str().is_ok_and(|text| text.split(',').all(|coding| coding.trim().eq_ignore_ascii_case(plain)))
        })
    };
    let is_plain = all(header::CONTENT_ENCODING, "identity") && all(header::TRANSFER_ENCODING, "chunked");
    if is_plain { Ok(()) } else { Err(Failure::Coded) }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    fn credential(name: &str, origin: &str, header: &str, only: Option<&str>) -> Credential {
        Credential {
            name: name.parse().unwrap(),
            place: Place::parse(origin, header, "Bearer ").unwrap(),
            only: only.map(|rule| rule.parse().unwrap()),
            value: SecretValue::new(Zeroizing::new(format!("value-of-{name}"))).unwrap(),
        }
    }

    fn sent(credentials: &Credentials, method: Method, url: &str) -> HeaderMap {
        let target = Target::parse(url).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("accept-encoding", HeaderValue::from_static("gzip"));
        headers.insert("range", HeaderValue::from_static("bytes=0-3"));
        credentials.choose(&method, &target, &headers).unwrap().put(&mut headers).unwrap();
        headers
    }

    #[test]
    fn a_secret_goes_to_its_own_origin_and_to_no_other() {
        let credentials =
            Credentials::new(vec![credential("A", "https://api.example", "Authorization", None)], Vec::new());
        for url in ["https://api.example/x", "https://API.example:443", "https://api.example./?q"] {
            let headers = sent(&credentials, Method::GET, url);
            assert_eq!(headers.get("authorization").unwrap(), "Bearer value-of-A", "{url}");
            assert!(headers.get("authorization").unwrap().is_sensitive());
            assert!(!headers.contains_key("accept-encoding") && !headers.contains_key("range"));
        }
        for url in [
            "http://api.example/",
            "https://api.example:8443/",
            "https://x.api.example/",
            "https://api.example.evil/",
            "https://example/",
        ] {
            let headers = sent(&credentials, Method::GET, url);
            assert!(!headers.contains_key("authorization") && headers.contains_key("accept-encoding"), "{url}");
        }
    }

    #[test]
    fn a_narrowed_one_goes_only_where_its_rule_says_and_the_first_for_a_header_counts() {
        let narrow = credential("A", "https://api.example", "Authorization", Some("GET https://api.example/v1/*"));
        let wide = credential("B", "https://api.example", "authorization", None);
        let other = credential("C", "https://api.example", "x-key", None);
        let credentials = Credentials::new(vec![narrow, wide, other], Vec::new());
        for (method, path, first) in [
            (Method::GET, "/v1/x", "A"),
            (Method::GET, "/%76%31/x", "A"),
            (Method::POST, "/v1/x", "B"),
            (Method::GET, "/v2", "B"),
        ] {
            let headers = sent(&credentials, method, &format!("https://api.example{path}"));
            assert_eq!(headers.get("authorization").unwrap(), &format!("Bearer value-of-{first}"), "{path}");
            assert_eq!(headers.get("x-key").unwrap(), "Bearer value-of-C");
        }
    }

    #[test]
    fn a_request_with_the_same_header_of_its_own_is_refused_only_where_the_secret_goes() {
        let credentials =
            Credentials::new(vec![credential("A", "https://api.example", "Authorization", None)], Vec::new());
        let mut own = HeaderMap::new();
        own.insert("authorization", HeaderValue::from_static("mine"));
        let choose = |url| credentials.choose(&Method::GET, &Target::parse(url).unwrap(), &own);
        let refused = choose("https://api.example/").unwrap_err();
        assert_eq!(refused, Failure::OwnHeader("A".parse().unwrap()));
        assert!(choose("https://other.example/").unwrap().is_empty());
    }

    #[test]
    fn a_place_is_an_https_origin_and_a_header_that_the_host_does_not_need() {
        let place = Place::parse("https://API.example.:443/", "X-Api-Key", "").unwrap();
        assert_eq!((place.origin().as_str(), place.header()), ("https://api.example", "x-api-key"));
        for (origin, header, prefix, field) in [
            ("http://api.example", "x", "", "/for"),
            ("https://api.example/v1", "x", "", "/for"),
            ("https://api.example?x", "x", "", "/for"),
            ("https://*.example", "x", "", "/for"),
            ("https://u@api.example", "x", "", "/for"),
            ("api.example", "x", "", "/for"),
            ("https://api.example", "", "", "/header"),
            ("https://api.example", "a b", "", "/header"),
            ("https://api.example", "Host", "", "/header"),
            ("https://api.example", "accept-encoding", "", "/header"),
            ("https://api.example", "x", "a\r\nb: ", "/prefix"),
            ("https://api.example", "x", &"p".repeat(65), "/prefix"),
        ] {
            let error = Place::parse(origin, header, prefix).unwrap_err();
            assert_eq!((error.code, error.fields[0].pointer.as_str()), (Code::InvalidArgs, field), "{origin} {header}");
        }
    }

    #[test]
    fn an_answer_that_is_coded_is_refused() {
        let check = |name: &'static str, value: &'static str| {
            let fields = [(HeaderName::from_static(name), HeaderValue::from_static(value))];
            require_plain(&HeaderMap::from_iter(fields)).is_ok()
        };
        assert!(check("content-encoding", "identity") && check("transfer-encoding", "Chunked") && check("x", "gzip"));
        for (name, value) in [
            ("content-encoding", "gzip"),
            ("content-encoding", "identity, br"),
            ("content-encoding", ""),
            ("transfer-encoding", "gzip, chunked"),
        ] {
            assert!(!check(name, value), "{name}: {value}");
        }
    }

    #[test]
    fn debug_shows_no_value() {
        let one = credential("A", "https://api.example", "x", None);
        let text = format!("{one:?}{:?}", Credentials::new(vec![one.clone()], Vec::new()));
        assert!(!text.contains("value-of") && text.contains('A'), "{text}");
    }
}
