//! Which certificates a client accepts.

use std::path::PathBuf;
use std::sync::Arc;

use reqwest::{Certificate, ClientBuilder};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, SignatureScheme};

use crate::model::Digest;

use super::exit::Failure;

/// Which certificates a server may show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Those that the system's authorities vouch for, or those in this file (PEM).
    Authorities(Option<PathBuf>),
    /// This one and no other, whatever name is in it: the holder of our own data directory's
    /// lock wrote its digest there. Its certificate names the public host, not this machine's
    /// address. None if it does not speak TLS.
    Holder(Option<Digest>),
}

impl Trust {
    /// The same client with this trust.
    pub(super) fn apply(&self, builder: ClientBuilder, is_tls: bool) -> Result<ClientBuilder, Failure> {
        match self {
            // Without TLS no authority is needed, and a machine may have none.
            _ if !is_tls => only(builder, None),
            Self::Holder(certificate) => only(builder, *certificate),
            Self::Authorities(None) => Ok(builder),
            Self::Authorities(Some(path)) => {
                let text = std::fs::read(path).map_err(|error| Failure::unreadable(path, &error))?;
                let wrong = |why: &str| Failure::usage(format!("--ca-file: {} {why}", path.display()));
                let authorities = Certificate::from_pem_bundle(&text).map_err(|_| wrong("is not PEM"))?;
                if authorities.is_empty() {
                    return Err(wrong("has no certificate in it (PEM is expected)"));
                }
                Ok(builder.tls_certs_merge(authorities))
            }
        }
    }
}

/// The same client, which accepts one certificate or none.
fn only(builder: ClientBuilder, certificate: Option<Digest>) -> Result<ClientBuilder, Failure> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Only { certificate, provider: Arc::clone(&provider) };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::internal(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(builder.tls_backend_preconfigured(config))
}

/// Accepts the certificate with this digest; its key is proven by the handshake as ever.
#[derive(Debug)]
struct Only {
    certificate: Option<Digest>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Only {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        if self.certificate == Some(Digest::of(end_entity)) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(TlsError::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
