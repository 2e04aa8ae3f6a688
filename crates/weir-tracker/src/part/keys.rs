//! The business keys of a part. They are stored exactly, so that they are found, shown and counted
//! without the journal, even if it has dropped the bodies from which they were extracted.
//!
//! Format: in the order of the rows, for each key the number of its row `u16`, the number of its name
//! `u32`, the length of its value `u16`, all little-endian, and the value.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;
use weir_journal::Transaction;

use crate::field::cut;
use crate::part::bitmap::Bitmap;

/// Adds stored keys to those of a transaction.
pub(crate) fn merge(transaction: &mut Transaction, kept: Vec<(String, String)>) {
    // Both may be very many.
    let known = transaction.keys.iter().map(|(name, value)| (cut(name), cut(value)));
    let known: HashSet<_, RandomState> = known.collect();
    let is_new =
        |(name, value): &(String, String)| !known.contains(&(name.as_str(), value.as_str()));
    let new: Vec<_> = kept.into_iter().filter(is_new).collect();
    transaction.keys.extend(new);
}

/// The keys of all rows of a part.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys<'a> {
    names: Cow<'a, [String]>,
    bytes: Cow<'a, [u8]>,
    /// For each row the offset of its keys in the bytes; computed with the first lookup of a row.
    starts: OnceCell<Vec<u32>>,
}

impl<'a> Keys<'a> {
    /// From the sections of a file.
    pub(crate) fn new(names: Vec<String>, bytes: Vec<u8>) -> Self {
        Self { names: Cow::Owned(names), bytes: Cow::Owned(bytes), starts: OnceCell::new() }
    }

    /// Row, name and value of each key; ends at the first invalid byte.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &str, &str)> {
        self.iter_from(0)
    }

    fn iter_from(&self, begin: usize) -> impl Iterator<Item = (usize, &str, &str)> {
        let text = |(row, name, value): (usize, u32, _)| {
            Some((row, self.names.get(name as usize)?.as_str(), std::str::from_utf8(value).ok()?))
        };
        self.raw(begin).map_while(text)
    }

    /// Row, number of the name and value of each key from an offset on.
    fn raw(&self, begin: usize) -> impl Iterator<Item = (usize, u32, &[u8])> {
        let mut rest = self.bytes.get(begin..).unwrap_or_default();
        std::iter::from_fn(move || {
            let (head, after) = rest.split_first_chunk::<8>()?;
            let row = u16::from_le_bytes([head[0], head[1]]);
            let name = u32::from_le_bytes([head[2], head[3], head[4], head[5]]);
            let length = u16::from_le_bytes([head[6], head[7]]);
            let (value, after) = after.split_at_checked(length.into())?;
            rest = after;
            Some((row.into(), name, value))
        })
    }

    /// Those of the `candidates` that have a key, with `value` if that is given.
    pub(crate) fn rows(&self, candidates: &Bitmap, name: &str, value: Option<&str>) -> Bitmap {
        let (name, value) = (cut(name), value.map(|value| cut(value).as_bytes()));
        let mut found = candidates.same_without_rows();
        if let Some(name) = self.names.iter().position(|known| known == name) {
            for (row, other, has) in self.raw(0) {
                let is_candidate = other as usize == name && candidates.contains(row);
                if is_candidate && value.is_none_or(|value| value == has) {
                    found.add(row);
                }
            }
        }
        found
    }

    /// The keys of one row.
    pub(crate) fn of_row(&self, row: usize) -> Vec<(String, String)> {
        let starts = self.starts.get_or_init(|| self.starts());
        let Some(begin) = starts.get(row) else { return Vec::new() };
        self.iter_from(*begin as usize)
            .take_while(|(other, ..)| *other == row)
            .map(|(_, name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    fn starts(&self) -> Vec<u32> {
        let (mut starts, mut at) = (Vec::new(), 0);
        for (row, _, value) in self.raw(0) {
            while starts.len() <= row {
                starts.push(at);
            }
            at += (8 + value.len()) as u32;
        }
        starts
    }
}

/// The keys of a part in memory.
#[derive(Debug, Default)]
pub(crate) struct OpenKeys {
    pub(crate) names: Vec<String>,
    lookup: HashMap<String, u32, RandomState>,
    pub(crate) bytes: Vec<u8>,
}

impl OpenKeys {
    pub(crate) fn push(&mut self, row: usize, keys: &[(String, String)]) {
        for (name, value) in keys {
            let (name, value) = (cut(name), cut(value));
            let code = match self.lookup.get(name) {
                Some(code) => *code,
                None => {
                    let code = self.names.len() as u32;
                    self.names.push(name.to_owned());
                    self.lookup.insert(name.to_owned(), code);
                    code
                }
            };
            self.bytes.extend_from_slice(&(row as u16).to_le_bytes());
            self.bytes.extend_from_slice(&code.to_le_bytes());
            self.bytes.extend_from_slice(&(value.len() as u16).to_le_bytes());
            self.bytes.extend_from_slice(value.as_bytes());
        }
    }

    pub(crate) fn view(&self) -> Keys<'_> {
        let (names, bytes) = (Cow::Borrowed(&*self.names), Cow::Borrowed(&*self.bytes));
        Keys { names, bytes, starts: OnceCell::new() }
    }
}

/// Approximate bytes of the keys of a transaction in a part.
pub(crate) fn size(transaction: &Transaction) -> usize {
    transaction.keys.iter().map(|(name, value)| 8 + name.len() + value.len()).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Bitmap, Keys, OpenKeys};

    #[test]
    fn keys_are_kept_row_by_row() {
        let mut open = OpenKeys::default();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        open.push(0, &[pair("order", "A-1"), pair("customer", "x")]);
        open.push(2, &[pair("order", "A-1"), pair("order", &"é".repeat(400))]);
        let keys = open.view();
        let all = Bitmap::all(3);
        let rows = |name, value| keys.rows(&all, name, value).rows().collect::<Vec<_>>();
        assert_eq!(rows("order", Some("A-1")), [0, 2]);
        assert_eq!(rows("order", Some("a-1")), [0; 0]);
        assert_eq!(rows("customer", None), [0]);
        assert_eq!(rows("other", None), [0; 0]);
        assert_eq!(rows("order", Some(&"é".repeat(400))), [2]);
        assert_eq!(keys.of_row(0), [pair("order", "A-1"), pair("customer", "x")]);
        assert_eq!(keys.of_row(1), []);
        assert_eq!(keys.of_row(2)[1].1.len(), 256);
        assert_eq!(keys.of_row(3), []);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>, row in 0usize..9) {
            let keys = Keys::new(vec!["a".to_owned()], bytes);
            let _ = (keys.iter().count(), keys.rows(&Bitmap::all(8), "a", None), keys.of_row(row));
        }
    }
}
