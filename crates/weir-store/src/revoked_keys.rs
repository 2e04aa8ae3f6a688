//! API keys of consumers that an operator has revoked. Table `revoked_key`.
//!
//! A row is the last change of a key: revoked, or restored afterwards. Of two changes the later one holds, and a
//! revocation if both are of the same microsecond. So the nodes of a fleet, which exchange all rows, end up with
//! the same ones whatever the order. A key is known by its hash, not by its place in the configuration: it stays
//! revoked if it is removed there and returns.

use crate::StoreError;
use crate::clock::now_us;
use parking_lot::Mutex;
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;
use weir_model::UnixMicros;

/// Most keys that are revoked, and most changes that are kept.
pub const MAX_REVOKED: usize = 10_000;
/// Microseconds for which it is kept that a key was restored: a node that was away for longer, and has missed it,
/// revokes the key again.
pub const RESTORED_US: u64 = 90 * 24 * 60 * 60 * 1_000_000;

/// The last change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    /// SHA-256 of the key, 64 lower-case hexadecimal digits.
    pub hash: String,
    /// The key is revoked; false: it was, and is restored.
    pub revoked: bool,
    /// Its consumer in the configuration of that time.
    pub consumer: String,
    /// Name of the token that has changed it.
    pub who: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: UnixMicros,
}

impl KeyChange {
    fn is_later_than(&self, other: &Self) -> bool {
        (self.at, self.revoked) > (other.at, other.revoked)
    }

    fn is_over(&self, now: u64) -> bool {
        !self.revoked && self.at.0.saturating_add(RESTORED_US) <= now
    }
}

/// Why a key is not revoked or restored.
#[derive(Debug, thiserror::Error)]
pub enum RevocationError {
    /// Too many keys are revoked.
    #[error(
        "{MAX_REVOKED} API keys are revoked already; restore one that the configuration does not have any more"
    )]
    Full,
    /// The database cannot be read or written.
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
}

/// Changes by hash.
type Changes = BTreeMap<String, KeyChange>;
/// What is told the hashes of the keys that are revoked.
type Listener = Box<dyn Fn(Vec<String>) + Send + Sync>;

#[derive(Debug, Default)]
struct State {
    changes: Changes,
    /// Number of modifications.
    revision: u64,
}

/// The revoked keys of this node.
pub struct RevokedKeys {
    /// Locked from the checks of a change until it is in force: changes are published in their order.
    connection: Mutex<Connection>,
    state: Mutex<State>,
    listener: OnceLock<Listener>,
}

impl std::fmt::Debug for RevokedKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RevokedKeys").finish_non_exhaustive()
    }
}

impl RevokedKeys {
    /// Opens those of a data folder.
    ///
    /// # Errors
    /// The database cannot be opened or read.
    pub fn open(data: &Path) -> Result<Self, StoreError> {
        let connection = crate::open(data)?;
        let changes = read(&connection).map_err(|error| StoreError::database(data, error))?;
        let state = Mutex::new(State { changes, revision: 1 });
        Ok(Self { connection: Mutex::new(connection), state, listener: OnceLock::new() })
    }

    /// None, which are not stored.
    ///
    /// # Errors
    /// There is no memory.
    pub fn in_memory() -> rusqlite::Result<Self> {
        let connection = Mutex::new(crate::in_memory()?);
        Ok(Self { connection, state: Mutex::default(), listener: OnceLock::new() })
    }

    /// Tells the hashes of all revoked keys to `listener`, now and after every modification, before the
    /// modification returns. Once.
    pub fn publish_to(&self, listener: impl Fn(Vec<String>) + Send + Sync + 'static) {
        let _order = self.connection.lock();
        // Nobody sets another one.
        let _ = self.listener.set(Box::new(listener));
        self.publish();
    }

    /// Hashes of the keys that are revoked.
    #[must_use]
    pub fn hashes(&self) -> Vec<String> {
        self.revoked().into_iter().map(|change| change.hash).collect()
    }

    /// The keys that are revoked.
    #[must_use]
    pub fn revoked(&self) -> Vec<KeyChange> {
        let state = self.state.lock();
        state.changes.values().filter(|change| change.revoked).cloned().collect()
    }

