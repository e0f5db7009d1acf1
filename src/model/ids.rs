//! Names and ids, each a type that cannot hold a wrong value.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Code, Error, quotable, steers};

/// Gives a validated text type its `Display`, `FromStr` and serde forms.
macro_rules! text_type {
    ($name:ident, $what:literal, $valid:expr) => {
        impl $name {
            /// The text as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                let valid: fn(&str) -> Result<(), String> = $valid;
                match valid(text) {
                    Ok(()) => Ok(Self(Arc::from(text))),
                    Err(why) => {
                        Err(Error::new(Code::InvalidManifest, format!(concat!($what, " {:?} {}"), quotable(text), why)))
                    }
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;

            fn try_from(text: String) -> Result<Self, Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.as_str().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// Name of a skill: 1 to 64 of `a-z 0-9 -`, no hyphen first, last or twice in a row.
///
/// The rule of the Agent Skills specification (agentskills.io), "name". It is also what
/// keeps a name from being a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SkillName(Arc<str>);

text_type!(SkillName, "skill name", |text| {
    let edge = text.starts_with('-') || text.ends_with('-') || text.contains("--");
    let legal = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if text.is_empty() || text.len() > 64 {
        Err("must have 1 to 64 characters".into())
    } else if !legal {
        Err("may only have a-z, 0-9 and -".into())
    } else if edge {
        Err("may not start or end with a hyphen or have two in a row".into())
    } else {
        Ok(())
    }
});

/// The namespace that a key acts in: 1 to 128 of `A-Z a-z 0-9 . _ : -`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OwnerId(Arc<str>);

text_type!(OwnerId, "owner", |text| {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"._:-".contains(&b);
    if text.is_empty() || text.len() > 128 || !text.bytes().all(legal) {
        Err("must be 1 to 128 of A-Z a-z 0-9 . _ : -".into())
    } else {
        Ok(())
    }
});

impl OwnerId {
    /// The owner of global skills; only `admin` keys may change what it owns.
    pub fn system() -> Self {
        Self(Arc::from("system"))
    }

    /// The owner of the first admin key.
    pub fn admin() -> Self {
        Self(Arc::from("admin"))
    }

    /// Whether this is [`OwnerId::system`].
    pub fn is_system(&self) -> bool {
        self.as_str() == "system"
    }
}

/// A label on a skill: 1 to 64 characters, none that steers how text is shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tag(Arc<str>);

text_type!(Tag, "tag", |text| {
    if text.is_empty() || text.chars().count() > 64 || text.chars().any(steers) {
        Err("must have 1 to 64 characters, none of them for control or direction".into())
    } else {
        Ok(())
    }
});

/// Name of a stored secret: 1 to 64 of `A-Z a-z 0-9 _ -`, the first a letter or `_`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretName(Arc<str>);

text_type!(SecretName, "secret name", |text| {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    let begins = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    if text.len() <= 64 && text.bytes().next().is_some_and(begins) && text.bytes().all(legal) {
        Ok(())
    } else {
        Err("must be 1 to 64 of A-Z a-z 0-9 _ -, the first a letter or _".into())
    }
});

/// Name of an interceptor: 1 to 64 of `a-z 0-9 -`, the first a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct InterceptorName(Arc<str>);

text_type!(InterceptorName, "interceptor name", |text| {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if text.is_empty() || text.len() > 64 || text.starts_with('-') || !text.bytes().all(legal) {
        Err("must be 1 to 64 of a-z 0-9 -, the first no hyphen".into())
    } else {
        Ok(())
    }
});

/// Id of a key: `key_` and 32 hex digits. Not a secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId(Arc<str>);

text_type!(KeyId, "key id", |text| {
    match text.strip_prefix("key_") {
        Some(hex) if hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_hexdigit()) => Ok(()),
        _ => Err("must be `key_` and 32 hex digits".into()),
    }
});

impl KeyId {
    /// A new id, unique in time (UUIDv7).
    pub fn generate() -> Self {
        Self(Arc::from(format!("key_{}", Uuid::now_v7().simple())))
    }
}

/// Gives a UUID type its `Display`, `FromStr` and serde forms.
macro_rules! uuid_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Characters of an id as text.
            pub const LENGTH: usize = 36;

            /// A new id. Later ones sort after earlier ones (UUIDv7, RFC 9562).
            pub fn generate() -> Self {
                Self(Uuid::now_v7())
            }

            /// The 16 bytes, which sort as the ids do.
            pub fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// The id of these bytes.
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }
        }

        impl FromStr for $name {
            type Err = Error;

            /// Only the hyphenated lower- or upper-case form is an id.
            fn from_str(text: &str) -> Result<Self, Error> {
                if text.len() == Self::LENGTH && let Ok(uuid) = Uuid::try_parse(text) {
                    return Ok(Self(uuid));
                }
                Err(Error::new(Code::Malformed, format!("{:?} is not an id", quotable(text))))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }
    };
}

