//! TLS of the HTTP API: certificate and key from files, read again on request.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::config::ConfigError;
use crate::model::Digest;

/// What clients may speak, the better one first (RFC 7301).
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// A certificate with its key, as last read from their files.
pub struct Tls {
    cert: PathBuf,
    key: PathBuf,
    current: ArcSwap<Loaded>,
}

/// What a client opened a connection with.
pub(super) enum Accepted {
    /// A handshake.
    Tls(Box<TlsStream<TcpStream>>),
    /// HTTP, as if there were no TLS here. Nothing of it was read.
    ClearText(TcpStream),
}

struct Loaded {
    config: Arc<ServerConfig>,
    certificate: Digest,
}

impl Tls {
    /// Reads a certificate chain, the server's own first, and its key, both as PEM.
    ///
    /// # Errors
    ///
    /// Which file cannot be used and why, or that they do not belong together.
    pub fn load(cert: &Path, key: &Path) -> Result<Self, ConfigError> {
        let current = ArcSwap::from_pointee(Loaded::read(cert, key)?);
        Ok(Self { cert: cert.to_owned(), key: key.to_owned(), current })
    }

    /// Reads the files again, for connections from now on.
    ///
    /// # Errors
    ///
    /// As [`Tls::load`]; what was read before stays in use.
    pub fn reload(&self) -> Result<(), ConfigError> {
        self.current.store(Arc::new(Loaded::read(&self.cert, &self.key)?));
        Ok(())
    }

    /// SHA-256 of the server's own certificate (DER).
    pub fn certificate(&self) -> Digest {
        self.current.load().certificate
    }

    /// Shakes hands on a new connection, if the client means to.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<Accepted> {
        let mut first = [0];
        stream.peek(&mut first).await?;
        // Methods are upper-case letters (RFC 9110, section 9), which begin no record of TLS.
        if first[0].is_ascii_uppercase() {
            return Ok(Accepted::ClearText(stream));
        }
        let config = Arc::clone(&self.current.load().config);
        TlsAcceptor::from(config).accept(stream).await.map(|stream| Accepted::Tls(Box::new(stream)))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("cert", &self.cert).finish_non_exhaustive()
    }
}

impl Loaded {
    fn read(cert: &Path, key: &Path) -> Result<Self, ConfigError> {
        let chain = chain(cert)?;
        let certificate = chain.first().map(|own| Digest::of(own)).ok_or_else(|| {
            ConfigError::new(format!("tls.cert: {} has no certificate in it (PEM is expected)", cert.display()))
        })?;
        let unusable = |error: &rustls::Error| {
            let why = match error {
                rustls::Error::InconsistentKeys(_) => "they do not belong together".to_owned(),
                other => other.to_string(),
            };
            ConfigError::new(format!("tls.cert {} and tls.key {}: {why}", cert.display(), key.display()))
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&error))?
            .with_no_client_auth()
            .with_single_cert(chain, private_key(key)?)
            .map_err(|error| unusable(&error))?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
        Ok(Self { config: Arc::new(config), certificate })
    }
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let text = content("tls.cert", path)?;
    CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| ConfigError::new(format!("tls.cert: {} is not PEM: {error}", path.display())))
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ConfigError> {
    let text = content("tls.key", path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        let why = match error {
            pem::Error::NoItemsFound => "has no private key in it (PEM is expected, without a passphrase)".to_owned(),
            other => format!("is not PEM: {other}"),
        };
        ConfigError::new(format!("tls.key: {} {why}", path.display()))
    })
}

fn content(setting: &str, path: &Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|error| ConfigError::new(format!("{setting}: cannot read {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use rcgen::CertifiedKey;

    use super::*;

    fn files(dir: &Path, name: &str) -> (PathBuf, PathBuf) {
        let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let (cert_file, key_file) = (dir.join(format!("{name}.pem")), dir.join(format!("{name}.key")));
        std::fs::write(&cert_file, cert.pem()).unwrap();
        std::fs::write(&key_file, signing_key.serialize_pem()).unwrap();
        (cert_file, key_file)
    }

    fn problem(cert: &Path, key: &Path) -> String {
        Tls::load(cert, key).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn files_that_cannot_be_used_are_named_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let (cert, key) = files(dir.path(), "a");
        let (_, other) = files(dir.path(), "b");
        let none = dir.path().join("none");
        let text = dir.path().join("text");
        std::fs::write(&text, "hello").unwrap();
        assert_eq!(problem(&cert, &key), "");
        assert!(problem(&cert, &other).contains("do not belong together"), "{}", problem(&cert, &other));
        assert!(problem(&none, &key).starts_with("tls.cert: cannot read "));
        assert!(problem(&cert, &none).starts_with("tls.key: cannot read "));
        assert!(problem(&text, &key).contains("no certificate in it"), "{}", problem(&text, &key));
        assert!(problem(&cert, &cert).contains("no private key in it"), "{}", problem(&cert, &cert));
        std::fs::write(&text, "-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----\n").unwrap();
        assert!(problem(&text, &key).contains("is not PEM"), "{}", problem(&text, &key));
    }

    #[test]
    fn a_reload_that_fails_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let (cert, key) = files(dir.path(), "a");
        let tls = Tls::load(&cert, &key).unwrap();
        let first = tls.certificate();
        let (newer, newer_key) = files(dir.path(), "b");
        std::fs::copy(&newer, &cert).unwrap();
        assert!(tls.reload().is_err());
        assert_eq!(tls.certificate(), first);
        std::fs::copy(&newer_key, &key).unwrap();
        tls.reload().unwrap();
        assert_ne!(tls.certificate(), first);
    }
}