    /// All changes, and the number of modifications up to now.
    #[must_use]
    pub fn changes(&self) -> (Vec<KeyChange>, u64) {
        let state = self.state.lock();
        (state.changes.values().cloned().collect(), state.revision)
    }

    /// The number of modifications up to now.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.state.lock().revision
    }

    /// Stores that a key is revoked or restored, with the time of now; it is in force then.
    ///
    /// # Errors
    /// Too many keys are revoked, or the database fails: nothing is changed then.
    pub fn change(&self, change: KeyChange) -> Result<(), RevocationError> {
        let db = self.connection.lock();
        let (before, revoked) = {
            let state = self.state.lock();
            let of_others = |one: &&KeyChange| one.revoked && one.hash != change.hash;
            let revoked = state.changes.values().filter(of_others).count();
            (state.changes.get(&change.hash).map_or(0, |before| before.at.0), revoked)
        };
        if change.revoked && revoked >= MAX_REVOKED {
            return Err(RevocationError::Full);
        }
        // Later than what it replaces, also by the clock of another node.
        let at = UnixMicros(now_us().max(before.saturating_add(1)));
        self.store(&db, vec![KeyChange { at, ..change }])?;
        Ok(())
    }

    /// Stores the changes of other nodes that are later than those of this one.
    ///
    /// # Errors
    /// The database fails: nothing is changed then.
    pub fn merge(&self, mut changes: Vec<KeyChange>) -> rusqlite::Result<()> {
        let db = self.connection.lock();
        {
            let state = self.state.lock();
            let now = now_us();
            changes.retain(|change| match state.changes.get(&change.hash) {
                Some(known) => change.is_later_than(known),
                None => !change.is_over(now),
            });
        }
        if changes.is_empty() { Ok(()) } else { self.store(&db, changes) }
    }

    /// Reads what another process has changed: the one that this one takes over from.
    ///
    /// # Errors
    /// The database fails.
    pub fn reload(&self) -> rusqlite::Result<()> {
        let db = self.connection.lock();
        let changes = read(&db)?;
        let mut state = self.state.lock();
        if changes != state.changes {
            state.changes = changes;
            state.revision += 1;
            drop(state);
            self.publish();
        }
        Ok(())
    }

    /// Writes changes, forgets old ones, and publishes.
    fn store(&self, db: &Connection, changes: Vec<KeyChange>) -> rusqlite::Result<()> {
        let mut all = self.state.lock().changes.clone();
        let transaction = db.unchecked_transaction()?;
        for change in changes {
            transaction
                .prepare_cached(
                    "INSERT INTO revoked_key (hash, revoked, consumer, who, reason, at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                     ON CONFLICT (hash) DO UPDATE SET revoked = excluded.revoked,
                         consumer = excluded.consumer, who = excluded.who,
                         reason = excluded.reason, at = excluded.at",
                )?
                .execute(params![
                    change.hash,
                    change.revoked,
                    change.consumer,
                    change.who,
                    change.reason,
                    change.at.0
                ])?;
            all.insert(change.hash.clone(), change);
        }
        for hash in surplus(&all, now_us()) {
            transaction.execute("DELETE FROM revoked_key WHERE hash = ?", [&hash])?;
            all.remove(&hash);
        }
        transaction.commit()?;
        let mut state = self.state.lock();
        state.changes = all;
        state.revision += 1;
        drop(state);
        self.publish();
        Ok(())
    }

    /// The caller holds the lock of the connection.
    fn publish(&self) {
        if let Some(listener) = self.listener.get() {
            listener(self.hashes());
        }
    }
}

/// Restored keys that are not kept: for their age, or because there are too many changes.
fn surplus(all: &Changes, now: u64) -> Vec<String> {
    let mut restored: Vec<&KeyChange> = all.values().filter(|change| !change.revoked).collect();
    restored.sort_by_key(|change| change.at);
    let most = all.len().saturating_sub(MAX_REVOKED);
    let is_surplus = |&(index, change): &(usize, &KeyChange)| index < most || change.is_over(now);
    let surplus = restored.into_iter().enumerate().filter(is_surplus);
    surplus.map(|(_, change)| change.hash.clone()).collect()
}

