//! Admin tokens: authentication of the admin API, and roles.
//!
//! A token is `wadm_` and 256 random bits. Only its SHA-256 is stored, in `data/admin-tokens.json`,
//! a JSON array with one object for each token. The first token has the role admin; it is created
//! at the first start and written to `data/admin.token`, where the commands read it. All files
//! belong to the user of the data folder alone (0600).
//!
//! In a fleet, tokens of other nodes are accepted, too, and a revocation is one on all nodes.

use crate::role::Role;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use uuid::Uuid;
use weir_config::secret_file;
use weir_fleet::tokens::{TokenCopy, TokenTable};

/// Prefix of all tokens, for secret scanners.
const PREFIX: &str = "wadm_";
/// Maximum number of tokens.
const MAX_TOKENS: usize = 256;
/// Longest name of a token in bytes.
const MAX_NAME_BYTES: usize = 128;

/// Why tokens could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// A file could not be read or written.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// The file of the tokens is invalid.
    #[error("{path}: not a list of admin tokens: {error}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The error.
        error: serde_json::Error,
    },
    /// The system has no randomness.
    #[error("the system has no randomness")]
    Random,
    /// The maximum number of tokens is reached.
    #[error("there are {MAX_TOKENS} tokens already; revoke one first")]
    Full,
    /// A name is empty or too long.
    #[error("a token's name has 1 to {MAX_NAME_BYTES} bytes and no control characters")]
    Name,
    /// Nobody could create or revoke tokens any more.
    #[error("this is the last token with the role admin")]
    Last,
}

/// Stored form of a token.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    name: String,
    role: Role,
    /// SHA-256 of the token, in lower-case hexadecimal digits.
    sha256: String,
}

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TokenInfo {
    /// Id, not secret.
    pub id: String,
    /// Name of the holder.
    pub name: String,
    /// Role.
    pub role: Role,
}

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) id: String,
    /// Name of the holder.
    pub(crate) name: String,
    pub(crate) role: Role,
    /// Id of the console session that replaces the token, if any.
    pub(crate) session: Option<Arc<str>>,
    /// The node that has authenticated the caller and sent the request, if any.
    pub(crate) via: Option<Uuid>,
}

/// The tokens of a data folder.
pub struct Tokens {
    path: PathBuf,
    entries: Mutex<Vec<Entry>>,
    /// Those of all nodes of the fleet.
    fleet: Option<Arc<TokenTable>>,
}

impl Tokens {
    /// Opens the tokens of a data folder. Without any, creates the first one and returns the path
    /// that it was written to.
    ///
    /// # Errors
    /// [`TokenError`]; the text names the file.
    pub fn open(data: &Path) -> Result<(Self, Option<PathBuf>), TokenError> {
        let path = data.join("admin-tokens.json");
        match secret_file::read(&path) {
            Ok(bytes) => {
                let entries = serde_json::from_slice(&bytes)
                    .map_err(|error| TokenError::Malformed { path: path.clone(), error })?;
                Ok((Self { path, entries: Mutex::new(entries), fleet: None }, None))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let tokens = Self { path, entries: Mutex::default(), fleet: None };
                let (token, entry) = generate("first", Role::Admin)?;
                let first = first_token(data);
                // In this order: the next start repairs a crash between the two.
                write(&first, format!("{token}\n").as_bytes())?;
                tokens.keep(&mut tokens.lock(), vec![entry])?;
                Ok((tokens, Some(first)))
            }
            Err(error) => Err(TokenError::Io { path, error }),
        }
    }

    /// Creates a token and returns it; it cannot be read later.
    pub(crate) fn add(&self, name: &str, role: Role) -> Result<(String, TokenInfo), TokenError> {
        if !(1..=MAX_NAME_BYTES).contains(&name.len()) || name.chars().any(char::is_control) {
            return Err(TokenError::Name);
        }
        let mut entries = self.lock();
        if entries.len() >= MAX_TOKENS {
            return Err(TokenError::Full);
        }
        let (token, entry) = generate(name, role)?;
        let info = entry.info();
        let with = entries.iter().cloned().chain([entry]).collect();
        self.keep(&mut entries, with)?;
        Ok((token, info))
    }

