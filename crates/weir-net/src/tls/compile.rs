//! Certificates and keys of a configuration, compiled for rustls.

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use weir_config::{
    Authorities, ClientCertificates, Config, Identity, Protocol, TlsSource, UpstreamTls,
};
use weir_document::finding::{Diagnostics, codes};
use weir_model::UpstreamId;

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// The root certificates of the system, read once if at all.
#[derive(Default)]
pub struct SystemRoots(Option<Arc<RootCertStore>>);

impl SystemRoots {
    fn get(&mut self) -> Arc<RootCertStore> {
        let read = || {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            Arc::new(roots)
        };
        Arc::clone(self.0.get_or_insert_with(read))
    }
}

fn roots(authorities: &Authorities) -> Result<Arc<RootCertStore>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    for certificate in &authorities.certificates {
        roots.add(certificate.clone())?;
    }
    Ok(Arc::new(roots))
}

/// A certificate with its key.
///
/// # Errors
/// They cannot be used, or do not match.
pub(super) fn certified_key(identity: &Identity) -> Result<Arc<CertifiedKey>, rustls::Error> {
    let key = identity.key.clone_key();
    CertifiedKey::from_der(identity.chain.clone(), key, &provider()).map(Arc::new)
}

/// Verifies certificates of clients. The error is a text.
fn verifier(
    clients: &ClientCertificates,
    roots: Arc<RootCertStore>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider())
        .with_crls(clients.revoked.iter().cloned());
    if clients.optional {
        builder = builder.allow_unauthenticated();
    }
    builder.build().map_err(|error| error.to_string())
}

/// Verifies certificates of clients.
///
/// # Errors
/// The authorities or revocation lists cannot be used.
pub(super) fn client_verifier(
    clients: &ClientCertificates,
) -> Result<Arc<dyn ClientCertVerifier>, rustls::Error> {
    verifier(clients, roots(&clients.ca)?).map_err(rustls::Error::General)
}

fn client_config(
    tls: &UpstreamTls,
    protocol: Protocol,
    system: &mut SystemRoots,
) -> Result<Arc<ClientConfig>, rustls::Error> {
    let roots = match &tls.ca {
        Some(authorities) => roots(authorities)?,
        None => system.get(),
    };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut client = match &tls.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let key = identity.key.clone_key();
            builder.with_client_auth_cert(identity.chain.clone(), key)?
        }
    };
    client.alpn_protocols = match protocol {
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
    };
    Ok(Arc::new(client))
}

/// TLS towards upstreams: roots, client certificate, ALPN.
#[derive(Debug, Default)]
pub struct UpstreamClients(Vec<Option<Arc<ClientConfig>>>);

impl UpstreamClients {
    /// Those of all upstreams.
    ///
    /// # Errors
    /// rustls rejects a certificate.
    pub fn new(config: &Config) -> Result<Self, rustls::Error> {
        let mut system = SystemRoots::default();
        let clients = config.upstreams.iter().map(|upstream| {
            let tls = upstream.tls.as_ref();
            tls.map(|tls| client_config(tls, upstream.protocol, &mut system)).transpose()
        });
        clients.collect::<Result<_, _>>().map(Self)
    }

    /// That of an upstream; `None` without TLS.
    pub fn get(&self, id: UpstreamId) -> Option<&Arc<ClientConfig>> {
        self.0.get(id.0)?.as_ref()
    }
}

/// Finds out whether certificates can be used.
pub fn check(source: &TlsSource, system: &mut SystemRoots, report: &mut Diagnostics) {
    let code = codes::BAD_CERTIFICATE;
    match source {
        TlsSource::Identity(identity) => match certified_key(identity) {
            Ok(_) => {}
            Err(rustls::Error::InconsistentKeys(_)) => {
                let message = "the private key does not match the certificate";
                report.error(code, identity.at, message);
            }
            Err(error) => {
                let message = format!("certificate and key cannot be used: {error}");
                report.error(code, identity.at, message);
            }
        },
        TlsSource::Authorities(authorities) => {
            if let Err(error) = roots(authorities) {
                let message = format!("a root certificate cannot be used: {error}");
                report.error(code, authorities.at, message);
            }
        }
        TlsSource::SystemRoots(at) => {
            if system.get().is_empty() {
                let message = "the system has no root certificates for https targets";
                report.error(codes::NO_ROOTS, *at, message).help(
                    "set `tls: {ca: \"file:ca.crt\"}`, or install the package `ca-certificates`",
                );
            }
        }
        TlsSource::Clients(clients) => {
            // Bad authorities are a finding of their own.
            if let Ok(roots) = roots(&clients.ca)
                && let Err(error) = verifier(clients, roots)
            {
                report.error(code, clients.at, format!("invalid client CA: {error}"));
            }
        }
    }
}
