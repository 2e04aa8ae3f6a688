//! Admin tokens of all nodes: a copy that each node checks.
//!
//! A node makes a token in its own folder, and copies its hash to the database. It reads the tokens of the
//! others when their revision has changed. The copy is kept in the data folder; it is trusted for an hour
//! without the database. Revocations are trusted always: a node tells the database those that it has. A token
//! that has expired is deleted everywhere, and so is its revocation.

use crate::database::{Connection, DatabaseError, Parameter};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
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
/// Most tokens of a fleet that are read, and most revocations.
const MAX_TOKENS: i64 = 10_000;
/// Seconds for which an expired token, or its revocation, is kept: the clocks of nodes differ.
const KEPT_SECONDS: u64 = 60 * 60;

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
    /// When it expires, in seconds since 1970; `None`: never.
    #[serde(default)]
    pub expires: Option<u64>,
}

impl TokenCopy {
    fn is_over(&self) -> bool {
        is_over(self.expires)
    }
}

/// Whether the end of a token is so long ago that no node accepts it any more.
fn is_over(expires: Option<u64>) -> bool {
    expires.is_some_and(|at| at.saturating_add(KEPT_SECONDS) <= clock::now().as_secs())
}

impl std::fmt::Debug for TokenCopy {
    /// Does not print the hash.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenCopy").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What the file has.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Copied {
    /// When the database confirmed it, in seconds since 1970.
    at: u64,
    tokens: Vec<TokenCopy>,
    revoked: BTreeSet<String>,
    /// Ends of revoked tokens that expire, by id.
    #[serde(default)]
    ends: BTreeMap<String, u64>,
}

/// Revoked tokens: ids and ends.
type Revoked = BTreeMap<String, Option<u64>>;

impl Copied {
    fn revoke(&mut self, id: String, expires: Option<u64>) {
        if let Some(at) = expires {
            self.ends.insert(id.clone(), at);
        }
        self.revoked.insert(id);
    }

    /// Removes what no node accepts any more.
    fn purge(&mut self) {
        self.tokens.retain(|token| !token.is_over());
        let Self { revoked, ends, .. } = self;
        revoked.retain(|id| !is_over(ends.get(id).copied()));
        ends.retain(|id, _| revoked.contains(id));
    }
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
    /// Held while the file is written; the state is not locked meanwhile.
    writer: Mutex<()>,
}

impl TokenTable {
    /// Opens the copy in a data folder.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(data: &Path) -> io::Result<Self> {
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
        Ok(Self { path, state: Mutex::new(state), writer: Mutex::default() })
    }

    /// Sets the tokens that this node has made.
    pub fn set_local(&self, tokens: Vec<TokenCopy>) {
        let mut state = self.state.lock();
        state.local = tokens;
        state.changed = true;
    }

    /// Revokes tokens on all nodes: here at once. It writes a file.
    ///
    /// # Errors
    /// The file cannot be written; no token is revoked then.
    pub fn revoke(&self, ids: &[String]) -> io::Result<()> {
        let _writer = self.writer.lock();
        let mut copied = {
            let state = self.state.lock();
            let mut copied = state.copied.clone();
            for id in ids {
                let known = state.local.iter().chain(&state.copied.tokens);
                let expires = known.filter(|token| token.id == *id).find_map(|token| token.expires);
                copied.revoke(id.clone(), expires);
            }
            copied
        };
        copied.purge();
        self.write(&copied)?;
        let mut state = self.state.lock();
        // Nobody else replaces it without the lock of the writer.
        state.copied = copied;
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

    /// Takes over what the database has. A revocation that it does not have yet stays. It writes a file.
    fn publish(&self, tokens: Vec<TokenCopy>, revoked: Revoked) -> io::Result<()> {
        let _writer = self.writer.lock();
        let copied = {
            let mut state = self.state.lock();
            state.copied.tokens = tokens;
            for (id, expires) in revoked {
                state.copied.revoke(id, expires);
            }
            state.copied.purge();
            state.confirm();
            state.written = Some(Instant::now());
            state.copied.clone()
        };
        self.written(&copied)
    }

    /// The database has confirmed the copy. Returns whether [`TokenTable::write_copy`] is due.
    fn confirm(&self) -> bool {
        let mut state = self.state.lock();
        state.confirm();
        state.written.is_none_or(|at| at.elapsed() >= WRITE_INTERVAL)
    }

    /// Writes the file.
    fn write_copy(&self) -> io::Result<()> {
        let _writer = self.writer.lock();
        let copied = {
            let mut state = self.state.lock();
            state.copied.purge();
            state.written = Some(Instant::now());
            state.copied.clone()
        };
        self.written(&copied)
    }

    /// Writes the file; after an error, the next confirmation tries again.
    fn written(&self, copied: &Copied) -> io::Result<()> {
        self.write(copied).inspect_err(|_| self.state.lock().written = None)
    }
}

