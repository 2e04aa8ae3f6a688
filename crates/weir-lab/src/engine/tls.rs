//! TLS of the engine's connections.

use crate::program::TlsIdentity;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::sync::{Arc, OnceLock};
use tokio_rustls::TlsConnector;

/// TLS configuration of `https` targets, created on first use.
pub(super) struct Tls {
    insecure: bool,
    identity: TlsIdentity,
    /// For HTTP/1.1 and for HTTP/2.
    connectors: [OnceLock<Result<TlsConnector, rustls::Error>>; 2],
}

impl Tls {
    /// `insecure` accepts every certificate.
    pub(super) fn new(insecure: bool, identity: TlsIdentity) -> Self {
        Self { insecure, identity, connectors: Default::default() }
    }

    /// The name in the certificate of a host.
    pub(super) fn server_name(&self, host: &str) -> Option<ServerName<'static>> {
        let own = self.identity.server_name.clone();
        own.or_else(|| ServerName::try_from(host.to_owned()).ok())
    }

    pub(super) fn connector(&self, http2: bool) -> Result<&TlsConnector, rustls::Error> {
        let create = || {
            let mut config = config(self.insecure, self.identity.clone())?;
            config.alpn_protocols = vec![if http2 { "h2" } else { "http/1.1" }.into()];
            Ok(TlsConnector::from(Arc::new(config)))
        };
        self.connectors[usize::from(http2)].get_or_init(create).as_ref().map_err(Clone::clone)
    }
}

fn config(insecure: bool, identity: TlsIdentity) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?;
    let builder = if insecure {
        let anything = Arc::new(AcceptAnyCertificate { provider });
        builder.dangerous().with_custom_certificate_verifier(anything)
    } else {
        let mut roots = RootCertStore::empty();
        match identity.authorities.is_empty() {
            true => roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs),
            false => roots.add_parsable_certificates(identity.authorities),
        };
        builder.with_root_certificates(roots)
    };
    match identity.client {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key),
        None => Ok(builder.with_no_client_auth()),
    }
}

/// Accepts every certificate: the target of a load test is known, and its certificate is often made
/// for the test. Signatures are verified, so that a handshake has its usual cost.
#[derive(Debug)]
struct AcceptAnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
