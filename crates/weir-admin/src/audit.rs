//! Who looked at which payload, and who changed what: `data/audit.log`.
//!
//! One JSON object a line, appended, for its user alone (0600): `time`, `token` (the id of the
//! token, never the token), `role`, `action`, and what it was done to: `transaction`, `query` or
//! `subject`. What cannot be written down is not done.

use crate::tokens::Caller;
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// What somebody does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action<'a> {
    /// Sees headers, bodies and keys of a transaction.
    Show(&'a str),
    /// Searches in payloads, and sees highlights and keys of what is found.
    Search(&'a str),
    /// Counts by words in payloads, or by business keys.
    Count(&'a str),
    /// Takes headers, bodies and keys of all that a query finds.
    Export(&'a str),
    /// Made the token with this id.
    MakeToken(&'a str),
    /// Revokes the token with this id.
    RevokeToken(&'a str),
    /// Has calls counted again.
    Rebuild,
}

impl Action<'_> {
    /// Its name, and what it is done to under which name.
    fn fields(self) -> (&'static str, &'static str, String) {
        match self {
            Self::Show(id) => ("show", "transaction", id.to_owned()),
            Self::Search(query) => ("search", "query", query.to_owned()),
            Self::Count(query) => ("count", "query", query.to_owned()),
            Self::Export(query) => ("export", "query", query.to_owned()),
            Self::MakeToken(id) => ("make-token", "subject", id.to_owned()),
            Self::Rebuild => ("rebuild", "subject", "counts".to_owned()),
            Self::RevokeToken(id) => ("revoke-token", "subject", id.to_owned()),
        }
    }
}

/// The log.
#[derive(Debug)]
pub struct Audit {
    file: Mutex<File>,
}

impl Audit {
    /// Opens the log of a data folder, or begins it.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(data: &Path) -> io::Result<Self> {
        let mut options = File::options();
        let file = options.append(true).create(true).mode(0o600).open(data.join("audit.log"))?;
        Ok(Self { file: Mutex::new(file) })
    }

    pub(crate) fn note(&self, caller: &Caller, action: Action<'_>) -> io::Result<()> {
        let (action, about, value) = action.fields();
        let mut line = Map::new();
        let mut put = |name: &str, value: String| {
            line.insert(name.to_owned(), Value::String(value));
        };
        put("time", jiff::Timestamp::now().to_string());
        put("token", caller.id.clone());
        put("role", caller.role.name().to_owned());
        put("action", action.to_owned());
        put(about, value);
        let line = format!("{}\n", Value::Object(line));
        // One write a line, so that a crash leaves whole lines.
        self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn lines_are_appended_and_cannot_be_broken_up() {
        let data = tempfile::tempdir().unwrap();
        let caller = Caller { id: "ab".to_owned(), role: Role::Operator };
        for query in ["body:a\nb", "body:\"c\""] {
            let audit = Audit::open(data.path()).unwrap();
            audit.note(&caller, Action::Search(query)).unwrap();
        }
        let path = data.path().join("audit.log");
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["query"], "body:a\nb");
        assert_eq!((&lines[1]["token"], &lines[1]["role"]), (&"ab".into(), &"operator".into()));
        assert!(lines[1]["time"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
