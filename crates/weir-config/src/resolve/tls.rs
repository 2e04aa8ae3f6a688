//! Certificates and keys from PEM.

use super::listener::OPTIONAL;
use super::{Fields, Resolver};
use crate::config::{ClientCertificates, UpstreamTls};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName};
use std::sync::Arc;
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_document::shape::{Key, Kind, Shape, format};
use weir_document::source_map::Span;

/// `tls` of an upstream.
pub(super) static UPSTREAM_TLS: Shape = Shape::new(
    "the TLS of an upstream",
    "TLS towards `https` targets.",
    &[
        Key::new("ca", Kind::Text, "Root certificates in PEM: `file:ca.crt`.")
            .absent("those of the system"),
        Key::new("cert", Kind::Text, "Client certificate chain in PEM."),
        Key::new("key", Kind::Secret, "Private key of the client certificate in PEM."),
        Key::new("server_name", Kind::Format(format::HOST), "Name to verify and to send.")
            .absent("the target's host"),
    ],
);

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

impl Resolver<'_> {
    /// `cert` and `key`, which must belong together.
    pub(super) fn certified_key(&mut self, fields: &Fields<'_>) -> Option<Arc<CertifiedKey>> {
        let (chain, key) = self.identity(fields)?;
        match CertifiedKey::from_der(chain, key, &provider()) {
            Ok(key) => Some(Arc::new(key)),
            Err(error) => {
                self.bad_identity(fields, &error);
                None
            }
        }
    }

    fn bad_identity(&mut self, fields: &Fields<'_>, error: &rustls::Error) {
        let at = fields.node().at;
        let message = match error {
            rustls::Error::InconsistentKeys(_) => {
                "the private key does not match the certificate".to_owned()
            }
            error => format!("certificate and key cannot be used: {error}"),
        };
        self.report.error(codes::BAD_CERTIFICATE, at, message);
    }

    fn identity(
        &mut self,
        fields: &Fields<'_>,
    ) -> Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let (cert, key) = (fields.get("cert"), fields.get("key"));
        let chain = cert.and_then(|node| self.certificates(node));
        let key = key.and_then(|node| self.private_key(node));
        Some((chain?, key?))
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
        let (ca, roots) = (self.certificates(node)?, self.roots(node)?);
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
        let optional = fields.read(&OPTIONAL);
        let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider())
            .with_crls(revoked.iter().cloned());
        if optional {
            builder = builder.allow_unauthenticated();
        }
        match builder.build() {
            Ok(verifier) => Some(ClientCertificates { ca, revoked, optional, verifier }),
            Err(error) => {
                let at = fields.get("crl").unwrap_or(node).at;
                let message = format!("invalid client CA: {error}");
                self.report.error(codes::BAD_CERTIFICATE, at, message);
                None
            }
        }
    }

    /// TLS of an https upstream; `fields` is its `tls`, if it has one, `at` the upstream.
    pub(super) fn upstream_tls(
        &mut self,
        fields: Option<Fields<'_>>,
        at: Span,
    ) -> Option<UpstreamTls> {
        let fields = fields.unwrap_or_else(|| Fields::empty(&UPSTREAM_TLS));
        let roots = match fields.get("ca") {
            Some(node) => self.roots(node)?,
            None => self.native_roots(at)?,
        };
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .ok()?
            .with_root_certificates(roots);
        let mut client = match (fields.get("cert"), fields.get("key")) {
            (None, None) => builder.with_no_client_auth(),
            (Some(_), Some(_)) => {
                let (chain, key) = self.identity(&fields)?;
                match builder.with_client_auth_cert(chain, key) {
                    Ok(client) => client,
                    Err(error) => {
                        self.bad_identity(&fields, &error);
                        return None;
                    }
                }
            }
            (cert, key) => {
                let node = cert.or(key)?;
                self.report
                    .error(codes::MISSING_KEY, node.at, "`cert` and `key` need each other")
                    .help("`cert` is the client certificate, `key` its private key");
                return None;
            }
        };
        client.alpn_protocols = vec![b"http/1.1".to_vec()];
        let server_name = match fields.get("server_name") {
            Some(node) => Some(self.server_name(node)?),
            None => None,
        };
        Some(UpstreamTls { client: Arc::new(client), server_name })
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

    fn roots(&mut self, node: &Node) -> Option<Arc<RootCertStore>> {
        let mut roots = RootCertStore::empty();
        for certificate in self.certificates(node)? {
            if let Err(error) = roots.add(certificate) {
                let message = format!("a root certificate cannot be used: {error}");
                self.report.error(codes::BAD_CERTIFICATE, node.at, message);
                return None;
            }
        }
        Some(Arc::new(roots))
    }

    fn native_roots(&mut self, at: Span) -> Option<Arc<RootCertStore>> {
        if let Some(roots) = &self.native_roots {
            return Some(Arc::clone(roots));
        }
        let mut roots = RootCertStore::empty();
        if !self.draft.sealed {
            let (added, _) =
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if added == 0 {
                let message = "the system has no root certificates for https targets";
                self.report.error(codes::NO_ROOTS, at, message).help(
                    "set `tls: {ca: \"file:ca.crt\"}`, or install the package `ca-certificates`",
                );
                return None;
            }
        }
        let roots = Arc::new(roots);
        self.native_roots = Some(Arc::clone(&roots));
        Some(roots)
    }
}
