//! Where a request goes, in the one spelling that is matched, and that is sent.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Longest URL, in bytes.
const MAX_URL: usize = 16 << 10;
/// Longest host name and longest label of it, in bytes (RFC 1035).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// How the other side is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is = |name: &str| text.eq_ignore_ascii_case(name);
        is("https").then_some(Self::Https).or(is("http").then_some(Self::Http))
    }

    pub(super) fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// A host in its one spelling.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Host {
    /// In lower case, as Punycode, without a dot at the end.
    Name(String),
    Address(IpAddr),
}

impl Host {
    /// Reads a host; an IPv6 address stands in brackets.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(inner) = text.strip_prefix('[') {
            let address = inner.strip_suffix(']').and_then(|inner| inner.parse::<Ipv6Addr>().ok());
            return address.map(|address| Self::Address(address.into())).ok_or("has an IPv6 address that is none");
        }
        if text.contains('%') {
            return Err("has an encoded character in its host");
        }
        match url::Host::parse(text) {
            // 0x7f.1, 2130706433 and their like: nobody writes those but to get past a check.
            Ok(url::Host::Ipv4(address)) if address.to_string() != text => {
                Err("spells an IPv4 address in another way than 192.0.2.1")
            }
            Ok(url::Host::Ipv4(address)) => Ok(Self::Address(address.into())),
            Ok(url::Host::Domain(name)) => name_of(&name).map(Self::Name).ok_or("has no legal host name"),
            Ok(url::Host::Ipv6(_)) | Err(_) => Err("has no legal host name"),
        }
    }
}

/// The name without a dot at its end, if it is one that can be looked up.
fn name_of(name: &str) -> Option<String> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    let label = |label: &str| (1..=MAX_LABEL).contains(&label.len()) && label.bytes().all(legal);
    (name.len() <= MAX_NAME && name.split('.').all(label)).then(|| name.to_owned())
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// What a connection leads to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    pub(super) scheme: Scheme,
    pub(super) host: Host,
    pub(super) port: u16,
}

impl Origin {
    /// `host[:port]`, without the port that the scheme has anyway.
    pub(super) fn authority(&self) -> String {
        let Self { scheme, host, port } = self;
        if *port == scheme.default_port() { host.to_string() } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.authority())
    }
}

/// Where a request goes. What stands here is what is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub(super) origin: Origin,
    /// Normal as RFC 3986 (section 6.2.2) has it, and without dot segments.
    pub(super) path: String,
    pub(super) query: Option<String>,
}

impl Target {
    /// Reads a URL strictly: what two readers could understand in two ways is refused.
    ///
    /// # Errors
    ///
    /// What is wrong with it, to follow "the request".
    pub fn parse(url: &str) -> Result<Self, &'static str> {
        if url.len() > MAX_URL {
            return Err("has a URL of more than 16 KiB");
        }
        let (scheme, rest) = url.split_once("://").ok_or("has no absolute URL")?;
        let scheme = Scheme::parse(scheme).ok_or("is neither http nor https")?;
        let (authority, rest) = rest.split_at(rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len()));
        let (host, port) = host_and_port(authority)?;
        let port = port.unwrap_or(scheme.default_port());
        let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
        if rest.contains('#') {
            return Err("has a fragment in its URL");
        }
        if query.is_some_and(|query| !query.bytes().all(|b| b.is_ascii_graphic())) {
            return Err("has a character in its query that must be written as %XX");
        }
        let path = if path.is_empty() { "/".to_owned() } else { normal_path(path)? };
        Ok(Self { origin: Origin { scheme, host: Host::parse(host)?, port }, path, query: query.map(str::to_owned) })
    }

    /// Scheme, host and port, without a port that the scheme has anyway. Only letters, digits
    /// and `.-_:[]/`.
    pub fn origin(&self) -> String {
        self.origin.to_string()
    }

    /// `host[:port]`, without a port that the scheme has anyway.
    pub fn authority(&self) -> String {
        self.origin.authority()
    }

    /// Whether requests go over TLS.
    pub fn is_secure(&self) -> bool {
        self.origin.scheme == Scheme::Https
    }

    /// The whole URL, as it is sent.
    pub(super) fn url(&self) -> String {
        format!("{}{}", self.origin, self.path_and_query())
    }

    /// Path and query, as they are sent.
    pub(super) fn path_and_query(&self) -> String {
        match &self.query {
            None => self.path.clone(),
            Some(query) => format!("{}?{query}", self.path),
        }
    }
}

impl fmt::Display for Target {
    /// Without the query, which is nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path)
    }
}

/// Takes `host[:port]` apart.
pub(super) fn host_and_port(authority: &str) -> Result<(&str, Option<u16>), &'static str> {
    if authority.contains('@') {
        return Err("has a user name in its URL; send an `authorization` header instead");
    }
    let end = if authority.starts_with('[') { authority.find(']').map_or(0, |at| at + 1) } else { 0 };
    let (host, port) = match authority[end..].find(':') {
        None => (authority, None),
        Some(at) => (&authority[..end + at], Some(&authority[end + at + 1..])),
    };
    let Some(port) = port else { return Ok((host, None)) };
    let digits = !port.starts_with('0') && port.bytes().all(|b| b.is_ascii_digit());
    let port = port.parse().ok().filter(|_| digits);
    port.map(|port| (host, Some(port))).ok_or("has a port that is not 1 to 65535")
}

/// A path in its one spelling: what needs no encoding is decoded, the rest in capital letters.
pub(super) fn normal_path(path: &str) -> Result<String, &'static str> {
    if !path.starts_with('/') || path.contains("//") || path.contains('\\') {
        return Err("has `//` or `\\` in its path, which some servers read as something else");
    }
    let mut normal = String::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            if !first.is_ascii_graphic() {
                return Err("has a character in its path that must be written as %XX");
            }
            normal.push(char::from(*first));
            continue;
        }
        let code = escape(tail).ok_or("has a `%` in its path without two hexadecimal digits")?;
        rest = &tail[2..];
        match code {
            0..=0x1f | 0x7f => return Err("has an encoded control character in its path"),
            b'/' | b'\\' => return Err("has an encoded slash in its path"),
            b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => normal.push(char::from(code)),
            _ => normal.push_str(&format!("%{code:02X}")),
        }
    }
    if normal.match_indices("%25").any(|(at, found)| escape(&normal.as_bytes()[at + found.len()..]).is_some()) {
        return Err("has a path that is encoded twice");
    }
    if normal.split('/').any(is_dots) {
        return Err("has a `.` or `..` in its path");
    }
    Ok(normal)
}

/// The byte that two hexadecimal digits stand for.
fn escape(text: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

/// Whether a server may take the segment for a step; some cut it at a semicolon first.
fn is_dots(segment: &str) -> bool {
    let rest = segment.strip_prefix("..").or_else(|| segment.strip_prefix('.'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(';') || rest.starts_with("%3B"))
}
