//! Client certificates of a keystore, of which each handshake presents one.
//!
//! As in JMeter, a certificate is chosen when the server requests it. It is that of the session then: a
//! connection keeps it, and so does a session that the same user resumes.

use super::request_error::RequestError;
use crate::program::{Keystore, Program, Values};
use crate::sample::ErrorKind;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Aliases in a message.
const MAX_LISTED: usize = 10;

/// The keystore of a run.
#[derive(Debug)]
pub(super) struct Certificates {
    keystore: Arc<Keystore>,
    /// Name of the variable with the alias.
    variable: String,
    /// The next entry of those that take turns, for all users.
    next: AtomicUsize,
}

impl Certificates {
    /// The keystore of a program, if it has one.
    pub(super) fn of(program: &Program) -> Option<Arc<Self>> {
        let keystore = program.keystore.clone()?;
        let variable = keystore.alias.and_then(|alias| program.variables.get(alias.0 as usize));
        let variable = variable.cloned().unwrap_or_default();
        Some(Arc::new(Self { keystore, variable, next: AtomicUsize::new(0) }))
    }

    /// The alias that the variables of a user have.
    fn alias<'v>(&self, values: &'v Values) -> Option<&'v str> {
        values.get(self.keystore.alias?).filter(|alias| !alias.is_empty())
    }

    /// The next certificate, if there is one.
    fn take_turn(&self) -> Option<Arc<CertifiedKey>> {
        let entries = &self.keystore.entries;
        let at = self.next.fetch_add(1, Ordering::Relaxed).checked_rem(entries.len())?;
        entries.get(at).map(|entry| entry.key.clone())
    }

    /// The certificate of an alias.
    fn find(&self, alias: Option<&str>) -> Result<Arc<CertifiedKey>, String> {
        let entries = &self.keystore.entries;
        let Some(alias) = alias else {
            let variable = &self.variable;
            return Err(format!(
                "the server requests a certificate, and the variable `{variable}` with its alias is not set"
            ));
        };
        let found = entries.iter().find(|entry| entry.alias == alias);
        found.map(|entry| entry.key.clone()).ok_or_else(|| {
            let listed = entries.iter().take(MAX_LISTED).map(|entry| format!("`{}`", entry.alias));
            let listed = listed.collect::<Vec<_>>().join(", ");
            let known = match entries.len() {
                0 => "there is no keystore (`-Djavax.net.ssl.keyStore=FILE`)".to_owned(),
                all if all > MAX_LISTED => format!("it has {listed} and {} more", all - MAX_LISTED),
                _ => format!("it has {listed}"),
            };
            format!(
                "the server requests a certificate, and the keystore has no key with the alias `{alias}`: {known}"
            )
        })
    }
}

/// The choice of a certificate by one user.
#[derive(Debug)]
pub(super) struct Choice {
    certificates: Arc<Certificates>,
    handshake: Mutex<Handshake>,
}

/// The current handshake.
#[derive(Debug, Default)]
struct Handshake {
    alias: Option<String>,
    /// Why there is no certificate that the server requests.
    fault: Option<String>,
}

impl Choice {
    pub(super) fn of(certificates: Arc<Certificates>) -> Self {
        Self { certificates, handshake: Mutex::default() }
    }

    /// Starts a handshake of a user with these values.
    pub(super) fn start(&self, values: Option<&Values>) {
        let alias = values.and_then(|values| self.certificates.alias(values));
        *self.handshake() = Handshake { alias: alias.map(str::to_owned), fault: None };
    }

    /// Why the last handshake had no certificate that the server requested.
    pub(super) fn fault(&self) -> Option<RequestError> {
        let fault = self.handshake().fault.clone();
        fault.map(|fault| RequestError::new(ErrorKind::Tls, fault))
    }

    fn handshake(&self) -> MutexGuard<'_, Handshake> {
        self.handshake.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResolvesClientCert for Choice {
    /// The server's list of authorities does not matter, as in JMeter.
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        if self.certificates.keystore.alias.is_none() {
            return self.certificates.take_turn();
        }
        let mut handshake = self.handshake();
        match self.certificates.find(handshake.alias.as_deref()) {
            Ok(key) => Some(key),
            Err(fault) => {
                handshake.fault = Some(fault);
                None
            }
        }
    }

    fn has_certs(&self) -> bool {
        true
    }
}
