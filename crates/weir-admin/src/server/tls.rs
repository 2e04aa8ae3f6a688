//! TLS of the admin listener, set up like that of all other listeners.

use crate::access::NodeCertificate;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;
use weir_config::{ClientCertificates, Config};
use weir_gateway::site::Site;
use weir_net::tls::{Certificates, ServerTls, TlsError};

/// Certificates of the configuration in force.
#[derive(Debug)]
pub(super) struct AdminTls {
    server: ServerTls,
    acceptor: Arc<ServerConfig>,
    /// Other nodes are requested to send a certificate.
    is_mutual: bool,
    /// The Site of the certificates; `None` before the first connection.
    site: Option<Arc<Site>>,
}

impl AdminTls {
    /// TLS of the admin listener; `None` if it is plain.
    pub(super) fn new(
        config: &Config,
        certificates: &Certificates,
    ) -> Result<Option<Self>, TlsError> {
        let Some(server) = server(config, certificates, None).transpose()? else { return Ok(None) };
        let acceptor = acceptor(&server);
        let is_mutual = node_certificates(config).is_some();
        Ok(Some(Self { server, acceptor, is_mutual, site: None }))
    }

    /// TLS for the next connection. The first connection after a reload uses the certificates of
    /// the new configuration; the previous ones stay if the new ones cannot be used.
    pub(super) fn acceptor(&mut self, site: Arc<Site>) -> Acceptor {
        if !self.site.as_ref().is_some_and(|known| Arc::ptr_eq(known, &site)) {
            let new = server(&site.config, &site.certificates, Some(&self.server));
            if let Some(Ok(server)) = new {
                self.acceptor = acceptor(&server);
                self.server = server;
                self.is_mutual = node_certificates(&site.config).is_some();
            }
            self.site = Some(site);
        }
        Acceptor { tls: TlsAcceptor::from(Arc::clone(&self.acceptor)), is_mutual: self.is_mutual }
    }
}

/// TLS of one connection.
pub(super) struct Acceptor {
    tls: TlsAcceptor,
    /// Other nodes are requested to send a certificate.
    is_mutual: bool,
}

impl Acceptor {
    /// Shakes hands; returns whether the client has a certificate, too.
    pub(super) async fn accept(
        self,
        stream: TcpStream,
    ) -> std::io::Result<(TlsStream<TcpStream>, NodeCertificate)> {
        let stream = self.tls.accept(stream).await?;
        let is_verified = stream.get_ref().1.peer_certificates().is_some();
        let certificate = match (self.is_mutual, is_verified) {
            (false, _) => NodeCertificate::NotRequested,
            (true, true) => NodeCertificate::Verified,
            (true, false) => NodeCertificate::Missing,
        };
        Ok((stream, certificate))
    }
}

/// TLS of a configuration, with the certificates of other nodes; `None` if the listener is plain.
fn server(
    config: &Config,
    certificates: &Certificates,
    before: Option<&ServerTls>,
) -> Option<Result<ServerTls, TlsError>> {
    let tls = config.admin.tls.as_ref()?;
    // Either those of nodes, or those of people: the configuration rejects both.
    let clients = node_certificates(config).or(config.admin.clients.as_ref());
    Some(ServerTls::new(tls, clients, certificates, &config.data, before))
}

/// The certificates of other nodes, if TLS between nodes is mutual.
fn node_certificates(config: &Config) -> Option<&ClientCertificates> {
    config.fleet.as_ref()?.peers.as_ref()?.clients.as_ref()
}

/// The admin listener supports HTTP/1.1 only.
fn acceptor(server: &ServerTls) -> Arc<ServerConfig> {
    let mut config = ServerConfig::clone(server.config());
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}
