//! Certificates and keys of a configuration, compiled for rustls.

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
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

/// Certificates of a configuration, each with what was compiled from it.
#[derive(Debug, Default)]
pub struct Certificates {
    keys: Vec<(Arc<Identity>, Arc<CertifiedKey>)>,
    roots: Vec<(Authorities, Arc<RootCertStore>)>,
    verifiers: Vec<(ClientCertificates, Arc<dyn ClientCertVerifier>)>,
    /// The root certificates of the system, read once if at all.
    system: Option<Arc<RootCertStore>>,
}

impl Certificates {
    /// Compiles certificates. Those that cannot be used are findings.
    #[must_use]
    pub fn compile(sources: Vec<TlsSource>, report: &mut Diagnostics) -> Self {
        let mut compiled = Self::default();
        for source in sources {
            compiled.add(source, report);
        }
        compiled
    }

    fn add(&mut self, source: TlsSource, report: &mut Diagnostics) {
        let code = codes::BAD_CERTIFICATE;
        match source {
            TlsSource::Identity(identity) => match certified_key(&identity) {
                Ok(key) => self.keys.push((identity, key)),
                Err(rustls::Error::InconsistentKeys(_)) => {
                    let message = "the private key does not match the certificate";
                    report.error(code, identity.at, message);
                }
                Err(error) => {
                    let message = format!("certificate and key cannot be used: {error}");
                    report.error(code, identity.at, message);
                }
            },
            TlsSource::Authorities(authorities) => match roots(&authorities) {
                Ok(roots) => self.roots.push((authorities, roots)),
                Err(error) => {
                    let message = format!("a root certificate cannot be used: {error}");
                    report.error(code, authorities.at, message);
                }
            },
            TlsSource::SystemRoots(at) => {
                if self.system.get_or_insert_with(system_roots).is_empty() {
                    let message = "the system has no root certificates for https targets";
                    report.error(codes::NO_ROOTS, at, message).help(
                        "set `tls: {ca: \"file:ca.crt\"}`, or install the package `ca-certificates`",
                    );
                }
            }
            TlsSource::Clients(clients) => {
                // Bad authorities are a finding of their own.
                let Some(roots) = self.roots(&clients.ca) else { return };
                match verifier(&clients, Arc::clone(roots)) {
                    Ok(verifier) => self.verifiers.push((clients, verifier)),
                    Err(error) => {
                        report.error(code, clients.at, format!("invalid client CA: {error}"));
                    }
                }
            }
        }
    }

    /// A certificate with its key.
    ///
    /// # Errors
    /// The certificate was not compiled.
    pub(super) fn key(&self, identity: &Identity) -> Result<Arc<CertifiedKey>, rustls::Error> {
        let found = self.keys.iter().find(|(known, _)| std::ptr::eq(&**known, identity));
        found.map(|(_, key)| Arc::clone(key)).ok_or_else(missing)
    }

    /// Verifies certificates of clients.
    ///
    /// # Errors
    /// The authorities were not compiled.
    pub(super) fn verifier(
        &self,
        clients: &ClientCertificates,
    ) -> Result<Arc<dyn ClientCertVerifier>, rustls::Error> {
        let found = self.verifiers.iter().find(|(known, _)| known == clients);
        found.map(|(_, verifier)| Arc::clone(verifier)).ok_or_else(missing)
    }

    fn roots(&self, authorities: &Authorities) -> Option<&Arc<RootCertStore>> {
        let is_same = |known: &Authorities| known.certificates == authorities.certificates;
        self.roots.iter().find(|(known, _)| is_same(known)).map(|(_, roots)| roots)
    }

    fn client_config(
        &self,
        tls: &UpstreamTls,
        alpn_protocols: Vec<Vec<u8>>,
    ) -> Result<Arc<ClientConfig>, rustls::Error> {
        let roots = match &tls.ca {
            Some(authorities) => self.roots(authorities).ok_or_else(missing)?.clone(),
            // A text alone, which is never served, reads no files.
            None => self.system.clone().unwrap_or_else(|| Arc::new(RootCertStore::empty())),
        };
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut client = match &tls.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let key = SingleCertAndKey::from(self.key(identity)?);
                builder.with_client_cert_resolver(Arc::new(key))
            }
        };
        client.alpn_protocols = alpn_protocols;
        Ok(Arc::new(client))
    }
}

