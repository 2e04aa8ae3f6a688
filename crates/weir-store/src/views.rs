//! Named views of the console, for all users. Table `view`.

use crate::StoreError;
use crate::clock::now_us;
use parking_lot::Mutex;
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use std::path::Path;
use utoipa::ToSchema;
use weir_model::UnixMicros;

/// Most views.
pub const MAX_VIEWS: usize = 200;
/// Longest name in characters.
const MAX_NAME_CHARS: usize = 80;
/// Longest query of an address in bytes.
const MAX_SEARCH_BYTES: usize = 8192;

/// A named view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SavedView {
    /// Name.
    pub name: String,
    /// Query of the address of the Tracker: search, range, columns.
    pub search: String,
    /// Name of the token that has saved it.
    pub who: String,
    /// Time (RFC 3339, UTC).
    #[schema(value_type = String)]
    pub at: UnixMicros,
}

/// Checks a name and the query of an address.
///
/// # Errors
/// The text says what would be right.
pub fn check(name: &str, search: &str) -> Result<(), String> {
    let is_name = (1..=MAX_NAME_CHARS).contains(&name.chars().count())
        && name.trim() == name
        && !name.chars().any(is_hidden);
    if !is_name {
        return Err(format!(
            "The name has 1 to {MAX_NAME_CHARS} characters, without control characters and without spaces at \
             its ends."
        ));
    }
    if search.len() > MAX_SEARCH_BYTES || !search.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "`search` is the query of an address, at most {MAX_SEARCH_BYTES} bytes of percent-encoded ASCII."
        ));
    }
    Ok(())
}

/// Control characters, and marks that change the direction of a text or show nothing.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The views of this node.
#[derive(Debug)]
pub struct Views {
    connection: Mutex<Connection>,
}

impl Views {
    /// Opens the views of a data folder.
    ///
    /// # Errors
    /// The database cannot be opened.
    pub fn open(data: &Path) -> Result<Self, StoreError> {
        Ok(Self { connection: Mutex::new(crate::open(data)?) })
    }

    /// All views, by name.
    ///
    /// # Errors
    /// The database fails.
    pub fn list(&self) -> rusqlite::Result<Vec<SavedView>> {
        let db = self.connection.lock();
        let mut select =
            db.prepare_cached("SELECT name, search, who, at FROM view ORDER BY name")?;
        let rows = select.query_map([], |row| {
            Ok(SavedView {
                name: row.get(0)?,
                search: row.get(1)?,
                who: row.get(2)?,
                at: UnixMicros(row.get(3)?),
            })
        })?;
        rows.collect()
    }

    /// Saves a view, or replaces the one with this name; returns whether there was room.
    ///
    /// # Errors
    /// The database fails.
    pub fn save(&self, name: &str, search: &str, who: &str) -> rusqlite::Result<bool> {
        let db = self.connection.lock();
        let mut save = db.prepare_cached(
            "INSERT INTO view (name, search, who, at) SELECT ?1, ?2, ?3, ?4
             WHERE EXISTS (SELECT 1 FROM view WHERE name = ?1)
                 OR (SELECT count(*) FROM view) < ?5
             ON CONFLICT (name) DO UPDATE
             SET search = excluded.search, who = excluded.who, at = excluded.at",
        )?;
        Ok(save.execute(params![name, search, who, now_us(), MAX_VIEWS as i64])? > 0)
    }

    /// Deletes a view; returns whether there was one.
    ///
    /// # Errors
    /// The database fails.
    pub fn delete(&self, name: &str) -> rusqlite::Result<bool> {
        Ok(self.connection.lock().execute("DELETE FROM view WHERE name = ?", [name])? > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_saved_replaced_deleted_and_bounded() {
        let data = tempfile::tempdir().unwrap();
        let views = Views::open(data.path()).unwrap();
        assert!(views.save("b", "q=1", "ann").unwrap() && views.save("a", "q=2", "ann").unwrap());
        assert!(views.save("b", "q=3", "bob").unwrap());
        let listed = Views::open(data.path()).unwrap().list().unwrap();
        let listed: Vec<_> = listed
            .iter()
            .map(|one| (one.name.as_str(), one.search.as_str(), one.who.as_str()))
            .collect();
        assert_eq!(listed, [("a", "q=2", "ann"), ("b", "q=3", "bob")]);
        for number in 2..MAX_VIEWS {
            assert!(views.save(&format!("view {number}"), "", "ann").unwrap());
        }
        assert!(!views.save("one more", "", "ann").unwrap(), "there are enough");
        assert!(views.save("a", "q=4", "ann").unwrap(), "one may still be replaced");
        assert!(views.delete("a").unwrap() && !views.delete("a").unwrap());
        assert!(views.save("one more", "", "ann").unwrap());
    }

    #[test]
    fn names_and_addresses_are_checked() {
        assert_eq!(check("Störungen, heute", "q=status%3A500&range=1h"), Ok(()));
        for name in ["", " a", "a\n", "a\u{202e}b", &"a".repeat(81)] {
            assert!(check(name, "").is_err(), "{name:?}");
        }
        for search in ["q=a b", "q=ä", &"a".repeat(8193)] {
            assert!(check("a", search).is_err(), "{search}");
        }
    }
}
