//! Variables and properties while a plan is translated.
//!
//! A variable of the plan that nothing changes later is put into texts as it is, so that a request
//! that only has such variables is the same every time.

use crate::program::{Piece, Program, Text, Variable};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// What texts refer to.
pub(super) struct Variables<'p> {
    /// Where the variables of users are.
    pub(super) program: &'p mut Program,
    /// Variables of the plan that nothing changes.
    pub(super) constants: BTreeMap<String, String>,
    /// Variables that something changes while the plan runs.
    pub(super) changed: BTreeSet<String>,
    /// Properties of the command line.
    pub(super) properties: BTreeMap<String, String>,
    /// The plan sets properties, so they are read when they are needed.
    pub(super) sets_properties: bool,
    /// Where files are.
    pub(super) folder: PathBuf,
}

impl Variables<'_> {
    /// What `${name}` is.
    pub(super) fn value(&mut self, name: &str) -> Text {
        match self.constants.get(name) {
            Some(value) => Text::fixed(value.clone()),
            None => Text::from_pieces([Piece::Variable(self.program.variable(name))]),
        }
    }

    /// The variable of this name, which something changes.
    pub(super) fn variable(&mut self, name: &str) -> Variable {
        // A constant of that name would hide it; the first pass has seen to it that there is none.
        self.changed.insert(name.to_owned());
        self.program.variable(name)
    }

    /// Gives a variable its first value.
    pub(super) fn define(&mut self, name: &str, value: Text) {
        match value.as_fixed() {
            Some(fixed) if !self.changed.contains(name) => {
                self.constants.insert(name.to_owned(), fixed.to_owned());
            }
            _ => {
                self.constants.remove(name);
                let variable = self.program.variable(name);
                self.program.initial.push((variable, value));
            }
        }
    }
}