    /// Accepts the tokens of all nodes of a fleet from now on, and tells it those of this node.
    #[must_use]
    pub fn with_fleet(self, fleet: Option<Arc<TokenTable>>) -> Self {
        let tokens = Self { fleet, ..self };
        tokens.tell_fleet(&tokens.lock());
        tokens
    }

    fn tell_fleet(&self, entries: &[Entry]) {
        if let Some(fleet) = &self.fleet {
            fleet.set_local(entries.iter().map(Entry::copy).collect());
        }
    }

    /// Revokes a token, on all nodes of a fleet; false if there is none with this id.
    pub(crate) fn revoke(&self, id: &str) -> Result<bool, TokenError> {
        let all = self.list();
        if all.iter().all(|token| token.id != id) {
            return Ok(false);
        }
        if !all.iter().any(|token| token.role == Role::Admin && token.id != id) {
            return Err(TokenError::Last);
        }
        if let Some(fleet) = &self.fleet {
            let path = self.path.with_file_name("fleet-tokens.json");
            fleet.revoke(id).map_err(|error| TokenError::Io { path, error })?;
        }
        let mut entries = self.lock();
        let without: Vec<_> = entries.iter().filter(|entry| entry.id != id).cloned().collect();
        if without.len() < entries.len() {
            self.keep(&mut entries, without)?;
        }
        Ok(true)
    }

    /// All tokens: those of this node first.
    pub(crate) fn list(&self) -> Vec<TokenInfo> {
        let entries = self.lock();
        let mut all: Vec<TokenInfo> =
            entries.iter().filter(|entry| !self.is_revoked(&entry.id)).map(Entry::info).collect();
        let copies = self.fleet.as_ref().map(|fleet| fleet.list()).unwrap_or_default();
        let others = copies.iter().filter(|copy| entries.iter().all(|entry| entry.id != copy.id));
        all.extend(others.filter_map(caller_of).map(|caller| {
            let Caller { id, name, role, .. } = caller;
            TokenInfo { id, name, role }
        }));
        all
    }

    /// Whether another node has revoked a token.
    fn is_revoked(&self, id: &str) -> bool {
        self.fleet.as_ref().is_some_and(|fleet| fleet.is_revoked(id))
    }

    /// The caller of a token, in constant time for all tokens.
    pub(crate) fn authenticate(&self, token: &str) -> Option<Caller> {
        let hash = hash(token);
        let mut found = None;
        for entry in self.lock().iter() {
            if verify_slices_are_equal(hash.as_bytes(), entry.sha256.as_bytes()).is_ok() {
                found = Some(entry.caller());
            }
        }
        let copied = || caller_of(&self.fleet.as_ref()?.find(&hash)?);
        found.filter(|caller| !self.is_revoked(&caller.id)).or_else(copied)
    }

