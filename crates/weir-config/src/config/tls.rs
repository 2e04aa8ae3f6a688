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
    /// Certificates from files. The first one serves clients without a server name, or with one
    /// that no certificate matches.
    Certificates(Vec<Arc<Identity>>),
}

/// A certificate chain and its private key.
pub struct Identity {
    /// The chain, the end-entity certificate first; never empty.
    pub chain: Vec<CertificateDer<'static>>,
    /// The private key.
    pub key: PrivateKeyDer<'static>,
    /// Location of both.
    pub at: Span,
}

impl std::fmt::Debug for Identity {
    /// Does not print the key.
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

/// Client certificates (mutual TLS).
#[derive(Clone, Debug)]
pub struct ClientCertificates {
    /// Trusted certificate authorities.
    pub ca: Authorities,
    /// Certificate revocation lists; if any, a certificate without a list of its issuer is
    /// rejected.
    pub revoked: Vec<CertificateRevocationListDer<'static>>,
    /// Whether clients without a certificate are accepted.
    pub optional: bool,
    /// Location of the lists, or of the authorities.
    pub at: Span,
}

impl PartialEq for ClientCertificates {
    fn eq(&self, other: &Self) -> bool {
        // Equal wherever they are defined.
        self.ca.certificates == other.ca.certificates
            && (&self.revoked, self.optional) == (&other.revoked, other.optional)
    }
}

/// TLS to the targets of an upstream.
#[derive(Clone, Debug)]
pub struct UpstreamTls {
    /// Root certificates; `None`: those of the system.
    pub ca: Option<Authorities>,
    /// Client certificate.
    pub identity: Option<Arc<Identity>>,
    /// Name for SNI and for the verification of the certificate, in place of the target's host.
    pub server_name: Option<ServerName<'static>>,
}

/// Certificates as PEM, to be compiled.
#[derive(Debug)]
pub enum TlsSource {
    /// A certificate and its key.
    Identity(Arc<Identity>),
    /// Root certificates.
    Authorities(Authorities),
    /// The root certificates of the system, needed by this upstream.
    SystemRoots(Span),
    /// Client certificates.
    Clients(ClientCertificates),
}
