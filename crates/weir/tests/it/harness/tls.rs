//! TLS for the byte-by-byte client, and certificates for servers under test.

use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::io::{Read, Result, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A certificate that is its own authority, and its key.
pub(crate) struct Certificate {
    /// Certificate in PEM.
    pub(crate) cert: String,
    /// Private key in PEM.
    pub(crate) key: String,
}

impl Certificate {
    /// For one name.
    pub(crate) fn of(name: &str) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed([name.to_owned()]).expect("a certificate");
        Self { cert: cert.pem(), key: signing_key.serialize_pem() }
    }
}

/// A connection's bytes, encrypted or not.
pub(super) enum Io {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Io {
    /// Shakes hands for `name`, trusting these certificates (in PEM) and no others.
    pub(super) fn tls(tcp: TcpStream, name: &str, trusted: &[&str]) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for pem in trusted {
            let der = CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate");
            roots.add(der).expect("a certificate that can be trusted");
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("TLS 1.2 and 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
        let mut stream = StreamOwned::new(connection, tcp);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Self::Tls(Box::new(stream)))
    }

    /// A second handle of a plain connection.
    pub(super) fn try_clone(&self) -> Result<TcpStream> {
        match self {
            Self::Plain(tcp) => tcp.try_clone(),
            Self::Tls(_) => Err(std::io::ErrorKind::Unsupported.into()),
        }
    }

    pub(super) fn shutdown(&self) {
        let tcp = match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(stream) => &stream.sock,
        };
        let _ = tcp.shutdown(Shutdown::Write);
    }

    /// The server's own certificate (DER).
    pub(super) fn certificate(&self) -> Option<Vec<u8>> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => Some(stream.conn.peer_certificates()?.first()?.to_vec()),
        }
    }
}

impl Read for Io {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Io {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match self {
            Self::Plain(tcp) => tcp.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
