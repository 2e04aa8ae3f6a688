//! Admin tokens: authentication of the admin API, and roles.
//!
//! A token is `wadm_` and 256 random bits. Only its SHA-256 is stored, in `data/admin-tokens.json`,
//! a JSON array with one object for each token. The first token has the role admin; it is created
//! at the first start and written to `data/admin.token`, where the commands read it. All files
//! belong to the user of the data folder alone (0600).
//!
//! A token may expire, and its scope may narrow its role. `weir login` creates tokens that belong to an
//! account of the identity provider.
//!
//! In a fleet, tokens of other nodes are accepted, too, and a revocation is one on all nodes.

mod last_use;
mod rights;

use crate::account::{Account, Mapping};
use crate::role::Role;
use crate::scope::TokenScope;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use data_encoding::HEXLOWER;
use last_use::LastUse;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use uuid::Uuid;
use weir_config::secret_file;
use weir_fleet::tokens::{TokenCopy, TokenTable};
use weir_model::UnixSeconds;
use weir_store::clock;

pub(crate) use rights::Rights;

/// Prefix of all tokens, for secret scanners.
const PREFIX: &str = "wadm_";
/// Maximum number of tokens without an account, and of those of accounts: neither takes the place of others.
const MAX_TOKENS: usize = 256;
const MAX_TOKENS_OF_PERSONS: usize = 1024;
/// Longest name of a token in bytes.
const MAX_NAME_BYTES: usize = 128;
/// Maximum number of tokens of an account; a new one replaces the oldest.
const MAX_TOKENS_OF_PERSON: usize = 8;

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
    /// The task of a change has ended.
    #[error("the change was aborted")]
    Aborted,
    /// The maximum number of tokens is reached.
    #[error("there are {0} such tokens already; revoke one first")]
    Full(usize),
    /// A name is empty or too long.
    #[error("a token's name has 1 to {MAX_NAME_BYTES} bytes and no control characters")]
    Name,
    /// A scope is too long, or has an invalid name.
    #[error(
        "a scope has at most {} names of APIs, without control characters",
        crate::scope::MAX_APIS
    )]
    Scope,
    /// The end of the validity is in the past.
    #[error("the token would have expired already")]
    Past,
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
    #[serde(default, skip_serializing_if = "TokenScope::is_unlimited")]
    scope: TokenScope,
    /// When it expires, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
    /// When it was created, in seconds since 1970; earlier versions have not stored it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created: Option<u64>,
    /// Subject of the account that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    person: Option<String>,
    /// What the rights of the account depend on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    account: Option<Account>,
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
    /// What narrows the role.
    #[serde(default)]
    pub scope: TokenScope,
    /// When it expires (RFC 3339, UTC); absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub expires: Option<UnixSeconds>,
    /// When it was created (RFC 3339, UTC), if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub created: Option<UnixSeconds>,
    /// When this node has accepted it last (RFC 3339, UTC), within a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub last_used: Option<UnixSeconds>,
    /// The account that it belongs to, as the audit log names it; absent: a token without an account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// What the rights of the account depend on.
    #[serde(skip)]
    pub(crate) account: Option<Account>,
}

impl TokenInfo {
    /// Whether it has expired.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.expires.is_some_and(|at| at.0 <= clock::now().as_secs())
    }
}

/// A token to be created.
#[derive(Clone, Debug)]
pub(crate) struct NewToken {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) scope: TokenScope,
    /// When it expires, in seconds since 1970.
    pub(crate) expires: Option<u64>,
    /// Subject of the account that it belongs to.
    pub(crate) person: Option<String>,
    /// What the rights of the account depend on.
    pub(crate) account: Option<Account>,
}

/// Why a token is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unaccepted {
    #[error("Unknown admin token.")]
    Unknown,
    #[error("The admin token expired on {0}.")]
    Expired(UnixSeconds),
    #[error("The account of the admin token has no access any more.")]
    NoRights,
}

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) id: String,
    /// Name of the holder.
    pub(crate) name: String,
    pub(crate) role: Role,
    /// What narrows the role.
    pub(crate) scope: TokenScope,
    /// Id of the console session that replaces the token, if any.
    pub(crate) session: Option<Arc<str>>,
    /// The node that has authenticated the caller and sent the request, if any.
    pub(crate) via: Option<Uuid>,
}

