//! TLS of the engine's connections.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// How `https` targets are talked to.
#[derive(Clone)]
pub(super) struct Tls {
    http1: TlsConnector,
    http2: TlsConnector,
}

impl Tls {
    /// `insecure` accepts every certificate.
    pub(super) fn new(insecure: bool) -> Result<Self, rustls::Error> {
        let connector = |protocol: &[u8]| {
            config(insecure).map(|mut config| {
                config.alpn_protocols = vec![protocol.to_vec()];
                TlsConnector::from(Arc::new(config))
            })
        };
        Ok(Self { http1: connector(b"http/1.1")?, http2: connector(b"h2")? })
    }

    pub(super) fn connector(&self, http2: bool) -> &TlsConnector {
        if http2 { &self.http2 } else { &self.http1 }
    }
}

fn config(insecure: bool) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?;
    if insecure {
        let anything = Arc::new(Anything { provider });
        let builder = builder.dangerous().with_custom_certificate_verifier(anything);
        return Ok(builder.with_no_client_auth());
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Accepts every certificate: the target of a load test is known, its certificate often made for
/// the test. Signatures are verified, so that a handshake costs what it costs others.
#[derive(Debug)]
struct Anything {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Anything {
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
