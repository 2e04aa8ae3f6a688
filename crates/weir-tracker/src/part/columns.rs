//! The metadata of a part in memory, column by column.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use weir_journal::Transaction;

use crate::field::{Number, cut};
use crate::part::keys::OpenKeys;
use crate::part::row::{self, NAMES};

/// Columns of numbers, in the order of their tags in a file.
pub(crate) const NUMBERS: [Number; 4] =
    [Number::Time, Number::Elapsed, Number::Status, Number::State];

/// A column of names: for each row the number of its name in `values`.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) codes: Vec<u32>,
    pub(crate) values: Vec<String>,
    lookup: HashMap<String, u32, RandomState>,
}

impl Names {
    fn push(&mut self, name: &str) {
        let same = self.codes.last().filter(|last| self.values[**last as usize] == name);
        let code = match same.or_else(|| self.lookup.get(name)) {
            Some(code) => *code,
            None => {
                let code = self.values.len() as u32;
                self.values.push(name.to_owned());
                self.lookup.insert(name.to_owned(), code);
                code
            }
        };
        self.codes.push(code);
    }
}

/// The rows of a part.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    pub(crate) ids: Vec<u128>,
    pub(crate) numbers: [Vec<u64>; NUMBERS.len()],
    pub(crate) lanes: Vec<u64>,
    pub(crate) positions: Vec<u64>,
    pub(crate) names: [Names; NAMES],
    pub(crate) keys: OpenKeys,
}

impl Columns {
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Removes all rows; the memory of the columns is kept.
    pub(crate) fn clear(&mut self) {
        let Self { ids, numbers, lanes, positions, names, keys } = self;
        ids.clear();
        numbers.iter_mut().chain([lanes, positions]).for_each(Vec::clear);
        for Names { codes, values, lookup } in names {
            codes.clear();
            values.clear();
            lookup.clear();
        }
        *keys = OpenKeys::default();
    }

    pub(crate) fn push(&mut self, transaction: &Transaction) {
        let address = transaction.address;
        self.keys.push(self.len(), &transaction.keys);
        self.ids.push(u128::from_be_bytes(transaction.id));
        self.numbers[0].push(transaction.received_us);
        self.numbers[1].push(row::elapsed(&transaction.stages));
        self.numbers[2].push(transaction.status.into());
        self.numbers[3].push(transaction.outcome as u64);
        self.lanes.push(address.map_or(0, |address| address.lane.into()));
        self.positions.push(address.map_or(0, |address| address.position.to_bits()));
        for (column, name) in self.names.iter_mut().zip(row::names(transaction)) {
            column.push(cut(name));
        }
    }
}