/// The tokens of a data folder.
pub struct Tokens {
    path: PathBuf,
    entries: Mutex<Vec<Entry>>,
    /// Held by a change from its checks to the end of writing; nobody who reads waits for it.
    changes: Mutex<()>,
    /// The rights of accounts; without it, they have none.
    mapping: OnceLock<Mapping>,
    last_use: LastUse,
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
                Ok((Self::new(data, path, entries), None))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let tokens = Self::new(data, path, Vec::new());
                let (token, entry) = generate(NewToken::first())?;
                let first = first_token(data);
                // In this order: the next start repairs a crash between the two.
                write(&first, format!("{token}\n").as_bytes())?;
                tokens.keep(vec![entry])?;
                Ok((tokens, Some(first)))
            }
            Err(error) => Err(TokenError::Io { path, error }),
        }
    }

    fn new(data: &Path, path: PathBuf, entries: Vec<Entry>) -> Self {
        Self {
            path,
            entries: Mutex::new(entries),
            changes: Mutex::default(),
            mapping: OnceLock::new(),
            last_use: LastUse::open(data),
            fleet: None,
        }
    }

    /// Creates a token and returns it; it cannot be read later. It writes files. Expired tokens make room, and
    /// so do the oldest ones of the same account.
    pub(crate) fn add(&self, new: NewToken) -> Result<(String, TokenInfo), TokenError> {
        let name = &new.name;
        if !(1..=MAX_NAME_BYTES).contains(&name.len()) || name.chars().any(char::is_control) {
            return Err(TokenError::Name);
        }
        if !new.scope.is_valid() {
            return Err(TokenError::Scope);
        }
        let now = clock::now().as_secs();
        if new.expires.is_some_and(|at| at <= now) {
            return Err(TokenError::Past);
        }
        let _change = self.change();
        let mut gone = match &new.person {
            Some(person) => self.oldest_of(person),
            None => Vec::new(),
        };
        let mut kept = self.lock().clone();
        kept.retain(|entry| !self.is_revoked(&entry.id) && !gone.contains(&entry.id));
        let most = if new.person.is_some() { MAX_TOKENS_OF_PERSONS } else { MAX_TOKENS };
        let of_kind = |entry: &&Entry| entry.person.is_some() == new.person.is_some();
        if kept.iter().filter(of_kind).count() >= most {
            gone.extend(kept.extract_if(.., |entry| entry.is_expired(now)).map(|entry| entry.id));
        }
        if kept.iter().filter(of_kind).count() >= most {
            return Err(TokenError::Full(most));
        }
        let (token, entry) = generate(new)?;
        let info = entry.info();
        kept.push(entry);
        // First: a token that this node forgets is not valid on the others.
        self.revoke_in_fleet(&gone)?;
        self.keep(kept)?;
        Ok((token, info))
    }

    /// The tokens of an account, on all nodes, that make room for another one.
    fn oldest_of(&self, person: &str) -> Vec<String> {
        let mut own = self.list();
        own.retain(|token| token.person.as_deref() == Some(person));
        // All are valid for the same time, so the oldest is the first to expire.
        own.sort_by_key(|token| token.expires.map(|at| at.0));
        let surplus = (own.len() + 1).saturating_sub(MAX_TOKENS_OF_PERSON);
        own.into_iter().take(surplus).map(|token| token.id).collect()
    }

    /// Waits for other changes.
    fn change(&self) -> MutexGuard<'_, ()> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn revoke_in_fleet(&self, ids: &[String]) -> Result<(), TokenError> {
        let Some(fleet) = self.fleet.as_ref().filter(|_| !ids.is_empty()) else { return Ok(()) };
        let path = self.path.with_file_name("fleet-tokens.json");
        fleet.revoke(ids).map_err(|error| TokenError::Io { path, error })
    }

    /// States how accounts are mapped to rights, once.
    pub(crate) fn set_mapping(&self, mapping: Mapping) {
        let _ = self.mapping.set(mapping);
    }

    /// The rights of an account now; `None` if it has none.
    pub(crate) fn rights_of(&self, account: &Account) -> Option<(Role, TokenScope)> {
        self.mapping.get().and_then(|mapping| mapping(account))
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

    /// Revokes a token, on all nodes of a fleet; false if there is none with this id. It writes files.
    pub(crate) fn revoke(&self, id: &str) -> Result<bool, TokenError> {
        let _change = self.change();
        let all = self.list();
        let Some(token) = all.iter().find(|token| token.id == id) else { return Ok(false) };
        let is_admin = |token: &TokenInfo| {
            token.role == Role::Admin && token.scope.is_unlimited() && token.expires.is_none()
        };
        if is_admin(token) && !all.iter().any(|other| is_admin(other) && other.id != id) {
            return Err(TokenError::Last);
        }
        self.revoke_in_fleet(&[id.to_owned()])?;
        let entries = self.lock().clone();
        let without: Vec<_> = entries.iter().filter(|entry| entry.id != id).cloned().collect();
        if without.len() < entries.len() {
            self.keep(without)?;
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
        all.extend(others.filter_map(info_of));
        drop(entries);
        for token in &mut all {
            token.last_used = self.last_use.of(&token.id);
        }
        all
    }

    /// Whether another node has revoked a token.
    fn is_revoked(&self, id: &str) -> bool {
        self.fleet.as_ref().is_some_and(|fleet| fleet.is_revoked(id))
    }

    /// The caller of a token, in constant time for all tokens.
    pub(crate) fn authenticate(&self, token: &str) -> Result<Caller, Unaccepted> {
        let hash = hash(token);
        let mut found = None;
        for entry in self.lock().iter() {
            if verify_slices_are_equal(hash.as_bytes(), entry.sha256.as_bytes()).is_ok() {
                found = Some(entry.info());
            }
        }
        let copied = || info_of(&self.fleet.as_ref()?.find(&hash)?);
        let found = found.filter(|token| !self.is_revoked(&token.id)).or_else(copied);
        let token = found.ok_or(Unaccepted::Unknown)?;
        match token.expires {
            Some(at) if token.is_expired() => Err(Unaccepted::Expired(at)),
            _ => self.caller(token).ok_or(Unaccepted::NoRights),
        }
    }

    /// The caller of the token with this id, unless it is revoked or has expired.
    pub(crate) fn holder(&self, id: &str) -> Option<Caller> {
        if self.is_revoked(id) {
            return None;
        }
        let own = self.lock().iter().find(|entry| entry.id == id).map(Entry::info);
        let token = own.or_else(|| {
            let copies = self.fleet.as_ref()?.list();
            info_of(copies.iter().find(|copy| copy.id == id)?)
        });
        self.caller(token.filter(|token| !token.is_expired())?)
    }

    /// The caller of a token; `None` if it belongs to an account without rights.
    fn caller(&self, token: TokenInfo) -> Option<Caller> {
        let TokenInfo { id, name, role, scope, person, account, .. } = token;
        let (role, scope) = match person {
            None => (role, scope),
            Some(_) => self.rights_of(&account?)?,
        };
        Some(Caller { id, name, role, scope, session: None, via: None })
    }

    /// Whether a token belongs to an account.
    pub(crate) fn is_of_person(&self, id: &str) -> bool {
        self.list().iter().any(|token| token.id == id && token.person.is_some())
    }

    /// Notes that a token was accepted. Returns whether [`Tokens::write_use`] is due.
    pub(crate) fn touch(&self, id: &str) -> bool {
        self.last_use.touch(id, clock::now().as_secs())
    }

    /// Writes the times of the last use. It may block.
    pub(crate) fn write_use(&self) {
        let ids: Vec<String> = self.list().into_iter().map(|token| token.id).collect();
        self.last_use.write(&ids);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file on disk is authoritative. Of concurrent changes, only one gets here.
    fn keep(&self, new: Vec<Entry>) -> Result<(), TokenError> {
        let error = |error| TokenError::Malformed { path: self.path.clone(), error };
        write(&self.path, &serde_json::to_vec_pretty(&new).map_err(error)?)?;
        let mut entries = self.lock();
        *entries = new;
        self.tell_fleet(&entries);
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
        let rights = Rights {
            role: self.role,
            scope: self.scope.clone(),
            expires: self.expires,
            person: self.person.clone(),
            account: self.account.clone(),
        };
        TokenCopy { id, name, role: rights.to_string(), sha256, expires: self.expires }
    }

    fn is_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }

    fn info(&self) -> TokenInfo {
        TokenInfo {
            id: self.id.clone(),
            name: self.name.clone(),
            role: self.role,
            scope: self.scope.clone(),
            expires: self.expires.map(UnixSeconds),
            created: self.created.map(UnixSeconds),
            last_used: None,
            person: self.person.clone(),
            account: self.account.clone(),
        }
    }
}

impl NewToken {
    /// The first token of a data folder.
    fn first() -> Self {
        let (name, scope) = ("first".to_owned(), TokenScope::default());
        Self { name, role: Role::Admin, scope, expires: None, person: None, account: None }
    }
}

/// A token of another node; `None` if this version does not know its role, or what limits it.
fn info_of(copy: &TokenCopy) -> Option<TokenInfo> {
    let Rights { role, scope, expires, person, account } = copy.role.parse().ok()?;
    Some(TokenInfo {
        id: copy.id.clone(),
        name: copy.name.clone(),
        role,
        scope,
        expires: expires.map(UnixSeconds),
        created: None,
        last_used: None,
        person,
        account,
    })
}

/// Path of the first token of a data folder.
#[must_use]
pub fn first_token(data: &Path) -> PathBuf {
    data.join("admin.token")
}

fn generate(new: NewToken) -> Result<(String, Entry), TokenError> {
    let token = format!("{PREFIX}{}", secret()?);
    let NewToken { name, role, scope, expires, person, account } = new;
    let (id, sha256) = (short_id()?, hash(&token));
    let created = Some(clock::now().as_secs());
    Ok((token, Entry { id, name, role, sha256, scope, expires, created, person, account }))
}

/// An id that is not secret.
pub(crate) fn short_id() -> Result<String, TokenError> {
    let mut id = [0; 6];
    aws_lc_rs::rand::fill(&mut id).map_err(|_| TokenError::Random)?;
    Ok(HEXLOWER.encode(&id))
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
mod tests;
