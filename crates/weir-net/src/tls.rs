//! TLS of listeners: certificates by server name, client certificates with CRL, resumption, reload.

mod compile;
mod self_signed;

pub use compile::{Certificates, UpstreamClients};

use rustls::crypto::aws_lc_rs;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert, ServerSessionMemoryCache};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SignatureScheme};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use weir_config::{ClientCertificates, Tls};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Sessions kept for clients that resume without tickets (TLS 1.2 session ids).
const SESSIONS: usize = 4096;

/// The TLS configuration of a listener failed.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The folder or files of the self-signed certificate.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// No self-signed certificate could be made.
    #[error("cannot create a self-signed certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// rustls refuses a certificate or key.
    #[error(transparent)]
    Rustls(#[from] rustls::Error),
    /// There is no certificate.
    #[error("a TLS listener needs a certificate")]
    Empty,
}

/// The TLS configuration of a listener.
#[derive(Clone, Debug)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    certificates: Vec<Arc<CertifiedKey>>,
    clients: Option<ClientCertificates>,
    expirations: Arc<[(String, i64)]>,
}

impl ServerTls {
    /// Creates the TLS configuration of a listener; `data` is the folder of self-signed
    /// certificates.
    ///
    /// With the same certificates as `previous`, of server and clients, this is `previous`: clients
    /// can resume their sessions. With others sessions cannot be resumed, so that every client gets
    /// the new certificate, and none continues with a revoked one.
    ///
    /// # Errors
    /// The folder cannot be written, or rustls refuses a certificate.
    pub fn new(
        tls: &Tls,
        clients: Option<&ClientCertificates>,
        compiled: &Certificates,
        data: &Path,
        previous: Option<&Self>,
    ) -> Result<Self, TlsError> {
        let certificates = match tls {
            Tls::Certificates(identities) => {
                let keys = identities.iter().map(|identity| compiled.key(identity));
                keys.collect::<Result<_, _>>()?
            }
            Tls::SelfSigned => vec![self_signed::load_or_make(data, SystemTime::now())?],
        };
        let verifier = clients.map(|clients| compiled.verifier(clients)).transpose()?;
        Self::of(certificates, clients.zip(verifier), previous)
    }

    fn of(
        certificates: Vec<Arc<CertifiedKey>>,
        clients: Option<(&ClientCertificates, Arc<dyn ClientCertVerifier>)>,
        previous: Option<&Self>,
    ) -> Result<Self, TlsError> {
        let (clients, verifier) = clients.unzip();
        if let Some(previous) = previous
            .filter(|p| same(&p.certificates, &certificates) && p.clients.as_ref() == clients)
        {
            return Ok(previous.clone());
        }
        let config = server_config(&certificates, verifier)?;
        let expirations = certificates.iter().filter_map(|key| expiration(key.cert.first()?));
        let expirations = expirations.collect();
        Ok(Self { config: Arc::new(config), certificates, clients: clients.cloned(), expirations })
    }

    /// Whether clients are requested to send a certificate.
    #[must_use]
    pub fn requests_certificates(&self) -> bool {
        self.clients.is_some()
    }

    /// A name of each certificate, and the end of its validity in seconds since 1970.
    #[must_use]
    pub fn expirations(&self) -> &[(String, i64)] {
        &self.expirations
    }

    /// For the acceptor. Connections keep the one they were accepted with.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }
}

/// Path of the certificate of `tls: self-signed` in a data folder, in PEM.
#[must_use]
pub fn self_signed_certificate(data: &Path) -> PathBuf {
    data.join("tls/self-signed.crt")
}

/// The first DNS name of a certificate, or its subject; and the end of its validity in seconds since 1970.
fn expiration(certificate: &[u8]) -> Option<(String, i64)> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let names = parsed.subject_alternative_name().ok().flatten();
    let names = names.iter().flat_map(|extension| &extension.value.general_names);
    let mut names = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    });
    let name = names.next().unwrap_or_else(|| parsed.subject().to_string());
    Some((name, parsed.validity().not_after.timestamp()))
}

fn same(before: &[Arc<CertifiedKey>], after: &[Arc<CertifiedKey>]) -> bool {
    // A certificate holds its public key, so equal certificates have equal keys.
    before.len() == after.len() && before.iter().zip(after).all(|(b, a)| b.cert == a.cert)
}

/// TLS 1.2 and 1.3 with the suites rustls finds safe, HTTP/2 before HTTP/1.1.
fn server_config(
    certificates: &[Arc<CertifiedKey>],
    clients: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<ServerConfig, TlsError> {
    let resolver = BySni::new(certificates)?;
    let builder = ServerConfig::builder_with_provider(compile::provider())
        .with_safe_default_protocol_versions()?;
    let builder = match clients {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.ticketer = aws_lc_rs::Ticketer::new()?;
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    Ok(config)
}

/// Certificates by server name (SNI).
#[derive(Debug)]
struct BySni {
    /// Lower-case names as the certificates have them, `*.` included, each with its certificates in
    /// order.
    names: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// For clients without a name, or with an unknown one.
    default: Arc<CertifiedKey>,
}

impl BySni {
    fn new(certificates: &[Arc<CertifiedKey>]) -> Result<Self, TlsError> {
        let default = certificates.first().cloned().ok_or(TlsError::Empty)?;
        let mut names: HashMap<String, Vec<_>> = HashMap::new();
        for certificate in certificates {
            let parsed =
                webpki::EndEntityCert::try_from(certificate.end_entity_cert()?).map_err(|_| {
                    rustls::Error::InvalidCertificate(rustls::CertificateError::BadEncoding)
                })?;
            for name in parsed.valid_dns_names() {
                names.entry(name.to_ascii_lowercase()).or_default().push(Arc::clone(certificate));
            }
        }
        Ok(Self { names, default })
    }

    /// The exact name, then the wildcard one label up (RFC 9525 section 6.3), then the default. Of
    /// several for one name, the first whose key the client can verify.
    fn find(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> &Arc<CertifiedKey> {
        let found = name.and_then(|name| {
            let name = name.to_ascii_lowercase();
            let wildcard = || Some(format!("*.{}", name.split_once('.')?.1));
            self.names.get(&name).or_else(|| self.names.get(&wildcard()?))
        });
        let Some(certificates) = found else { return &self.default };
        let verifiable = certificates.iter().find(|c| c.key.choose_scheme(schemes).is_some());
        verifiable.or(certificates.first()).unwrap_or(&self.default)
    }
}

impl ResolvesServerCert for BySni {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(self.find(hello.server_name(), hello.signature_schemes())))
    }
}

#[cfg(test)]
mod tests;