uuid_type!(
    /// Id of one version of a skill.
    SkillId
);
uuid_type!(
    /// Id of one execution; also its place in time.
    ExecutionId
);
uuid_type!(
    /// Id of one interceptor.
    InterceptorId
);

impl ExecutionId {
    /// The lowest id of a millisecond, counted from the Unix epoch; no execution has it.
    pub fn first_at(ms: i64) -> Self {
        let mut bytes = [0; 16];
        let ms = u64::try_from(ms).unwrap_or(0).to_be_bytes();
        // The first 48 bits of a UUIDv7 are its time (RFC 9562, section 5.7).
        bytes[..6].copy_from_slice(&ms[2..]);
        Self::from_bytes(bytes)
    }
}

/// SHA-256 of a component's bytes; written `sha256:` and 64 lower-case hex digits (OCI).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Digest([u8; 32]);

/// A digest as text, without a buffer on the heap: every execution is told with one.
struct DigestText([u8; DIGEST_PREFIX.len() + 64]);

const DIGEST_PREFIX: &str = "sha256:";

impl Digest {
    /// The digest with these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The digest of `data`.
    pub fn of(data: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(data).into())
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 hex digits without the prefix: a safe file name.
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut bytes = [0; 32];
        match text.strip_prefix(DIGEST_PREFIX).map(|hex| hex::decode_to_slice(hex, &mut bytes)) {
            Some(Ok(())) => Ok(Self(bytes)),
            _ => Err(Error::new(
                Code::Malformed,
                format!("{:?} is not a digest: `sha256:` and 64 hex digits", quotable(text)),
            )),
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl DigestText {
    fn of(digest: &Digest) -> Self {
        let mut text = [0; _];
        let (prefix, digits) = text.split_at_mut(DIGEST_PREFIX.len());
        prefix.copy_from_slice(DIGEST_PREFIX.as_bytes());
        // Of just this length, so that it cannot fail.
        let _ = hex::encode_to_slice(digest.0, digits);
        Self(text)
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(DigestText::of(self).as_str())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(DigestText::of(self).as_str())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skill_names_follow_the_agent_skills_rules() {
        for good in ["a", "hello", "a-b-2", "0", &"x".repeat(64)] {
            assert!(good.parse::<SkillName>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "a--b", "A", "a_b", "../x", "a/b", "a b", "é", "a\0", &"x".repeat(65)] {
            assert!(bad.parse::<SkillName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn digests_read_what_they_write_and_nothing_else() {
        let digest = Digest::of(b"abc");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        assert!(digest.hex().parse::<Digest>().is_err());
        assert!("sha256:ab".parse::<Digest>().is_err());
        assert!("sha512:00".parse::<Digest>().is_err());
    }

    #[test]
    fn ids_are_hyphenated_uuids_only_and_grow() {
        let first = ExecutionId::generate();
        assert_eq!(first.to_string().parse::<ExecutionId>().unwrap(), first);
        assert!(first.to_string().replace('-', "").parse::<ExecutionId>().is_err());
        assert!(first < ExecutionId::generate());
    }
}