fn missing() -> rustls::Error {
    rustls::Error::General("a certificate was not compiled".to_owned())
}

fn system_roots() -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Arc::new(roots)
}

fn roots(authorities: &Authorities) -> Result<Arc<RootCertStore>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    for certificate in &authorities.certificates {
        roots.add(certificate.clone())?;
    }
    Ok(Arc::new(roots))
}

fn certified_key(identity: &Identity) -> Result<Arc<CertifiedKey>, rustls::Error> {
    let key = identity.key.clone_key();
    CertifiedKey::from_der(identity.chain.clone(), key, &provider()).map(Arc::new)
}

fn verifier(
    clients: &ClientCertificates,
    roots: Arc<RootCertStore>,
) -> Result<Arc<dyn ClientCertVerifier>, VerifierBuilderError> {
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider())
        .with_crls(clients.revoked.iter().cloned());
    if clients.optional {
        builder = builder.allow_unauthenticated();
    }
    builder.build()
}

/// TLS towards upstreams, sinks, and the engines and the nodes of the fleet: roots, client certificate, ALPN.
#[derive(Debug, Default)]
pub struct UpstreamClients {
    upstreams: Vec<Option<Arc<ClientConfig>>>,
    database: Option<Arc<ClientConfig>>,
    peers: Option<Arc<ClientConfig>>,
    redis: Option<Arc<ClientConfig>>,
    oidc: Option<Arc<ClientConfig>>,
    kafka: Vec<Option<Arc<ClientConfig>>>,
}

impl UpstreamClients {
    /// Those of all upstreams, and of the engines and the nodes of the fleet.
    ///
    /// # Errors
    /// A certificate was not compiled.
    pub fn new(config: &Config, certificates: &Certificates) -> Result<Self, rustls::Error> {
        let clients = config.upstreams.iter().map(|upstream| {
            let tls = upstream.tls.as_ref();
            let alpn = match upstream.protocol {
                Protocol::Http1 => b"http/1.1".to_vec(),
                Protocol::Http2 => b"h2".to_vec(),
            };
            tls.map(|tls| certificates.client_config(tls, vec![alpn])).transpose()
        });
        let client = |tls: Option<&UpstreamTls>, alpn: Vec<Vec<u8>>| {
            tls.map(|tls| certificates.client_config(tls, alpn)).transpose()
        };
        let kafka = config.tracker.kafka.iter().map(|sink| client(sink.tls.as_ref(), Vec::new()));
        let fleet = config.fleet.as_ref();
        let database = fleet.and_then(|fleet| fleet.postgres.tls.as_ref());
        let peers = fleet.and_then(|fleet| fleet.peers.as_ref()?.tls.as_ref());
        let redis = fleet.and_then(|fleet| fleet.redis.as_ref()?.tls.as_ref());
        let oidc = config.admin.oidc.as_ref().and_then(|oidc| oidc.tls.as_ref());
        Ok(Self {
            upstreams: clients.collect::<Result<_, _>>()?,
            database: client(database, Vec::new())?,
            peers: client(peers, vec![b"http/1.1".to_vec()])?,
            redis: client(redis, Vec::new())?,
            oidc: client(oidc, vec![b"http/1.1".to_vec()])?,
            kafka: kafka.collect::<Result<_, _>>()?,
        })
    }

    /// That of an upstream; `None` without TLS.
    pub fn get(&self, id: UpstreamId) -> Option<&Arc<ClientConfig>> {
        self.upstreams.get(id.0)?.as_ref()
    }

    /// That of the database of the fleet; `None` without TLS.
    pub fn database(&self) -> Option<&Arc<ClientConfig>> {
        self.database.as_ref()
    }

    /// That of the other nodes of the fleet; `None` without TLS.
    pub fn peers(&self) -> Option<&Arc<ClientConfig>> {
        self.peers.as_ref()
    }

    /// That of a sink of Kafka by its index; `None` without TLS.
    pub fn kafka(&self, index: usize) -> Option<&Arc<ClientConfig>> {
        self.kafka.get(index)?.as_ref()
    }

    /// That of the identity provider; `None` without TLS.
    pub fn oidc(&self) -> Option<&Arc<ClientConfig>> {
        self.oidc.as_ref()
    }

    /// That of the Redis of the fleet; `None` without TLS.
    pub fn redis(&self) -> Option<&Arc<ClientConfig>> {
        self.redis.as_ref()
    }
}