impl State {
    fn confirm(&mut self) {
        self.confirmed = Some(Instant::now());
        self.copied.at = clock::now().as_secs();
    }

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
            // Those that are over would be deleted again.
            let local = state.local.iter().filter(|token| !token.is_over()).cloned();
            let local: Vec<TokenCopy> = local.collect();
            std::mem::take(&mut state.changed).then_some((local, revoked))
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
            if self.table.confirm() {
                self.on_file(TokenTable::write_copy).await?;
            }
            return Ok(());
        }
        let (tokens, revoked) = read(connection).await?;
        self.on_file(|table| table.publish(tokens, revoked)).await?;
        self.revision = Some(revision);
        Ok(())
    }

    /// Writes the file on a thread that may block.
    async fn on_file(
        &self,
        work: impl FnOnce(&TokenTable) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let table = Arc::clone(&self.table);
        tokio::task::spawn_blocking(move || work(&table)).await.map_err(io::Error::other)?
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
    let expires: Vec<Option<i64>> =
        local.iter().map(|token| token.expires.and_then(|at| i64::try_from(at).ok())).collect();
    let insert = "INSERT INTO weir.token (id, name, role, sha256, expires, node)
         SELECT id, name, role, sha256, expires, $6
         FROM unnest($1, $2, $3, $4, $5) AS t (id, name, role, sha256, expires)
         ON CONFLICT (id) DO NOTHING";
    let parameters: [Parameter<'_>; 6] = [
        (&ids, Type::TEXT_ARRAY),
        (&names, Type::TEXT_ARRAY),
        (&roles, Type::TEXT_ARRAY),
        (&hashes, Type::TEXT_ARRAY),
        (&expires, Type::INT8_ARRAY),
        (&node, Type::UUID),
    ];
    let transaction = connection.transaction().await?;
    let mut changed = transaction.execute(insert, &parameters).await?;
    let revoke = "UPDATE weir.token SET revoked = now() WHERE id = ANY ($1) AND revoked IS NULL";
    changed += transaction.execute(revoke, &[(&revoked, Type::TEXT_ARRAY)]).await?;
    let over = i64::try_from(clock::now().as_secs().saturating_sub(KEPT_SECONDS)).unwrap_or(0);
    // Here, because the table grows here only.
    let delete = "DELETE FROM weir.token WHERE expires <= $1";
    changed += transaction.execute(delete, &[(&over, Type::INT8)]).await?;
    if changed > 0 {
        transaction.execute("UPDATE weir.fleet SET tokens = tokens + 1", &[]).await?;
    }
    transaction.commit().await
}

