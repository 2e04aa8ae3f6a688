//! Who may send load: a shared key, or certificates of both ends.
//!
//! The key is never sent. Each end proves that it has the key by an HMAC of the random bytes of both.

use super::AgentError;
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Shortest key, in bytes.
pub const MIN_KEY_BYTES: usize = 16;
/// Largest file of a key.
const MAX_KEY_BYTES: u64 = 4_096;
/// Largest file of certificates.
const MAX_PEM_BYTES: u64 = 1 << 20;

/// Files of a certificate, its key, and the certificates of those that may be at the other end (PEM).
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate, with intermediate ones.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificates of the authorities of the other end.
    pub ca: PathBuf,
}

/// Protection of the connections between controller and agents.
#[derive(Clone, Default)]
pub struct Security {
    key: Option<hmac::Key>,
    tls: Option<(Arc<ServerConfig>, Arc<ClientConfig>)>,
}

impl std::fmt::Debug for Security {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { key, tls } = self;
        write!(f, "Security {{ key: {}, tls: {} }}", key.is_some(), tls.is_some())
    }
}

/// End of a connection that proves that it has the key.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Controller,
    Agent,
}

impl Security {
    /// Reads the files of a shared key and of certificates.
    ///
    /// # Errors
    /// A file cannot be read, the key is too short, or a certificate cannot be used.
    pub fn read(key: Option<&Path>, identity: Option<&Identity>) -> Result<Self, AgentError> {
        let key = key.map(read_key).transpose().map_err(AgentError::Security)?;
        let tls = identity.map(read_identity).transpose().map_err(AgentError::Security)?;
        Ok(Self { key, tls })
    }

    /// Fails if this address may be reached from other machines and nothing protects it.
    pub(super) fn check(&self, address: SocketAddr) -> Result<(), AgentError> {
        match address.ip().to_canonical().is_loopback() || self.key.is_some() || self.tls.is_some()
        {
            true => Ok(()),
            false => Err(AgentError::Unprotected(address.to_string())),
        }
    }

    pub(super) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    pub(super) fn server(&self) -> Option<Arc<ServerConfig>> {
        self.tls.as_ref().map(|(server, _)| server.clone())
    }

    pub(super) fn client(&self) -> Option<Arc<ClientConfig>> {
        self.tls.as_ref().map(|(_, client)| client.clone())
    }

    /// Proof of an end that it has the key; empty without one.
    pub(super) fn proof(&self, end: End, nonces: [&str; 2]) -> String {
        let proof = |key| STANDARD.encode(hmac::sign(key, &message(end, nonces)));
        self.key.as_ref().map(proof).unwrap_or_default()
    }

    /// Whether the other end has the key, compared in constant time. Without a key every end is right.
    pub(super) fn verify(&self, end: End, nonces: [&str; 2], proof: &str) -> bool {
        let Some(key) = &self.key else { return true };
        let proof = STANDARD.decode(proof).unwrap_or_default();
        hmac::verify(key, &message(end, nonces), &proof).is_ok()
    }
}

fn message(end: End, [one, other]: [&str; 2]) -> Vec<u8> {
    format!("weir lab {end:?}\n{one}\n{other}").into_bytes()
}

/// Random bytes of an end, base64.
pub(super) fn nonce() -> Result<String, String> {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| "no random numbers".to_owned())?;
    Ok(STANDARD.encode(bytes))
}

fn read_key(path: &Path) -> Result<hmac::Key, String> {
    let bytes =
        crate::bounded_file::read(path, MAX_KEY_BYTES).map_err(|error| error.to_string())?;
    let key = bytes.trim_ascii();
    if key.len() < MIN_KEY_BYTES {
        let (path, length) = (path.display(), key.len());
        return Err(format!("`{path}` has {length} bytes; a key has at least {MIN_KEY_BYTES}"));
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, key))
}

fn read_identity(files: &Identity) -> Result<(Arc<ServerConfig>, Arc<ClientConfig>), String> {
    let own = certificates(&files.cert)?;
    let pem = pem(&files.key)?;
    let key = PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|error| format!("`{}` has no private key: {error}", files.key.display()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&files.ca)? {
        let wrong = |error| format!("`{}`: {error}", files.ca.display());
        roots.add(certificate).map_err(wrong)?;
    }
    let roots = Arc::new(roots);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let wrong = |error: &dyn std::fmt::Display| format!("`{}`: {error}", files.cert.display());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
        .build()
        .map_err(|error| wrong(&error))?;
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(own.clone(), key.clone_key())
        .map_err(|error| wrong(&error))?;
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?
        .with_root_certificates(roots)
        .with_client_auth_cert(own, key)
        .map_err(|error| wrong(&error))?;
    Ok((Arc::new(server), Arc::new(client)))
}

fn pem(path: &Path) -> Result<Vec<u8>, String> {
    crate::bounded_file::read(path, MAX_PEM_BYTES).map_err(|error| error.to_string())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = pem(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(format!("`{}` has no certificate (PEM)", path.display())),
        Err(error) => Err(format!("`{}`: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_key(text: &str) -> Result<Security, AgentError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        std::fs::write(&path, text).expect("written");
        Security::read(Some(&path), None)
    }

    #[test]
    fn a_proof_belongs_to_a_key_an_end_and_a_connection() {
        let security = with_key("0123456789abcdef\n").expect("long enough");
        let same = with_key("0123456789abcdef").expect("long enough");
        let other = with_key("0123456789abcdeg").expect("long enough");
        let proof = security.proof(End::Agent, ["1", "2"]);
        assert!(same.verify(End::Agent, ["1", "2"], &proof));
        assert!(!other.verify(End::Agent, ["1", "2"], &proof));
        assert!(!same.verify(End::Controller, ["1", "2"], &proof));
        assert!(!same.verify(End::Agent, ["1", "3"], &proof));
        assert!(!same.verify(End::Agent, ["1", "2"], ""));
        assert!(!format!("{security:?}").contains("0123"));
    }

    #[test]
    fn short_keys_are_refused() {
        let error = with_key("0123456789abcde \n").expect_err("15 bytes").to_string();
        assert!(error.contains("15 bytes") && error.contains("at least 16"), "{error}");
    }

    #[test]
    fn other_machines_need_protection() {
        let check = |security: &Security, text: &str| {
            security.check(text.parse().expect("an address")).is_ok()
        };
        assert!(
            check(&Security::default(), "127.0.0.1:1") && check(&Security::default(), "[::1]:1")
        );
        assert!(!check(&Security::default(), "0.0.0.0:1"));
        assert!(check(&with_key("0123456789abcdef").expect("long enough"), "0.0.0.0:1"));
    }
}
