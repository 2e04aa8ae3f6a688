//! Certificates of connections with TLS: those that are trusted, and the client's own.

use crate::bounded_file;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::path::{Path, PathBuf};

/// Largest file of certificates or of a key.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Certificates of connections with TLS.
#[derive(Debug, Default)]
pub struct TlsIdentity {
    /// Trusted authorities; if empty, those of the system.
    pub authorities: Vec<CertificateDer<'static>>,
    /// The client's chain and its key, for mutual TLS.
    pub client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    /// Name in SNI and in the server's certificate; by default the host.
    pub server_name: Option<ServerName<'static>>,
}

impl Clone for TlsIdentity {
    fn clone(&self) -> Self {
        let client = self.client.as_ref().map(|(chain, key)| (chain.clone(), key.clone_key()));
        Self {
            authorities: self.authorities.clone(),
            client,
            server_name: self.server_name.clone(),
        }
    }
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is not PEM, or has no certificate or key.
    #[error("`{}` has no {what} in PEM: {reason}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
        /// The reason.
        reason: String,
    },
    /// The name is not one of a server.
    #[error("`{0}` is not the name of a server")]
    Name(String),
}

impl TlsIdentity {
    /// Trusts the authorities of a file instead of those of the system.
    ///
    /// # Errors
    /// The file has no certificate.
    pub fn trust(&mut self, file: &Path) -> Result<(), TlsError> {
        self.authorities = certificates(file)?;
        Ok(())
    }

    /// Presents the certificates of a file, with the key of another one.
    ///
    /// # Errors
    /// A file has no certificate or no key.
    pub fn present(&mut self, chain: &Path, key: &Path) -> Result<(), TlsError> {
        let private = PrivateKeyDer::from_pem_slice(&pem(key, "private key")?);
        let private = private.map_err(|error| fault(key, "private key", &error))?;
        self.client = Some((certificates(chain)?, private));
        Ok(())
    }

    /// Expects another name than the host in the server's certificate.
    ///
    /// # Errors
    /// It is not a host name or an address.
    pub fn expect_name(&mut self, name: &str) -> Result<(), TlsError> {
        let parsed = ServerName::try_from(name.to_owned());
        self.server_name = Some(parsed.map_err(|_| TlsError::Name(name.to_owned()))?);
        Ok(())
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = pem(path, "certificate")?;
    let read = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    let certificates = read.map_err(|error| fault(path, "certificate", &error))?;
    if certificates.is_empty() {
        return Err(fault(path, "certificate", &"the file has none"));
    }
    Ok(certificates)
}

fn pem(path: &Path, what: &'static str) -> Result<Vec<u8>, TlsError> {
    bounded_file::read(path, MAX_FILE_BYTES).map_err(|error| fault(path, what, &error.error))
}

/// The error never has the content of the file.
fn fault(path: &Path, what: &'static str, reason: &dyn ToString) -> TlsError {
    TlsError::Pem { path: path.to_owned(), what, reason: reason.to_string() }
}