/// All tokens that are not revoked and have not expired, and those that are revoked. The newest, if there are
/// too many: however many are revoked, they displace no other token.
async fn read(connection: &Connection) -> Result<(Vec<TokenCopy>, Revoked), DatabaseError> {
    let now = i64::try_from(clock::now().as_secs()).unwrap_or(i64::MAX);
    let sql = "SELECT id, name, role, sha256, expires FROM weir.token
         WHERE revoked IS NULL AND (expires IS NULL OR expires > $1)
         ORDER BY made DESC LIMIT $2";
    let parameters: [Parameter<'_>; 2] = [(&now, Type::INT8), (&MAX_TOKENS, Type::INT8)];
    let seconds = |at: Option<i64>| at.and_then(|at| u64::try_from(at).ok());
    let mut tokens = Vec::new();
    for row in connection.query(sql, &parameters).await? {
        tokens.push(TokenCopy {
            id: row.try_get(0)?,
            name: row.try_get(1)?,
            role: row.try_get(2)?,
            sha256: row.try_get(3)?,
            expires: seconds(row.try_get(4)?),
        });
    }
    let sql = "SELECT id, expires FROM weir.token WHERE revoked IS NOT NULL
         ORDER BY revoked DESC LIMIT $1";
    let mut revoked = Revoked::new();
    for row in connection.query(sql, &[(&MAX_TOKENS, Type::INT8)]).await? {
        revoked.insert(row.try_get(0)?, seconds(row.try_get(1)?));
    }
    Ok((tokens, revoked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(id: &str) -> TokenCopy {
        let text = |text: &str| text.to_owned();
        let (role, sha256) = (text("viewer"), format!("hash of {id}"));
        TokenCopy { id: text(id), name: text("ann"), role, sha256, expires: None }
    }

    fn ids(table: &TokenTable) -> Vec<String> {
        table.list().into_iter().map(|token| token.id).collect()
    }

    #[test]
    fn a_copy_is_kept_for_an_hour_and_a_revocation_for_ever() {
        let data = tempfile::tempdir().unwrap();
        let table = TokenTable::open(data.path()).unwrap();
        assert_eq!(ids(&table), Vec::<String>::new());
        table
            .publish(vec![token("a"), token("b")], Revoked::from([("c".to_owned(), None)]))
            .unwrap();
        table.revoke(&["b".to_owned()]).unwrap();
        assert_eq!((ids(&table), table.is_revoked("c")), (vec!["a".to_owned()], true));
        assert_eq!(table.find("hash of a"), Some(token("a")));
        assert_eq!(table.find("hash of b"), None);
        // Another revocation in the database does not undo this one.
        table.publish(vec![token("a"), token("b")], Revoked::new()).unwrap();
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
    #[test]
    fn a_token_that_has_expired_leaves_nothing_behind() {
        let data = tempfile::tempdir().unwrap();
        let table = TokenTable::open(data.path()).unwrap();
        let now = clock::now().as_secs();
        let ends = |id: &str, expires| TokenCopy { expires: Some(expires), ..token(id) };
        let (over, soon) = (now - KEPT_SECONDS, now + 60);
        table.set_local(vec![ends("here", over), ends("mine", soon)]);
        table.publish(vec![ends("old", over), ends("new", soon)], Revoked::new()).unwrap();
        assert_eq!(ids(&table), ["new"]);
        let revoked = ["here", "mine", "new", "unknown"].map(str::to_owned);
        table.revoke(&revoked).unwrap();
        let others = Revoked::from([("far".to_owned(), Some(over)), ("near".to_owned(), None)]);
        table.publish(Vec::new(), others).unwrap();
        for table in [&table, &TokenTable::open(data.path()).unwrap()] {
            let is_revoked = |id: &&str| table.is_revoked(id);
            let kept = ["mine", "new", "unknown", "near"];
            assert!(kept.iter().all(is_revoked), "those that somebody may have");
            assert!(!["here", "far", "old"].iter().any(is_revoked));
        }
    }

    #[test]
    fn a_revocation_that_is_not_written_is_none() {
        let data = tempfile::tempdir().unwrap();
        let table = TokenTable::open(data.path()).unwrap();
        table.publish(vec![token("a")], Revoked::new()).unwrap();
        drop(data);
        assert!(table.revoke(&["a".to_owned()]).is_err());
        assert_eq!((ids(&table), table.is_revoked("a")), (vec!["a".to_owned()], false));
    }
}
