//! What a skill may touch. Nothing by default.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{Code, Error, SecretName};

/// How far a skill may go in its owner's workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// It sees an empty directory.
    #[default]
    None,
    /// It may read.
    Read,
    /// It may read and write.
    Write,
}

impl<'de> Deserialize<'de> for Access {
    /// By hand, so that whoever writes something else is told the words.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl Visitor<'_> for Words {
            type Value = Access;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`none`, `read` or `write`")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Access, E> {
                match word {
                    "none" => Ok(Access::None),
                    "read" => Ok(Access::Read),
                    "write" => Ok(Access::Write),
                    _ => Err(E::unknown_variant(word, &["none", "read", "write"])),
                }
            }
        }
        deserializer.deserialize_str(Words)
    }
}

/// Where a skill may connect to: `[METHOD[,METHOD] ]scheme://host[:port][/path]`, or `public`.
///
/// The host is exact or `*.suffix`; a `*` may end the path; no method means all, no path
/// means all, no port means the scheme's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NetworkRule(String);

impl NetworkRule {
    /// The rule that allows every public address.
    pub fn public() -> Self {
        Self("public".into())
    }

    /// The rule as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NetworkRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        rule_problem(text).map_or_else(
            || Ok(Self(text.to_owned())),
            |why| Err(Error::new(Code::InvalidManifest, format!("network rule {why}"))),
        )
    }
}

/// What is wrong with a network rule, if anything.
fn rule_problem(text: &str) -> Option<&'static str> {
    if text == "public" {
        return None;
    }
    let (methods, target) = text.split_once(' ').unwrap_or(("GET", text));
    if !methods.split(',').all(|m| !m.is_empty() && m.bytes().all(|b| b.is_ascii_uppercase())) {
        return Some("has a method that is not in capital letters");
    }
    let Some(rest) = target.strip_prefix("https://").or_else(|| target.strip_prefix("http://")) else {
        return Some("must be `public` or start with http:// or https://");
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Some("may have visible ASCII in its path only; write the rest as %XX");
    }
    if path.trim_end_matches('*').contains('*') || path.contains(['?', '#', '\\']) {
        return Some("may have a `*` only at the end of its path, and no query");
    }
    authority_problem(authority)
}

/// What is wrong with the `host[:port]` of a rule, if anything.
fn authority_problem(authority: &str) -> Option<&'static str> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
        return Some("has a port that is not 1 to 65535");
    }
    let name = host.strip_prefix("*.").unwrap_or(host);
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    let literal = || host.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok();
    if name.is_empty() || !(name.bytes().all(legal) || literal().is_some()) {
        return Some("has no legal host name");
    }
    None
}

impl TryFrom<String> for NetworkRule {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<NetworkRule> for String {
    fn from(rule: NetworkRule) -> Self {
        rule.0
    }
}

impl fmt::Display for NetworkRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A secret that a skill may have put into its requests, by name, maybe narrowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a secret is a name, or {\"name\", \"for\"}")]
pub enum SecretGrant {
    /// As the secret was stored.
    Name(SecretName),
    /// Only for the requests that the rule matches.
    Narrowed(NarrowedSecret),
}

/// The long form of a [`SecretGrant`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NarrowedSecret {
    /// Name of the secret.
    name: SecretName,
    /// The requests that may carry it.
    #[serde(rename = "for")]
    target: NetworkRule,
}

impl SecretGrant {
    /// Whether a ceiling, which names secrets or allows all, allows it.
    pub fn is_within(&self, ceiling: Option<&[String]>) -> bool {
        ceiling.is_none_or(|names| names.iter().any(|name| name == self.name().as_str()))
    }

    /// Name of the secret.
    pub fn name(&self) -> &SecretName {
        match self {
            Self::Name(name) => name,
            Self::Narrowed(narrowed) => &narrowed.name,
        }
    }

    /// The only requests that may carry it; none means all to its origin.
    pub fn only(&self) -> Option<&NetworkRule> {
        match self {
            Self::Name(_) => None,
            Self::Narrowed(narrowed) => Some(&narrowed.target),
        }
    }
}

/// What a skill may touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Grants {
    /// The owner's files.
    pub workspace: Access,
    /// Where it may connect to.
    pub network: Vec<NetworkRule>,
    /// Secrets the host adds to its requests.
    pub secrets: Vec<SecretGrant>,
    /// Values for `wasi:config/store`.
    pub config: BTreeMap<String, String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// The skill's own key-value store.
    pub kv: bool,
    /// Other skills it may call, as `name` or `name@range`.
    pub skills: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_rules_are_parsed_at_the_border() {
        for good in [
            "public",
            "https://api.example",
            "GET https://api.example/v1/*",
            "GET,POST http://h:8080",
            "https://*.example/x",
            "http://[::1]:80/",
        ] {
            assert!(good.parse::<NetworkRule>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "*",
            "ftp://x",
            "get https://x",
            "https://",
            "https://a*b",
            "https://x/*/y",
            "https://x:0",
            "https://x:99999",
            "https://u@x",
            "https://x/?q",
            "https://x y",
            "https://*.",
            "https://${UNSET}/",
        ] {
            assert!(bad.parse::<NetworkRule>().is_err(), "{bad}");
        }
    }
}
