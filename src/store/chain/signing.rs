//! The key that checkpoints are signed with (Ed25519, RFC 8032), and its files: PKCS #8 and
//! SubjectPublicKeyInfo as PEM (RFC 8410), which other tools read too.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::files;
use crate::model::{Code, Error};

/// The key's file in the data directory.
pub const KEY_FILE: &str = "audit.key";

/// What stands before the 32 bytes of a private and of a public key (RFC 8410, sections 7 and 4).
const PRIVATE: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
const PUBLIC: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// What is signed before everything else, so that no signature means two things.
const DOMAIN: &[u8] = b"skillvisor audit checkpoint 1\n";

/// Signs checkpoints.
pub(in crate::store) struct Signer {
    pair: Ed25519KeyPair,
    public: AuditPublicKey,
}

impl Signer {
    /// The key in `dir`; made now if there is none.
    ///
    /// # Errors
    ///
    /// `unavailable` if it cannot be read, is no key, or is not this user's alone.
    pub(in crate::store) fn open(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(KEY_FILE);
        let text = match read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(dir, &path)?,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(unusable("must belong to this user, who alone may read it (chmod 600)"));
            }
            Err(error) => return Err(unusable(&error.to_string())),
        };
        let seed = from_pem(&text, "PRIVATE KEY", &PRIVATE);
        let seed = Zeroizing::new(seed.ok_or_else(|| unusable("is no Ed25519 key (PKCS #8 as PEM)"))?);
        let pair = Ed25519KeyPair::from_seed_unchecked(&*seed).map_err(|_| unusable("is no Ed25519 key"))?;
        let mut public = [0; 32];
        public.copy_from_slice(pair.public_key().as_ref());
        Ok(Self { pair, public: AuditPublicKey(public) })
    }

    pub(super) fn sign(&self, text: &str) -> [u8; 64] {
        let mut signature = [0; 64];
        signature.copy_from_slice(self.pair.sign(&[DOMAIN, text.as_bytes()].concat()).as_ref());
        signature
    }

    /// What the signatures are checked with.
    pub(in crate::store) fn public(&self) -> AuditPublicKey {
        self.public
    }
}

/// What checkpoints are checked with. Not a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AuditPublicKey([u8; 32]);

impl AuditPublicKey {
    /// Reads a key as PEM.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let key = from_pem(text, "PUBLIC KEY", &PUBLIC);
        key.map(Self).ok_or("is no Ed25519 public key as PEM; `skillvisor audit public-key` prints one")
    }

    /// The key as PEM.
    pub fn to_pem(self) -> String {
        to_pem("PUBLIC KEY", &[&PUBLIC[..], &self.0].concat())
    }

    pub(super) fn of_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(super) fn has_signed(&self, text: &str, signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(&[DOMAIN, text.as_bytes()].concat(), signature).is_ok()
    }
}

impl fmt::Debug for AuditPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

fn make(dir: &Path, path: &Path) -> Result<Zeroizing<String>, Error> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed).map_err(|error| Error::internal(error.to_string()))?;
    let whole = Zeroizing::new([&PRIVATE[..], &*seed].concat());
    let text = Zeroizing::new(to_pem("PRIVATE KEY", &whole));
    // Under another name first: what a crash leaves half done must not stop the next start.
    let unfinished = dir.join(format!("{KEY_FILE}.new"));
    let _ = std::fs::remove_file(&unfinished);
    let written = files::write_durably(&unfinished, text.as_bytes())
        .and_then(|()| std::fs::rename(&unfinished, path))
        .and_then(|()| files::sync_directory(dir));
    written.map_err(|error| unusable(&format!("cannot be written: {error}")))?;
    tracing::info!("A key for the audit was made; `skillvisor audit public-key` prints what exports are checked with");
    Ok(text)
}

/// Reads a file that is this user's alone.
fn read(path: &Path) -> io::Result<Zeroizing<String>> {
    let metadata = path.metadata()?;
    if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o077 != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    std::fs::read_to_string(path).map(Zeroizing::new)
}

fn to_pem(what: &str, bytes: &[u8]) -> String {
    format!("-----BEGIN {what}-----\n{}\n-----END {what}-----\n", STANDARD.encode(bytes))
}

fn from_pem(text: &str, what: &str, before: &[u8]) -> Option<[u8; 32]> {
    let (begin, end) = (format!("-----BEGIN {what}-----"), format!("-----END {what}-----"));
    let inner = text.trim().strip_prefix(&begin)?.strip_suffix(&end)?;
    let inner: String = inner.split_whitespace().collect();
    let whole = Zeroizing::new(STANDARD.decode(inner).ok()?);
    whole.strip_prefix(before)?.try_into().ok()
}

fn unusable(why: &str) -> Error {
    let detail = format!("the key of the audit ({KEY_FILE} in the data directory) cannot be used: it {why}");
    Error::new(Code::Unavailable, detail)
}
