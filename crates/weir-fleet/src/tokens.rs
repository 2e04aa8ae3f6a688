//! Admin tokens of all nodes: a copy that each node checks.
//!
//! A node makes a token in its own folder, and copies its hash to the database. It reads the tokens of the
//! others when their revision has changed. The copy is kept in the data folder; it is trusted for an hour
//! without the database. Revocations are trusted always: a node tells the database those that it has.

use crate::database::{Connection, DatabaseError, Parameter};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::types::Type;
use uuid::Uuid;
use weir_config::secret_file;
use weir_store::clock;

/// Name of the file with the copy.
const FILE: &str = "fleet-tokens.json";
/// Time for which the copy is trusted without the database.
const TRUST: Duration = Duration::from_secs(60 * 60);
/// Interval of writing the file if nothing but its time has changed.
const WRITE_INTERVAL: Duration = Duration::from_secs(60);
/// Most tokens of a fleet that are read.
const MAX_TOKENS: i64 = 10_000;

/// An admin token without its secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenCopy {
    /// Id, not secret.
    pub id: String,
    /// Name of the holder.
    pub name: String,
    /// Name of the role.
    pub role: String,
    /// SHA-256 of the token, in lower-case hexadecimal digits.
    pub sha256: String,
}

impl std::fmt::Debug for TokenCopy {
    /// Does not print the hash.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenCopy").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What the file has.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Copied {
    /// When the database confirmed it, in seconds since 1970.
    at: u64,
    tokens: Vec<TokenCopy>,
    revoked: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct State {
    /// Tokens of this node.
    local: Vec<TokenCopy>,
    copied: Copied,
    /// When the database confirmed the copy.
    confirmed: Option<Instant>,
    /// When the file was written.
    written: Option<Instant>,
    /// Something is to be told to the database.
    changed: bool,
}

/// The tokens of the fleet as this node knows them.
#[derive(Debug)]
pub struct TokenTable {
    path: PathBuf,
    state: Mutex<State>,
}

impl TokenTable {
    /// Opens the copy in a data folder.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn open(data: &Path) -> io::Result<Self> {
        let path = data.join(FILE);
        let copied: Copied = match secret_file::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Copied::default(),
            Err(error) => return Err(error),
        };
        // A time in the future is that of a clock that was wrong: not trusted.
        let age = clock::now().as_secs().checked_sub(copied.at).map(Duration::from_secs);
        let confirmed = age.and_then(|age| Instant::now().checked_sub(age));
        let state = State { copied, confirmed, changed: true, ..State::default() };
        Ok(Self { path, state: Mutex::new(state) })
    }

    /// Sets the tokens that this node has made.
    pub fn set_local(&self, tokens: Vec<TokenCopy>) {
        let mut state = self.state.lock();
        state.local = tokens;
        state.changed = true;
    }

    /// Revokes a token on all nodes: here at once.
    ///
    /// # Errors
    /// The file cannot be written; the token is not revoked then.
    pub fn revoke(&self, id: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        let is_new = state.copied.revoked.insert(id.to_owned());
        if let Err(error) = self.write(&state.copied) {
            if is_new {
                state.copied.revoked.remove(id);
            }
            return Err(error);
        }
        state.changed = true;
        Ok(())
    }

    /// Whether a token is revoked.
    #[must_use]
    pub fn is_revoked(&self, id: &str) -> bool {
        self.state.lock().copied.revoked.contains(id)
    }

    /// Tokens of all nodes that are not revoked; empty if the copy is not trusted any more.
    #[must_use]
    pub fn list(&self) -> Vec<TokenCopy> {
        let state = self.state.lock();
        state.trusted().cloned().collect()
    }

    /// The token of another node with this hash, compared with each in constant time.
    #[must_use]
    pub fn find(&self, sha256: &str) -> Option<TokenCopy> {
        let state = self.state.lock();
        let mut found = None;
        for token in state.trusted() {
            if verify_slices_are_equal(sha256.as_bytes(), token.sha256.as_bytes()).is_ok() {
                found = Some(token.clone());
            }
        }
        found
    }

    fn write(&self, copied: &Copied) -> io::Result<()> {
        secret_file::replace(&self.path, &serde_json::to_vec(copied)?)
    }

    /// Takes over what the database has. A revocation that it does not have yet stays.
    fn publish(&self, tokens: Vec<TokenCopy>, revoked: BTreeSet<String>) -> io::Result<()> {
        let mut state = self.state.lock();
        state.copied.tokens = tokens;
        state.copied.revoked.extend(revoked);
        state.written = None;
        self.confirm(&mut state)
    }

    /// The database has confirmed the copy.
    fn confirm(&self, state: &mut State) -> io::Result<()> {
        state.confirmed = Some(Instant::now());
        state.copied.at = clock::now().as_secs();
        if state.written.is_none_or(|at| at.elapsed() >= WRITE_INTERVAL) {
            self.write(&state.copied)?;
            state.written = Some(Instant::now());
        }
        Ok(())
    }
}

impl State {
    fn trusted(&self) -> impl Iterator<Item = &TokenCopy> {
        let is_trusted = self.confirmed.is_some_and(|at| at.elapsed() < TRUST);
        let tokens = if is_trusted { self.copied.tokens.as_slice() } else { &[] };
        tokens.iter().filter(|token| !self.copied.revoked.contains(&token.id))
    }
}

/// Copies tokens in both directions.
#[derive(Debug)]
pub(crate) struct TokenCopier {
    table: Arc<TokenTable>,
    /// The revision that was read; `None`: none yet.
    revision: Option<i64>,
}

impl TokenCopier {
    pub(crate) fn new(table: Arc<TokenTable>) -> Self {
        Self { table, revision: None }
    }

