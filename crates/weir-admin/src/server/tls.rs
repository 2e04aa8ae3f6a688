//! TLS of the admin listener, set up like that of all other listeners.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use weir_config::Tls;
use weir_gateway::site::Site;
use weir_net::tls::{Certificates, ServerTls, TlsError};

/// Certificates, and the folder with self-signed ones.
#[derive(Debug)]
pub(super) struct AdminTls {
    data: PathBuf,
    server: ServerTls,
    acceptor: Arc<ServerConfig>,
    /// The Site of the certificates; `None` before the first connection.
    site: Option<Arc<Site>>,
}

impl AdminTls {
    pub(super) fn new(
        tls: &Tls,
        certificates: &Certificates,
        data: &Path,
    ) -> Result<Self, TlsError> {
        let server = ServerTls::new(tls, None, certificates, data, None)?;
        let acceptor = acceptor(&server);
        Ok(Self { data: data.to_owned(), server, acceptor, site: None })
    }

    /// TLS for the next connection. The first connection after a reload uses the certificates of
    /// the new configuration; the previous ones stay if the new ones cannot be used.
    pub(super) fn acceptor(&mut self, site: Arc<Site>) -> TlsAcceptor {
        if !self.site.as_ref().is_some_and(|known| Arc::ptr_eq(known, &site)) {
            let (tls, before) = (site.config.admin.tls.as_ref(), Some(&self.server));
            let new = |tls| ServerTls::new(tls, None, &site.certificates, &self.data, before);
            let server = tls.map(new);
            if let Some(Ok(server)) = server {
                self.acceptor = acceptor(&server);
                self.server = server;
            }
            self.site = Some(site);
        }
        TlsAcceptor::from(Arc::clone(&self.acceptor))
    }
}

/// The admin listener supports HTTP/1.1 only.
fn acceptor(server: &ServerTls) -> Arc<ServerConfig> {
    let mut config = ServerConfig::clone(server.config());
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}
