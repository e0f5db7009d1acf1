//! Which certificates are trusted.

use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::OnceCell;

use crate::model::{Code, Error};

/// The system's authorities, and those that the operator adds.
pub(super) struct Tls {
    extra: Vec<CertificateDer<'static>>,
    config: OnceCell<Arc<ClientConfig>>,
}

impl Tls {
    /// Reads the operator's authorities; the system's are read with the first connection.
    ///
    /// # Errors
    ///
    /// `unavailable` if the file cannot be used.
    pub(super) fn open(ca_file: Option<&Path>) -> Result<Self, Error> {
        let unusable = |why: String| Error::new(Code::Unavailable, format!("egress.ca_file cannot be used: {why}"));
        let extra = ca_file.map(authorities).transpose().map_err(unusable)?.unwrap_or_default();
        Ok(Self { extra, config: OnceCell::new() })
    }

    /// How connections are made.
    pub(super) async fn config(&self) -> Result<Arc<ClientConfig>, Error> {
        let make = || async {
            let extra = self.extra.clone();
            let made = tokio::task::spawn_blocking(move || config(&extra));
            made.await.map_err(Error::internal)?.map(Arc::new).map_err(Error::internal)
        };
        self.config.get_or_try_init(make).await.cloned()
    }
}

/// Reads the authorities in a file (PEM).
///
/// # Errors
///
/// Why the file cannot be used, without its name.
pub(crate) fn authorities(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = std::fs::read(file).map_err(|error| format!("it cannot be read: {error}"))?;
    let certificates = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| format!("it is not PEM: {error}"))?;
    if certificates.is_empty() {
        return Err("it has no certificate in it (PEM is expected)".to_owned());
    }
    roots(&certificates).map_err(|error| error.to_string())?;
    Ok(certificates)
}

fn roots(extra: &[CertificateDer<'static>]) -> Result<RootCertStore, rustls::Error> {
    let mut roots = RootCertStore::empty();
    for certificate in extra {
        roots.add(certificate.clone())?;
    }
    Ok(roots)
}

fn config(extra: &[CertificateDer<'static>]) -> Result<ClientConfig, rustls::Error> {
    let mut roots = roots(extra)?;
    // What of the system's cannot be read is as if it were not there.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A ticket that one owner got must not be shown for another: the other side would know both.
    config.resumption = Resumption::disabled();
    Ok(config)
}
