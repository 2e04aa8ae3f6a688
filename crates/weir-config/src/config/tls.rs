//! Certificates and keys: read from PEM, not compiled.

use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName};
use std::sync::Arc;
use weir_document::settings;
use weir_document::shape::{Kind, format};
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

settings! {
    /// A certificate with its private key, both in PEM.
    pub(crate) static CERTIFICATE is "a certificate" {
        /// Certificate chain in PEM, the server certificate first: `file:tls.crt`.
        cert = by_hand(Kind::Text).required(),
        /// Private key in PEM: `file:tls.key`.
        key = by_hand(Kind::Secret).required(),
    }
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

settings! {
    /// mTLS: clients without a valid certificate are rejected during the handshake. An `auth` with
    /// `certificate` identifies the client and grants access.
    pub(crate) static CLIENT_CERTIFICATES is "mutual TLS" {
        /// Certificates of the trusted certificate authorities in PEM: `file:clients.crt`.
        ca = by_hand(Kind::Text).required(),
        /// Certificate revocation lists (CRL, RFC 5280) in PEM: `file:clients.crl`. If set, every
        /// authority of a chain needs a CRL; otherwise the certificate is rejected. The age of a
        /// CRL is not checked.
        crl = by_hand(Kind::OneOrMany(&Kind::Text)).absent("no revocation check"),
        /// Also accept clients without a certificate; an invalid one is always rejected.
        optional = by_hand(Kind::Bool).default("false"),
    }
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

settings! {
    /// TLS to `https` targets.
    pub(crate) static UPSTREAM_TLS is "the TLS of an upstream" {
        /// Trusted root certificates in PEM: `file:ca.crt`.
        ca = by_hand(Kind::Text).absent("those of the system"),
        /// Client certificate chain in PEM.
        cert = by_hand(Kind::Text),
        /// Private key of the client certificate in PEM.
        key = by_hand(Kind::Secret),
        /// Name for SNI and for the verification of the certificate.
        server_name = by_hand(Kind::Format(format::HOST)).absent("the host of the target"),
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