    /// The caller of the token with this id, unless it is revoked.
    pub(crate) fn holder(&self, id: &str) -> Option<Caller> {
        if self.is_revoked(id) {
            return None;
        }
        let own = self.lock().iter().find(|entry| entry.id == id).map(Entry::caller);
        own.or_else(|| {
            let copies = self.fleet.as_ref()?.list();
            caller_of(copies.iter().find(|copy| copy.id == id)?)
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file on disk is authoritative.
    fn keep(&self, entries: &mut Vec<Entry>, new: Vec<Entry>) -> Result<(), TokenError> {
        let error = |error| TokenError::Malformed { path: self.path.clone(), error };
        write(&self.path, &serde_json::to_vec_pretty(&new).map_err(error)?)?;
        *entries = new;
        self.tell_fleet(entries);
        Ok(())
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("tokens", &self.list()).finish()
    }
}

impl Entry {
    /// For the other nodes of the fleet.
    fn copy(&self) -> TokenCopy {
        let (id, name, sha256) = (self.id.clone(), self.name.clone(), self.sha256.clone());
        TokenCopy { id, name, role: self.role.name().to_owned(), sha256 }
    }

    fn info(&self) -> TokenInfo {
        TokenInfo { id: self.id.clone(), name: self.name.clone(), role: self.role }
    }

    fn caller(&self) -> Caller {
        let (id, name, role) = (self.id.clone(), self.name.clone(), self.role);
        Caller { id, name, role, session: None, via: None }
    }
}

/// The caller of a token of another node; `None` if this version does not know its role.
fn caller_of(copy: &TokenCopy) -> Option<Caller> {
    let (id, name, role) = (copy.id.clone(), copy.name.clone(), copy.role.parse().ok()?);
    Some(Caller { id, name, role, session: None, via: None })
}

/// Path of the first token of a data folder.
#[must_use]
pub fn first_token(data: &Path) -> PathBuf {
    data.join("admin.token")
}

fn generate(name: &str, role: Role) -> Result<(String, Entry), TokenError> {
    let token = format!("{PREFIX}{}", secret()?);
    let mut id = [0; 6];
    aws_lc_rs::rand::fill(&mut id).map_err(|_| TokenError::Random)?;
    let sha256 = hash(&token);
    Ok((token, Entry { id: HEXLOWER.encode(&id), name: name.to_owned(), role, sha256 }))
}

/// 256 random bits as text.
pub(crate) fn secret() -> Result<String, TokenError> {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| TokenError::Random)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// The stored hash of a secret.
pub(crate) fn hash(token: &str) -> String {
    HEXLOWER.encode(digest(&SHA256, token.as_bytes()).as_ref())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), TokenError> {
    secret_file::replace(path, bytes)
        .map_err(|error| TokenError::Io { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn the_first_token_is_written_once_and_for_its_user_alone() {
        let data = tempfile::tempdir().unwrap();
        let (tokens, first) = Tokens::open(data.path()).unwrap();
        let first = first.unwrap();
        let token = read(&first).trim().to_owned();
        assert_eq!(tokens.authenticate(&token).unwrap().role, Role::Admin);
        for path in [&first, &tokens.path] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert!(!read(&tokens.path).contains(&token[PREFIX.len()..]));
        assert!(!format!("{tokens:?}").contains(&hash(&token)));
        let (tokens, again) = Tokens::open(data.path()).unwrap();
        assert_eq!(again, None);
        assert!(tokens.authenticate(&token).is_some());
        assert!(tokens.authenticate(&token[..token.len() - 1]).is_none());
        assert!(tokens.authenticate("").is_none());
    }

    #[test]
    fn tokens_come_and_go_durably() {
        let data = tempfile::tempdir().unwrap();
        let (tokens, _) = Tokens::open(data.path()).unwrap();
        let (token, info) = tokens.add("ci", Role::Viewer).unwrap();
        let (tokens, _) = Tokens::open(data.path()).unwrap();
        let caller = tokens.authenticate(&token).unwrap();
        let held = (caller.id.as_str(), caller.name.as_str(), caller.role);
        assert_eq!(held, (info.id.as_str(), "ci", info.role));
        assert!(tokens.revoke(&info.id).unwrap());
        assert!(!tokens.revoke(&info.id).unwrap());
        let (tokens, _) = Tokens::open(data.path()).unwrap();
        assert_eq!(tokens.authenticate(&token), None);
        let last = &tokens.list()[0].id;
        assert!(matches!(tokens.revoke(last), Err(TokenError::Last)));
    }

    #[test]
    fn names_and_numbers_are_bounded() {
        let data = tempfile::tempdir().unwrap();
        let (tokens, _) = Tokens::open(data.path()).unwrap();
        for name in ["", "a\nb", &"x".repeat(MAX_NAME_BYTES + 1)] {
            assert!(matches!(tokens.add(name, Role::Viewer), Err(TokenError::Name)));
        }
        let entry = generate("x", Role::Viewer).unwrap().1;
        tokens.lock().resize(MAX_TOKENS, entry);
        assert!(matches!(tokens.add("x", Role::Viewer), Err(TokenError::Full)));
    }

    #[test]
    fn a_damaged_file_is_an_error_and_no_new_beginning() {
        let data = tempfile::tempdir().unwrap();
        fs::write(data.path().join("admin-tokens.json"), "[{").unwrap();
        assert!(matches!(Tokens::open(data.path()), Err(TokenError::Malformed { .. })));
        assert!(!first_token(data.path()).exists());
    }
}
