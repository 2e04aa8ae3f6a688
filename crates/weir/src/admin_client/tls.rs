//! TLS to an admin listener.

use anyhow::{Context, ensure};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use weir_http_client::Tls;

/// Trusted CAs of the certificate of the listener.
#[derive(Clone, Debug)]
pub(crate) enum Trusted {
    /// The CAs of the system.
    System,
    /// The CAs in a file, in PEM.
    Only(PathBuf),
}

/// Files of the certificate that a client presents, in PEM.
#[derive(Clone, Debug)]
pub(crate) struct ClientCertificate {
    /// The certificate, then those of authorities between it and the one that the listener trusts.
    pub(crate) cert: PathBuf,
    /// The private key.
    pub(crate) key: PathBuf,
}

/// TLS of a client.
#[derive(Clone, Debug)]
pub(crate) struct ClientTls {
    pub(crate) trusted: Trusted,
    pub(crate) certificate: Option<ClientCertificate>,
}

/// Settings of connections to one host.
///
/// # Errors
/// A certificate or key cannot be read, or the host is not a valid certificate name.
pub(crate) fn settings(host: &str, tls: &ClientTls) -> anyhow::Result<Tls> {
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let name = ServerName::try_from(bare.to_owned())
        .with_context(|| format!("'{host}' is not a valid certificate name"))?;
    let mut roots = RootCertStore::empty();
    match &tls.trusted {
        Trusted::System => {
            let found = rustls_native_certs::load_native_certs();
            let (added, _) = roots.add_parsable_certificates(found.certs);
            ensure!(added > 0, "the system has no root certificates: name a file of them");
        }
        Trusted::Only(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).with_context(|| cannot("certificates", path))?;
            }
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match &tls.certificate {
        None => config.with_no_client_auth(),
        Some(ClientCertificate { cert, key }) => {
            let chain = certificates(cert)?;
            let private = PrivateKeyDer::from_pem_file(key);
            let private = private.with_context(|| cannot("a private key", key))?;
            let fit = || format!("{} and {} do not fit", cert.display(), key.display());
            config.with_client_auth_cert(chain, private).with_context(fit)?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Tls { config: Arc::new(config), name })
}

/// The certificates of a file, at least one.
fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read = || CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>();
    let certificates = read().with_context(|| cannot("certificates", path))?;
    ensure!(!certificates.is_empty(), cannot("certificates", path));
    Ok(certificates)
}

fn cannot(what: &str, path: &Path) -> String {
    format!("cannot read {what} from {}", path.display())
}