fn read(db: &Connection) -> rusqlite::Result<Changes> {
    let mut select =
        db.prepare_cached("SELECT hash, revoked, consumer, who, reason, at FROM revoked_key")?;
    let rows = select.query_map([], |row| {
        let hash: String = row.get(0)?;
        let change = KeyChange {
            hash: hash.clone(),
            revoked: row.get(1)?,
            consumer: row.get(2)?,
            who: row.get(3)?,
            reason: row.get(4)?,
            at: UnixMicros(row.get(5)?),
        };
        Ok((hash, change))
    })?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn change(hash: &str, revoked: bool, at: u64) -> KeyChange {
        let text = |text: &str| text.to_owned();
        let (consumer, who, reason) = (text("acme"), text("ann"), text("leaked"));
        KeyChange { hash: text(hash), revoked, consumer, who, reason, at: UnixMicros(at) }
    }

    /// What a listener was told.
    type Told = Arc<Mutex<Vec<Vec<String>>>>;

    fn open(data: &Path) -> (RevokedKeys, Told) {
        let (keys, told) = (RevokedKeys::open(data).unwrap(), Told::default());
        let listener = Arc::clone(&told);
        keys.publish_to(move |hashes| listener.lock().push(hashes));
        (keys, told)
    }

    #[test]
    fn a_key_is_revoked_until_it_is_restored_also_after_a_restart() {
        let data = tempfile::tempdir().unwrap();
        let (keys, told) = open(data.path());
        keys.change(change("b", true, 0)).unwrap();
        keys.change(change("a", true, 0)).unwrap();
        let again = RevokedKeys::open(data.path()).unwrap();
        assert_eq!((again.hashes(), again.revoked()), (keys.hashes(), keys.revoked()));
        keys.change(change("b", false, 0)).unwrap();
        assert_eq!(RevokedKeys::open(data.path()).unwrap().hashes(), ["a"]);
        let told: Vec<String> = told.lock().iter().map(|one| one.join(" ")).collect();
        assert_eq!(told, ["", "b", "a b", "a"]);
        // It still had both.
        assert_eq!(again.hashes(), ["a", "b"]);
        again.reload().unwrap();
        assert_eq!(again.hashes(), ["a"]);
    }

    #[test]
    fn the_later_of_two_changes_holds_in_any_order() {
        let later = now_us() + 1_000_000_000;
        let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let ((keys, told), (others, _)) = (open(data.path()), open(other.path()));
        let both = [change("a", true, later), change("a", false, later + 1)];
        let same = [change("b", false, later), change("b", true, later)];
        keys.merge([&both[..], &same[..]].concat()).unwrap();
        for one in same.iter().rev().chain(both.iter().rev()) {
            others.merge(vec![one.clone()]).unwrap();
        }
        assert_eq!(keys.hashes(), ["b"]);
        assert_eq!(keys.changes().0, others.changes().0);
        let count = told.lock().len();
        keys.merge(others.changes().0).unwrap();
        assert_eq!(told.lock().len(), count, "nothing is new");
        // The clock of another node is ahead; what is done here now comes after it.
        others.change(change("b", false, 0)).unwrap();
        keys.merge(others.changes().0).unwrap();
        assert_eq!(keys.hashes(), Vec::<String>::new());
    }

    #[test]
    fn revoked_keys_are_bounded_and_restored_ones_make_room() {
        let data = tempfile::tempdir().unwrap();
        let (keys, _) = open(data.path());
        let now = now_us();
        let all = (0..MAX_REVOKED).map(|n| change(&format!("{n:05}"), n > 0, now + n as u64));
        keys.merge(all.collect()).unwrap();
        keys.change(change("more", true, 0)).unwrap();
        assert_eq!(keys.changes().0.len(), MAX_REVOKED, "the restored one is forgotten");
        assert!(matches!(keys.change(change("even more", true, 0)), Err(RevocationError::Full)));
        keys.change(change("00007", true, 0)).unwrap();
        keys.change(change("00007", false, 0)).unwrap();
        keys.change(change("even more", true, 0)).unwrap();
        keys.change(change("00008", false, 0)).unwrap();
        keys.merge(vec![change("old", false, now - RESTORED_US)]).unwrap();
        assert!(!keys.changes().0.iter().any(|change| change.hash == "old"));
        assert_eq!(RevokedKeys::open(data.path()).unwrap().changes().0, keys.changes().0);
    }
}
