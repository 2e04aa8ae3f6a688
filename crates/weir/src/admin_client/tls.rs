//! TLS to an admin listener.

use anyhow::{Context, ensure};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Which authorities vouch for the listener's certificate.
#[derive(Clone, Debug)]
pub(crate) enum Trusted {
    /// Those of the system.
    System,
    /// Those in a file, in PEM.
    Only(PathBuf),
}

/// How to connect to one host.
pub(super) struct Secured {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Secured {
    /// # Errors
    /// No certificate can be read, or the host is no name for one.
    pub(super) fn new(host: &str, trusted: &Trusted) -> anyhow::Result<Self> {
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
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }

    /// # Errors
    /// The handshake fails; the text says which certificate is not trusted, and what to do.
    pub(super) async fn connect(&self, stream: TcpStream) -> anyhow::Result<TlsStream<TcpStream>> {
        self.connector
            .connect(self.name.clone(), stream)
            .await
            .context("TLS failed (`--ca FILE` sets the CA of the listener's certificate)")
    }
}
