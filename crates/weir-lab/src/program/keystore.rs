//! Client certificates of a keystore (PKCS#12), selected and listed as by JMeter.

use super::Variable;
use crate::bounded_file::{self, FileError};
use p12_keystore::error::Error;
use p12_keystore::{CertificateBag, Pkcs12Archive, PrivateKeyBag};
use rustls::crypto::aws_lc_rs;
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest keystore.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// First bytes of Java's own formats.
const MAGIC: [(&[u8], &str); 2] =
    [(&[0xFE, 0xED, 0xFE, 0xED], "JKS"), (&[0xCE, 0xCE, 0xCE, 0xCE], "JCEKS")];

/// Certificates that connections with TLS present if the server requests one.
#[derive(Debug)]
pub struct Keystore {
    /// Variable with the alias; without it the entries take turns.
    pub alias: Option<Variable>,
    /// The selected entries.
    pub entries: Vec<KeystoreEntry>,
}

/// A certificate with its chain and key.
#[derive(Clone)]
pub struct KeystoreEntry {
    /// Alias, in lower case.
    pub alias: String,
    /// Chain and key.
    pub key: Arc<CertifiedKey>,
}

impl fmt::Debug for KeystoreEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No secret.
        f.debug_struct("KeystoreEntry").field("alias", &self.alias).finish_non_exhaustive()
    }
}

/// Why a keystore cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeystoreError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A format of Java.
    #[error(
        "`{}` is a {format} keystore, and the Lab reads PKCS#12: convert it by `keytool -importkeystore \
         -srckeystore {} -destkeystore {} -deststoretype PKCS12`, and name the new file",
        path.display(), path.display(), path.with_extension("p12").display()
    )]
    Java {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: &'static str,
    },
    /// Another password protects the file.
    #[error("the password of the keystore `{}` is wrong", .0.display())]
    Password(PathBuf),
    /// The file is no PKCS#12 of the known kinds.
    #[error("`{}` cannot be read as a PKCS#12 keystore: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// No entry is selected.
    #[error(
        "the keystore `{}` has no private key with {}: it has {found}, and the first one has the index 0",
        path.display(), indexes(range)
    )]
    Nothing {
        /// The file.
        path: PathBuf,
        /// Private keys in the file.
        found: usize,
        /// The selected indexes.
        range: RangeInclusive<usize>,
    },
    /// A key cannot sign a handshake.
    #[error("the private key `{alias}` of the keystore `{}` cannot be used: {reason}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The entry.
        alias: String,
        /// The reason.
        reason: String,
    },
}

fn indexes(range: &RangeInclusive<usize>) -> String {
    let (first, last) = (range.start(), range.end());
    match *last {
        last if last == *first => format!("the index {last}"),
        usize::MAX => format!("an index of at least {first}"),
        last => format!("an index from {first} to {last}"),
    }
}

/// Reads the private keys with these indexes and their certificates.
///
/// # Errors
/// See [`KeystoreError`].
pub(crate) fn read(
    path: &Path,
    password: &str,
    range: &RangeInclusive<usize>,
) -> Result<Vec<KeystoreEntry>, KeystoreError> {
    let bytes = bounded_file::read(path, MAX_FILE_BYTES)?;
    if let Some((_, format)) = MAGIC.into_iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Err(KeystoreError::Java { path: path.to_owned(), format });
    }
    let archive = Pkcs12Archive::from_pkcs12(&bytes, password).map_err(|error| match error {
        Error::MacError(_) => KeystoreError::Password(path.to_owned()),
        error => KeystoreError::Format { path: path.to_owned(), reason: error.to_string() },
    })?;
    let keys = keys(&archive);
    let found = keys.len();
    let selected = keys.into_iter().enumerate().filter(|(index, _)| range.contains(index));
    let entries = selected.map(|(_, (alias, key, chain))| {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.key.as_der().to_vec()));
        let provider = aws_lc_rs::default_provider();
        let key = CertifiedKey::from_der(chain, key, &provider).map_err(|error| {
            let (path, alias, reason) = (path.to_owned(), alias.clone(), error.to_string());
            KeystoreError::Key { path, alias, reason }
        })?;
        Ok(KeystoreEntry { alias, key: Arc::new(key) })
    });
    let entries = entries.collect::<Result<Vec<_>, KeystoreError>>()?;
    if entries.is_empty() {
        let (path, range) = (path.to_owned(), range.clone());
        return Err(KeystoreError::Nothing { path, found, range });
    }
    Ok(entries)
}

/// A private key with its alias and its chain.
type Key<'a> = (String, &'a PrivateKeyBag, Vec<CertificateDer<'static>>);

/// The keys with a certificate, in the order of the file, which is that of Java's `KeyStore.aliases()`.
fn keys(archive: &Pkcs12Archive) -> Vec<Key<'_>> {
    let mut keys: Vec<Key<'_>> = Vec::new();
    let mut unnamed = 0;
    for key in &archive.keys {
        let alias = key.friendly_name.as_ref().map(|name| name.to_lowercase());
        let alias = alias.unwrap_or_else(|| {
            unnamed += 1;
            unnamed.to_string()
        });
        let chain = chain(archive, key, &alias);
        if chain.is_empty() {
            continue;
        }
        // As in Java's map of entries: the last one of an alias counts, at the place of the first.
        match keys.iter_mut().find(|(known, ..)| *known == alias) {
            Some(known) => *known = (alias, key, chain),
            None => keys.push((alias, key, chain)),
        }
    }
    keys
}

/// The chain of a key, from its own certificate to a root or to an issuer that the file does not have.
fn chain(
    archive: &Pkcs12Archive,
    key: &PrivateKeyBag,
    alias: &str,
) -> Vec<CertificateDer<'static>> {
    let id = key.local_key_id.as_ref().map(AsRef::as_ref);
    let is_alone = archive.keys.len() == 1;
    let own = |bag: &&CertificateBag| match id {
        Some(id) => bag.local_key_id.as_deref() == Some(id),
        // A single key needs no identification.
        None => is_alone && bag.local_key_id.is_none(),
    };
    let is_named = |bag: &&CertificateBag| {
        bag.friendly_name.as_ref().is_some_and(|name| name.to_lowercase() == alias)
    };
    let own: Vec<&CertificateBag> =
        archive.certs.iter().filter(|bag| !bag.trusted).filter(own).collect();
    let last = if id.is_some() { own.last() } else { own.first() };
    let mut next = own.iter().find(|bag| is_named(bag)).or(last).map(|bag| &bag.cert);
    let mut chain = Vec::new();
    while let Some(certificate) = next {
        let der = CertificateDer::from(certificate.as_der().to_vec());
        if chain.contains(&der) {
            break;
        }
        chain.push(der);
        if certificate.issuer() == certificate.subject() {
            break;
        }
        let issuers = archive.certs.iter().map(|bag| &bag.cert);
        next = issuers.into_iter().find(|other| other.subject() == certificate.issuer());
    }
    chain
}
