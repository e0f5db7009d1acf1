//! The key that secrets are sealed with, and where it lies.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::files;
use crate::model::{Code, Error};

/// The key's file in the data directory, if no other is named. A backup leaves it out.
pub const KEY_FILE: &str = "secrets.key";

/// 256 bits.
#[derive(Clone)]
pub struct SealingKey(Zeroizing<[u8; 32]>);

impl SealingKey {
    /// Reads a key: 64 hexadecimal digits.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in words that do not repeat it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let mut key = Zeroizing::new([0; 32]);
        hex::decode_to_slice(text.trim(), &mut *key).map_err(|_| "must have 64 hexadecimal digits")?;
        Ok(Self(key))
    }

    /// A new key.
    fn generate() -> Result<Self, Error> {
        let mut key = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *key).map_err(|error| Error::internal(error.to_string()))?;
        Ok(Self(key))
    }

    /// The key itself.
    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// What tells it from other keys, and tells nobody the key.
    pub(super) fn id(&self) -> [u8; 16] {
        let hash = Sha256::new().chain_update(b"skillvisor secrets key id\0").chain_update(*self.0).finalize();
        let mut id = [0; 16];
        id.copy_from_slice(&hash[..16]);
        id
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey([hidden])")
    }
}

/// Where the key comes from.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// A file, made with the first secret: by default [`KEY_FILE`] in the data directory.
    File(PathBuf),
    /// Who starts the host has it.
    Given(SealingKey),
}

impl KeySource {
    /// The key, if there is one.
    pub(super) fn load(&self) -> Result<Option<SealingKey>, Error> {
        let path = match self {
            Self::Given(key) => return Ok(Some(key.clone())),
            Self::File(path) => path,
        };
        match read(path) {
            Ok(text) => SealingKey::parse(&text).map(Some).map_err(unusable),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(unusable("must belong to this user, who alone may read it (chmod 600)"))
            }
            Err(error) => Err(unusable(&error.to_string())),
        }
    }

    /// The key, if it is the one that everything was sealed with. `sealed` are the ids of those that were
    /// sealed with.
    ///
    /// # Errors
    ///
    /// `unavailable` if it is missing, cannot be read or is another one.
    pub fn require(&self, sealed: impl IntoIterator<Item = [u8; 16]>) -> Result<Option<SealingKey>, Error> {
        let key = self.load()?;
        for id in sealed {
            match &key {
                None => return Err(lost("is not there")),
                Some(key) if key.id() != id => return Err(lost("is not the one that they were stored with")),
                Some(_) => {}
            }
        }
        Ok(key)
    }

    /// A new key, which is on the disk before anything is sealed with it.
    pub(super) fn create(&self) -> Result<SealingKey, Error> {
        let path = match self {
            Self::Given(key) => return Ok(key.clone()),
            Self::File(path) => path,
        };
        let key = SealingKey::generate()?;
        let text = Zeroizing::new(hex::encode(key.bytes()) + "\n");
        let folder = path.parent().unwrap_or(Path::new("."));
        let written = files::write_durably(path, text.as_bytes()).and_then(|()| files::sync_directory(folder));
        written.map_err(|error| unusable(&format!("cannot be written: {error}")))?;
        tracing::info!("A key for secrets was made; keep a copy of it apart from those of the data");
        Ok(key)
    }
}

/// Reads a file that is this user's alone.
fn read(path: &Path) -> io::Result<Zeroizing<String>> {
    let metadata = path.metadata()?;
    if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o077 != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    std::fs::read_to_string(path).map(Zeroizing::new)
}

fn unusable(why: &str) -> Error {
    Error::new(Code::Unavailable, format!("the key for secrets (secrets.key_file) cannot be used: it {why}"))
}

/// What to say when stored secrets cannot be opened any more.
pub(super) fn lost(why: &str) -> Error {
    let detail = format!(
        "the stored secrets cannot be opened: their key {why}. Put back the file that secrets.key_file names \
         ({KEY_FILE} in the data directory by default), or set SKILLVISOR_SECRETS_KEY to it. Nothing was changed"
    );
    Error::new(Code::Unavailable, detail)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_for_this_user_alone_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(KEY_FILE);
        let source = KeySource::File(path.clone());
        assert!(source.load().unwrap().is_none());
        let made = source.create().unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(source.load().unwrap().unwrap().bytes(), made.bytes());
        assert!(source.create().is_err());
        assert_eq!(source.load().unwrap().unwrap().id(), made.id());
    }

    #[test]
    fn a_file_that_others_can_read_or_that_holds_no_key_is_refused_without_showing_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let digits = "0f".repeat(32);
        for (text, mode) in [(digits.as_str(), 0o640), (digits.as_str(), 0o604), ("f00d", 0o600), ("", 0o600)] {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = KeySource::File(path.clone()).load().unwrap_err();
            assert!(error.code == Code::Unavailable && error.detail.contains("secrets.key_file"), "{error:?}");
            assert!(text.is_empty() || !error.detail.contains(text), "{error:?}");
        }
    }

    #[test]
    fn keys_differ_and_show_themselves_to_nobody() {
        let (one, other) = (SealingKey::generate().unwrap(), SealingKey::generate().unwrap());
        assert_ne!(one.id(), other.id());
        assert!(!format!("{one:?}").contains(&hex::encode(one.bytes())));
        assert!(!hex::encode(one.bytes()).contains(&hex::encode(one.id())));
    }
}
