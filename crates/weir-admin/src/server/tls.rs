//! TLS of the admin listener, set up like that of all other listeners.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use weir_config::{Config, Tls};
use weir_net::tls::{ServerTls, TlsError};

/// Certificates, and the folder with self-signed ones.
#[derive(Debug)]
pub(super) struct AdminTls {
    data: PathBuf,
    server: ServerTls,
    acceptor: Arc<ServerConfig>,
    /// The configuration of the certificates; `None` before the first connection.
    config: Option<Arc<Config>>,
}

impl AdminTls {
    pub(super) fn new(tls: &Tls, data: &Path) -> Result<Self, TlsError> {
        let server = ServerTls::new(tls, None, data, None)?;
        let acceptor = acceptor(&server);
        Ok(Self { data: data.to_owned(), server, acceptor, config: None })
    }

    /// TLS for the next connection. The first connection after a reload uses the certificates of
    /// the new configuration; the previous ones stay if the new ones cannot be used.
    pub(super) fn acceptor(&mut self, config: Arc<Config>) -> TlsAcceptor {
        if !self.config.as_ref().is_some_and(|known| Arc::ptr_eq(known, &config)) {
            let tls = config.admin.tls.as_ref();
            let server = tls.map(|tls| ServerTls::new(tls, None, &self.data, Some(&self.server)));
            if let Some(Ok(server)) = server {
                self.acceptor = acceptor(&server);
                self.server = server;
            }
            self.config = Some(config);
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
