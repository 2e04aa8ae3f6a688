//! TLS to an admin listener.

use anyhow::{Context, ensure};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use std::path::PathBuf;
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

/// Settings of connections to one host.
///
/// # Errors
/// No certificate can be read, or the host is not a valid certificate name.
pub(super) fn settings(host: &str, trusted: &Trusted) -> anyhow::Result<Tls> {
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let name = ServerName::try_from(bare.to_owned())
        .with_context(|| format!("'{host}' is not a valid certificate name"))?;
    let mut roots = RootCertStore::empty();
    match trusted {
        Trusted::System => {
            let found = rustls_native_certs::load_native_certs();
            let (added, _) = roots.add_parsable_certificates(found.certs);
            ensure!(added > 0, "the system has no root certificates: use --ca");
        }
        Trusted::Only(path) => {
            let cannot = || format!("cannot read certificates from {}", path.display());
            let read = CertificateDer::pem_file_iter(path).with_context(cannot)?;
            for certificate in read {
                roots.add(certificate.with_context(cannot)?).with_context(cannot)?;
            }
            ensure!(!roots.is_empty(), cannot());
        }
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Tls { config: Arc::new(config), name })
}