    /// After a new registration: the database may have lost something.
    pub(crate) fn connected(&mut self) {
        self.revision = None;
        self.table.state.lock().changed = true;
    }

    pub(crate) async fn step(
        &mut self,
        connection: &mut Connection,
        node: Uuid,
    ) -> Result<(), TokenCopyError> {
        let to_send = {
            let mut state = self.table.state.lock();
            let revoked: Vec<String> = state.copied.revoked.iter().cloned().collect();
            std::mem::take(&mut state.changed).then(|| (state.local.clone(), revoked))
        };
        if let Some((local, revoked)) = to_send
            && let Err(error) = send(connection, node, &local, &revoked).await
        {
            self.table.state.lock().changed = true;
            return Err(error.into());
        }
        let sql = "SELECT tokens FROM weir.fleet WHERE one = 1";
        let revision = connection.one(sql, &[]).await?.try_get(0)?;
        if self.revision == Some(revision) {
            let mut state = self.table.state.lock();
            return Ok(self.table.confirm(&mut state)?);
        }
        let (tokens, revoked) = read(connection).await?;
        self.table.publish(tokens, revoked)?;
        self.revision = Some(revision);
        Ok(())
    }
}

/// Why tokens were not copied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenCopyError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error("the copy of the admin tokens cannot be written: {0}")]
    Io(#[from] io::Error),
}

impl From<tokio_postgres::Error> for TokenCopyError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

/// Tells the database which tokens this node has made, and which it knows to be revoked.
async fn send(
    connection: &mut Connection,
    node: Uuid,
    local: &[TokenCopy],
    revoked: &[String],
) -> Result<(), DatabaseError> {
    let texts = |text: fn(&TokenCopy) -> &String| local.iter().map(text).collect::<Vec<_>>();
    let (ids, names) = (texts(|token| &token.id), texts(|token| &token.name));
    let (roles, hashes) = (texts(|token| &token.role), texts(|token| &token.sha256));
    let insert = "INSERT INTO weir.token (id, name, role, sha256, node)
         SELECT id, name, role, sha256, $5 FROM unnest($1, $2, $3, $4) AS t (id, name, role, sha256)
         ON CONFLICT (id) DO NOTHING";
    let parameters: [Parameter<'_>; 5] = [
        (&ids, Type::TEXT_ARRAY),
        (&names, Type::TEXT_ARRAY),
        (&roles, Type::TEXT_ARRAY),
        (&hashes, Type::TEXT_ARRAY),
        (&node, Type::UUID),
    ];
    let transaction = connection.transaction().await?;
    let mut changed = transaction.execute(insert, &parameters).await?;
    let revoke = "UPDATE weir.token SET revoked = now() WHERE id = ANY ($1) AND revoked IS NULL";
    changed += transaction.execute(revoke, &[(&revoked, Type::TEXT_ARRAY)]).await?;
    if changed > 0 {
        transaction.execute("UPDATE weir.fleet SET tokens = tokens + 1", &[]).await?;
    }
    transaction.commit().await
}

/// All tokens that are not revoked, and the ids of those that are.
async fn read(
    connection: &Connection,
) -> Result<(Vec<TokenCopy>, BTreeSet<String>), DatabaseError> {
    let sql = "SELECT id, name, role, sha256, revoked IS NOT NULL FROM weir.token
         ORDER BY made DESC LIMIT $1";
    let (mut tokens, mut revoked) = (Vec::new(), BTreeSet::new());
    for row in connection.query(sql, &[(&MAX_TOKENS, Type::INT8)]).await? {
        let id: String = row.try_get(0)?;
        if row.try_get(4)? {
            revoked.insert(id);
            continue;
        }
        let (name, role, sha256) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        tokens.push(TokenCopy { id, name, role, sha256 });
    }
    Ok((tokens, revoked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(id: &str) -> TokenCopy {
        let text = |text: &str| text.to_owned();
        let (role, sha256) = (text("viewer"), format!("hash of {id}"));
        TokenCopy { id: text(id), name: text("ann"), role, sha256 }
    }

    fn ids(table: &TokenTable) -> Vec<String> {
        table.list().into_iter().map(|token| token.id).collect()
    }

    #[test]
    fn a_copy_is_kept_for_an_hour_and_a_revocation_for_ever() {
        let data = tempfile::tempdir().unwrap();
        let table = TokenTable::open(data.path()).unwrap();
        assert_eq!(ids(&table), Vec::<String>::new());
        table.publish(vec![token("a"), token("b")], BTreeSet::from(["c".to_owned()])).unwrap();
        table.revoke("b").unwrap();
        assert_eq!((ids(&table), table.is_revoked("c")), (vec!["a".to_owned()], true));
        assert_eq!(table.find("hash of a"), Some(token("a")));
        assert_eq!(table.find("hash of b"), None);
        // Another revocation in the database does not undo this one.
        table.publish(vec![token("a"), token("b")], BTreeSet::new()).unwrap();
        assert_eq!(ids(&table), ["a"]);
        let again = TokenTable::open(data.path()).unwrap();
        assert_eq!((ids(&again), again.is_revoked("b")), (vec!["a".to_owned()], true));
        // An hour, or the clock was ahead.
        let now = clock::now().as_secs();
        for at in [now - 3601, now + 60] {
            let mut copied: Copied =
                serde_json::from_slice(&secret_file::read(&data.path().join(FILE)).unwrap())
                    .unwrap();
            copied.at = at;
            table.write(&copied).unwrap();
            let old = TokenTable::open(data.path()).unwrap();
            assert_eq!((ids(&old), old.is_revoked("b")), (Vec::new(), true), "{at}");
            assert_eq!(old.find("hash of a"), None);
        }
        assert!(!format!("{table:?}").contains("hash of"));
    }
}
