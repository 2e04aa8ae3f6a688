//! TLS of the engine's connections.

use super::client_certificate::{Certificates, Choice};
use super::request_error::RequestError;
use crate::program::{Origin, Program, TlsIdentity, Values};
use crate::sample::ErrorKind;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::io;
use std::sync::{Arc, OnceLock};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Sessions that a user keeps for later connections, eight of a server.
const MAX_SESSIONS: usize = 64;

/// TLS configuration of `https` targets, created on first use.
pub(super) struct Tls {
    insecure: bool,
    identity: TlsIdentity,
    /// Client certificates of users.
    certificates: Option<Arc<Certificates>>,
    config: OnceLock<Result<ClientConfig, rustls::Error>>,
}

impl Tls {
    pub(super) fn of(program: &Program) -> Self {
        Self {
            insecure: program.insecure,
            identity: program.tls.clone(),
            certificates: Certificates::of(program),
            config: OnceLock::new(),
        }
    }

    /// Prepares the handshake with an origin; `None` if it has no TLS. `user` is kept with the user, whose variables
    /// may choose the certificate.
    pub(super) fn prepare<'u>(
        &self,
        user: &'u mut Option<Box<UserTls>>,
        values: Option<&Values>,
        (origin, http2): (&Origin, bool),
    ) -> Result<Option<Handshake<'u>>, RequestError> {
        if !origin.tls {
            return Ok(None);
        }
        let name = self.server_name(&origin.host)?;
        // The server may have a session of a handshake without its certificate, which must not be resumed.
        let kept = user.take().filter(|own| own.fault().is_none());
        let own = user.insert(kept.unwrap_or_else(|| Box::new(UserTls::new(self))));
        if let Some(choice) = &own.choice {
            choice.start(values);
        }
        let connector = match &mut own.connectors[usize::from(http2)] {
            Some(connector) => connector,
            none => {
                let mut config = self.config()?;
                config.alpn_protocols = vec![if http2 { "h2" } else { "http/1.1" }.into()];
                config.resumption = own.sessions.clone();
                if let Some(choice) = &own.choice {
                    config.client_auth_cert_resolver = choice.clone();
                }
                none.insert(TlsConnector::from(Arc::new(config)))
            }
        };
        Ok(Some(Handshake { connector, name, choice: own.choice.as_deref() }))
    }

    /// Without sessions and protocols.
    fn config(&self) -> Result<ClientConfig, RequestError> {
        let config = self.config.get_or_init(|| config(self.insecure, self.identity.clone()));
        config.clone().map_err(|error| RequestError::new(ErrorKind::Tls, error.to_string()))
    }

    /// The name in the certificate of a host.
    fn server_name(&self, host: &str) -> Result<ServerName<'static>, RequestError> {
        let own = self.identity.server_name.clone().map(Ok);
        own.unwrap_or_else(|| ServerName::try_from(host.to_owned())).map_err(|_| {
            RequestError::new(ErrorKind::Tls, "the host is not a valid TLS server name")
        })
    }
}

/// TLS of one user: as clients that know nothing of each other, users resume only sessions of their own.
/// A resumed session has the client certificate of its first handshake.
pub(super) struct UserTls {
    sessions: Resumption,
    /// For HTTP/1.1 and for HTTP/2.
    connectors: [Option<TlsConnector>; 2],
    choice: Option<Arc<Choice>>,
}

/// A handshake to come.
pub(super) struct Handshake<'u> {
    connector: &'u TlsConnector,
    name: ServerName<'static>,
    choice: Option<&'u Choice>,
}

impl UserTls {
    fn new(tls: &Tls) -> Self {
        let choice =
            tls.certificates.clone().map(|certificates| Arc::new(Choice::of(certificates)));
        let sessions = Resumption::in_memory_sessions(MAX_SESSIONS);
        Self { sessions, connectors: [None, None], choice }
    }

    fn fault(&self) -> Option<RequestError> {
        self.choice.as_deref().and_then(Choice::fault)
    }
}

impl Handshake<'_> {
    /// # Errors
    /// The server does not complete the handshake, or there is no certificate that it requests.
    pub(super) async fn perform<S>(self, stream: S) -> Result<TlsStream<S>, RequestError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let connected = self.connector.connect(self.name, stream).await;
        if let Some(fault) = self.choice.and_then(Choice::fault) {
            return Err(fault);
        }
        connected.map_err(|error: io::Error| {
            let fault = RequestError::from_connect(&error);
            // A connection closed during the handshake is a TLS error.
            match fault.kind {
                ErrorKind::Closed => RequestError { kind: ErrorKind::Tls, ..fault },
                _ => fault,
            }
        })
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
