//! Certificates and keys: read from PEM, not compiled.

use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName};
use std::sync::Arc;
use weir_document::source_map::Span;

/// Source of the certificates of a listener.
#[derive(Clone, Debug)]
pub enum Tls {
    /// A certificate that is generated at the first start and kept in the data folder; for
    /// development.
    SelfSigned,
    /// Certificates from files. The first one serves clients that send no server name, or one that
    /// no certificate has.
    Certificates(Vec<Arc<Identity>>),
}

/// A certificate chain and its private key.
pub struct Identity {
    /// The chain, the end entity first; never empty.
    pub chain: Vec<CertificateDer<'static>>,
    /// The private key.
    pub key: PrivateKeyDer<'static>,
    /// Location of both.
    pub at: Span,
}

impl std::fmt::Debug for Identity {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("chain", &self.chain).finish_non_exhaustive()
    }
}

/// Root certificates.
#[derive(Clone, Debug)]
pub struct Authorities {
    /// Never empty.
    pub certificates: Vec<CertificateDer<'static>>,
    /// Location.
    pub at: Span,
}

/// Certificates of clients (mutual TLS).
#[derive(Clone, Debug)]
pub struct ClientCertificates {
    /// Authorities that issue them.
    pub ca: Authorities,
    /// Revocation lists; with any, a certificate without a list of its issuer is rejected.
    pub revoked: Vec<CertificateRevocationListDer<'static>>,
    /// Clients without a certificate are connected, too.
    pub optional: bool,
    /// Location of the lists, or of the authorities.
    pub at: Span,
}

impl PartialEq for ClientCertificates {
    fn eq(&self, other: &Self) -> bool {
        // Wherever they are written.
        self.ca.certificates == other.ca.certificates
            && (&self.revoked, self.optional) == (&other.revoked, other.optional)
    }
}

/// TLS towards the targets of an upstream.
#[derive(Clone, Debug)]
pub struct UpstreamTls {
    /// Root certificates; `None`: those of the system.
    pub ca: Option<Authorities>,
    /// Client certificate.
    pub identity: Option<Arc<Identity>>,
    /// Name to verify and to send, instead of the target's host.
    pub server_name: Option<ServerName<'static>>,
}

/// Certificates as they are written, to be compiled.
#[derive(Debug)]
pub enum TlsSource {
    /// A certificate and its key.
    Identity(Arc<Identity>),
    /// Root certificates.
    Authorities(Authorities),
    /// The root certificates of the system, which this upstream needs.
    SystemRoots(Span),
    /// Certificates of clients.
    Clients(ClientCertificates),
}
