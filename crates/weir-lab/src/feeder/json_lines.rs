//! Rows from a file with a JSON object in each line (JSON Lines).

use super::{FeederError, MAX_COLUMNS, MAX_FILE_BYTES, MAX_ROWS, Table};
use serde_json::Value;
use serde_json_path::JsonPath;
use std::collections::HashMap;
use std::path::PathBuf;

/// A file of objects.
#[derive(Clone, Debug)]
pub struct JsonLines {
    /// The file.
    pub path: PathBuf,
    /// Names of columns and the paths of their values; if empty, each value of the objects is a
    /// column, nested ones by names with points (`address.city`, `tags.0`).
    pub columns: Vec<(String, JsonPath)>,
}

impl JsonLines {
    /// Reads all rows. Empty lines are skipped, and a missing value is empty.
    ///
    /// # Errors
    /// The file cannot be read or is too large, a line is not a JSON object, or there is no row.
    pub fn read(&self) -> Result<Table, FeederError> {
        let bytes = crate::bounded_file::read(&self.path, MAX_FILE_BYTES)?;
        let mut columns: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let mut places = HashMap::new();
        let mut rows: Vec<Vec<Box<str>>> = Vec::new();
        for (number, line) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let fault =
                |reason: String| FeederError::Row { path: self.path.clone(), line: number, reason };
            let value: Value = serde_json::from_slice(line)
                .map_err(|error| fault(format!("not JSON: {error}")))?;
            if !value.is_object() {
                return Err(fault("not a JSON object".to_owned()));
            }
            if rows.len() >= MAX_ROWS {
                return Err(FeederError::TooMany);
            }
            let mut row = Vec::new();
            if self.columns.is_empty() {
                let mut set = |name: &str, value: &Value| {
                    let at = *places.entry(name.to_owned()).or_insert_with(|| {
                        columns.push(name.to_owned());
                        columns.len() - 1
                    });
                    if row.len() <= at {
                        row.resize(at + 1, Box::default());
                    }
                    row[at] = text(value);
                };
                flatten("", &value, &mut set);
                if columns.len() > MAX_COLUMNS {
                    return Err(fault(format!("more than {MAX_COLUMNS} columns")));
                }
            } else {
                let found = |(_, path): &(String, JsonPath)| path.query(&value).first().map(text);
                row.extend(self.columns.iter().map(|column| found(column).unwrap_or_default()));
            }
            rows.push(row);
        }
        if rows.is_empty() {
            return Err(FeederError::Empty { path: self.path.clone() });
        }
        rows.iter_mut().for_each(|row| row.resize(columns.len(), Box::default()));
        Ok(Table { columns, rows })
    }
}

/// Calls `set` for each value within, and for the nested objects and lists themselves.
fn flatten(prefix: &str, value: &Value, set: &mut impl FnMut(&str, &Value)) {
    let inner = |name: &str| match prefix {
        "" => name.to_owned(),
        prefix => format!("{prefix}.{name}"),
    };
    if !prefix.is_empty() {
        set(prefix, value);
    }
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| flatten(&inner(name), value, set));
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(at, value)| flatten(&inner(&at.to_string()), value, set));
        }
        _ => {}
    }
}

/// A string without quotes, null as an empty text, anything else as JSON.
fn text(value: &Value) -> Box<str> {
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Null => Box::default(),
        value => value.to_string().into(),
    }
}
