//! Certificates and keys from PEM.

use super::{Fields, Resolver};
use crate::config::tls::UPSTREAM_TLS;
use crate::config::{Authorities, ClientCertificates, Identity, TlsSource, UpstreamTls};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName};
use std::sync::Arc;
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_document::source_map::Span;

impl Resolver<'_> {
    /// `cert` and `key`.
    pub(super) fn identity(&mut self, fields: &Fields<'_>) -> Option<Arc<Identity>> {
        let (cert, key) = (fields.get("cert"), fields.get("key"));
        let chain = cert.and_then(|node| self.certificates(node));
        let key = key.and_then(|node| self.private_key(node));
        let identity = Arc::new(Identity { chain: chain?, key: key?, at: fields.node().at });
        self.uncompiled.tls.push(TlsSource::Identity(Arc::clone(&identity)));
        Some(identity)
    }

    /// Root certificates.
    pub(super) fn authorities(&mut self, node: &Node) -> Option<Authorities> {
        let authorities = Authorities { certificates: self.certificates(node)?, at: node.at };
        self.uncompiled.tls.push(TlsSource::Authorities(authorities.clone()));
        Some(authorities)
    }

    fn certificates(&mut self, node: &Node) -> Option<Vec<CertificateDer<'static>>> {
        let pem = node.text()?.as_bytes();
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        match chain {
            Ok(chain) if !chain.is_empty() => Some(chain),
            _ => {
                self.report
                    .error(codes::BAD_CERTIFICATE, node.at, "no certificate in PEM found")
                    .help("`-----BEGIN CERTIFICATE-----` …; from a file: `\"file:tls.crt\"`");
                None
            }
        }
    }

    fn private_key(&mut self, node: &Node) -> Option<PrivateKeyDer<'static>> {
        match PrivateKeyDer::from_pem_slice(node.text()?.as_bytes()) {
            Ok(key) => Some(key),
            Err(_) => {
                self.report
                    .error(codes::BAD_CERTIFICATE, node.at, "no private key in PEM found")
                    .help("`-----BEGIN PRIVATE KEY-----` …, without a passphrase; from a file: `\"file:tls.key\"`");
                None
            }
        }
    }

    /// `client_certificates` of a listener.
    pub(super) fn client_verifier(&mut self, fields: &Fields<'_>) -> Option<ClientCertificates> {
        let node = fields.get("ca")?;
        let ca = self.authorities(node)?;
        let mut revoked = Vec::new();
        for node in fields.many("crl") {
            let pem = node.text()?.as_bytes();
            let lists: Result<Vec<_>, _> =
                CertificateRevocationListDer::pem_slice_iter(pem).collect();
            match lists {
                Ok(lists) if !lists.is_empty() => revoked.extend(lists),
                _ => {
                    let message = "no CRL in PEM found";
                    self.report
                        .error(codes::BAD_CERTIFICATE, node.at, message)
                        .help("`-----BEGIN X509 CRL-----` …; from a file: `\"file:clients.crl\"`");
                    return None;
                }
            }
        }
        let optional = fields.bool("optional").unwrap_or(false);
        let at = fields.get("crl").unwrap_or(node).at;
        let clients = ClientCertificates { ca, revoked, optional, at };
        self.uncompiled.tls.push(TlsSource::Clients(clients.clone()));
        Some(clients)
    }

    /// TLS of an https upstream; `fields` is its `tls`, if any, `at` the location of the upstream.
    pub(super) fn upstream_tls(
        &mut self,
        fields: Option<Fields<'_>>,
        at: Span,
    ) -> Option<UpstreamTls> {
        let fields = fields.unwrap_or_else(|| Fields::empty(&UPSTREAM_TLS));
        let ca = match fields.get("ca") {
            Some(node) => Some(self.authorities(node)?),
            None => {
                // A configuration given as text reads no files.
                if !self.draft.sealed {
                    self.uncompiled.tls.push(TlsSource::SystemRoots(at));
                }
                None
            }
        };
        let identity = match (fields.get("cert"), fields.get("key")) {
            (None, None) => None,
            (Some(_), Some(_)) => Some(self.identity(&fields)?),
            (cert, key) => {
                let node = cert.or(key)?;
                self.report
                    .error(codes::MISSING_KEY, node.at, "`cert` and `key` need each other")
                    .help("`cert` is the client certificate, `key` its private key");
                return None;
            }
        };
        let server_name = match fields.get("server_name") {
            Some(node) => Some(self.server_name(node)?),
            None => None,
        };
        Some(UpstreamTls { ca, identity, server_name })
    }

    fn server_name(&mut self, node: &Node) -> Option<ServerName<'static>> {
        let name = node.text()?;
        if let Ok(name) = ServerName::try_from(name.to_owned()) {
            return Some(name);
        }
        let message = format!("`{name}` is not a valid certificate name");
        self.report.error(codes::BAD_VALUE, node.at, message);
        None
    }
}
