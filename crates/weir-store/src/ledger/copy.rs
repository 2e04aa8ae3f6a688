//! Copies of resolutions: the database of the fleet has the last one of each transaction, with a revision.
//!
//! A copy replaces a resolution of a lower revision, and nothing else: to apply one again changes nothing.

use super::Resolution;
use rusqlite::{Connection, OptionalExtension, params};

/// A resolution in the database of the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolutionCopy {
    /// The transaction.
    pub transaction: u128,
    /// Its revision, from 1.
    pub revision: i64,
    /// The resolution.
    pub state: Resolution,
    /// Name of the operator.
    pub who: String,
    /// Comment.
    pub comment: String,
    /// When it was set, in microseconds since 1970.
    pub at: u64,
}

/// Applies a copy, unless the resolution here is as new. Returns whether it was applied.
///
/// # Errors
/// The database fails.
pub fn copy_resolution(db: &Connection, copy: &ResolutionCopy) -> rusqlite::Result<bool> {
    let ResolutionCopy { transaction, revision, state, who, comment, at } = copy;
    let key = transaction.to_be_bytes();
    let mut select = db.prepare_cached("SELECT state, revision FROM resolution WHERE id = ?")?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?));
    let here: Option<(String, i64)> = select.query_row([key], read).optional()?;
    if here.as_ref().is_some_and(|(_, here)| here >= revision) {
        return Ok(false);
    }
    let mut set = db.prepare_cached(
        "INSERT INTO resolution (id, state, revision) VALUES (?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET state = excluded.state, revision = excluded.revision",
    )?;
    set.execute(params![key, state.as_ref(), revision])?;
    // The attempt of this node is in the history already.
    let is_known =
        *state == Resolution::Resubmitted && here.is_some_and(|(here, _)| here == state.as_ref());
    if !is_known {
        // The clock of another node may be behind; the last change is still the last one.
        let mut change = db.prepare_cached(
            "INSERT INTO resolution_change (id, at, state, who, comment)
             VALUES (?1, max(?2, (SELECT coalesce(max(at), 0) FROM resolution_change WHERE id = ?1)),
                     ?3, ?4, ?5)",
        )?;
        change.execute(params![key, at, state.as_ref(), who, comment])?;
    }
    Ok(true)
}
