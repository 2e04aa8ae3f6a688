//! Rows from a CSV file (RFC 4180, or without quotes as JMeter reads them).

use super::{FeederError, MAX_FILE_BYTES, MAX_ROWS, Table};
use crate::charset::Charset;
use std::path::PathBuf;

/// A file and its format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvFile {
    /// The file.
    pub path: PathBuf,
    /// Names of the columns; if empty, the first line has the names.
    pub columns: Vec<String>,
    /// The delimiter of values. Of quoted values only its first character counts, as in JMeter.
    pub delimiter: String,
    /// Values may be quoted.
    pub quoted: bool,
    /// The first line is a header and is skipped.
    pub skip_first: bool,
}

impl CsvFile {
    /// A file with a header line, commas and quotation marks.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            columns: Vec::new(),
            delimiter: ",".to_owned(),
            quoted: true,
            skip_first: false,
        }
    }

    /// Reads all rows in UTF-8. Surplus values are dropped, missing values are empty.
    ///
    /// # Errors
    /// See [`Self::read_rows`].
    pub fn read(&self) -> Result<Table, FeederError> {
        let mut table = self.read_rows(Charset::UTF_8)?;
        table.rows.iter_mut().for_each(|row| row.resize(table.columns.len(), Box::default()));
        Ok(table)
    }

    /// Reads all rows. Surplus values are dropped, and a row may be short. Invalid bytes are
    /// replaced.
    ///
    /// # Errors
    /// The file cannot be read or is too large, a quoted value does not end, or the file has no
    /// row.
    pub fn read_rows(&self, encoding: Charset) -> Result<Table, FeederError> {
        let bytes = crate::bounded_file::read(&self.path, MAX_FILE_BYTES)?;
        let text = encoding.decode(&bytes);
        let records =
            if self.quoted { self.with_quotes(&text)? } else { self.without_quotes(&text) };
        let mut records = records.into_iter();
        let columns = if self.columns.is_empty() {
            let head = records.next().unwrap_or_default();
            head.iter().map(|name| name.trim().to_owned()).collect()
        } else {
            records.by_ref().take(usize::from(self.skip_first)).for_each(drop);
            self.columns.clone()
        };
        let mut records: Vec<_> = records.collect();
        if records.is_empty() {
            return Err(FeederError::Empty { path: self.path.clone() });
        }
        if records.len() > MAX_ROWS {
            return Err(FeederError::TooMany);
        }
        records.iter_mut().for_each(|row| row.truncate(columns.len()));
        Ok(Table { columns, rows: records })
    }

    fn without_quotes(&self, text: &str) -> Vec<Vec<Box<str>>> {
        let row = |line: &str| line.split(self.delimiter.as_str()).map(Box::from).collect();
        text.lines().take(MAX_ROWS + 2).map(row).collect()
    }

    fn with_quotes(&self, text: &str) -> Result<Vec<Vec<Box<str>>>, FeederError> {
        let mut rows = Vec::new();
        let delimiter = self.delimiter.chars().next().unwrap_or(',');
        let mut rest = Cursor { text, line: 1 };
        while !rest.text.is_empty() && rows.len() < MAX_ROWS + 2 {
            let line = rest.line;
            let fault = |reason: &str| FeederError::Row {
                path: self.path.clone(),
                line,
                reason: reason.to_owned(),
            };
            rows.push(rest.record(delimiter).map_err(fault)?);
        }
        Ok(rows)
    }
}

/// The unread part of a text.
struct Cursor<'t> {
    text: &'t str,
    line: u64,
}

impl Cursor<'_> {
    /// Reads one record with its line end. An empty line is a record with one empty value.
    fn record(&mut self, delimiter: char) -> Result<Vec<Box<str>>, &'static str> {
        let mut values = Vec::new();
        loop {
            let (value, more) = self.value(delimiter)?;
            values.push(value.into());
            if !more {
                return Ok(values);
            }
        }
    }

    /// Reads one value. Returns whether another one follows on this line.
    fn value(&mut self, delimiter: char) -> Result<(String, bool), &'static str> {
        let mut value = String::new();
        let mut characters = self.text.char_indices().peekable();
        let quoted = characters.next_if(|(_, c)| *c == '"').is_some();
        let mut open = quoted;
        while let Some((at, c)) = characters.next() {
            if open {
                match c {
                    '"' if characters.next_if(|(_, next)| *next == '"').is_some() => {
                        value.push('"')
                    }
                    '"' => open = false,
                    c => {
                        self.line += u64::from(c == '\n');
                        value.push(c);
                    }
                }
                continue;
            }
            if c == delimiter {
                self.text = &self.text[at + c.len_utf8()..];
                return Ok((value, true));
            }
            if c == '\n' {
                self.line += 1;
                self.text = &self.text[at + 1..];
                return Ok((trim_return(value), false));
            }
            if quoted && c != '\r' {
                return Err("text follows a closing quotation mark");
            }
            value.push(c);
        }
        self.text = "";
        if open { Err("a quotation mark is not closed") } else { Ok((trim_return(value), false)) }
    }
}

/// Without the carriage return before the end of a line.
fn trim_return(mut value: String) -> String {
    if value.ends_with('\r') {
        value.pop();
    }
    value
}
