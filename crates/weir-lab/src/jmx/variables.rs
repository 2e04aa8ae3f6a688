//! Variables and properties while a plan is translated.
//!
//! Constant variables are inserted into texts, so that a request with only constant variables is
//! encoded once.

use crate::program::{Program, ScriptId, Scripts, Text, TextPart, Variable};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Bytes of a value that is inserted into texts. A larger one stays a variable, whose texts are bounded.
const MAX_CONSTANT_BYTES: usize = 64 * 1024;

/// Names that texts refer to.
pub(super) struct Variables<'p> {
    /// The program, which has the variables of users.
    pub(super) program: &'p mut Program,
    /// Constant variables of the plan.
    pub(super) constants: BTreeMap<String, String>,
    /// Variables that change while the plan runs.
    pub(super) changed: BTreeSet<String>,
    /// Properties of the command line.
    pub(super) properties: BTreeMap<String, String>,
    /// Properties that the plan sets: they are read while the plan runs.
    pub(super) set_properties: BTreeSet<String>,
    /// The plan sets properties whose names are unknown before it runs.
    pub(super) sets_any_property: bool,
    /// Folder of relative files.
    pub(super) folder: PathBuf,
    /// File name of the plan; empty if unknown.
    pub(super) plan: String,
    /// Name of the current sampler.
    pub(super) sampler: Option<String>,
    /// Scripts, if there is a JMeter installation.
    pub(super) scripts: Option<Scripts>,
    /// Functions of texts that the next step needs.
    pub(super) functions: Vec<ScriptId>,
}

impl Variables<'_> {
    /// The value of `${name}`.
    pub(super) fn value(&mut self, name: &str) -> Text {
        match self.constants.get(name) {
            Some(value) => Text::fixed(value.clone()),
            None => Text::from_parts([TextPart::Variable(self.program.variable(name))]),
        }
    }

    /// Whether a property may change while the plan runs.
    pub(super) fn property_changes(&self, name: &str) -> bool {
        self.sets_any_property || self.set_properties.contains(name.trim())
    }

    /// The changing variable of this name.
    pub(super) fn variable(&mut self, name: &str) -> Variable {
        // A constant of this name would hide the variable; the first pass excludes this.
        self.changed.insert(name.to_owned());
        self.program.variable(name)
    }

    /// Keeps constants as variables too, for texts that name them while the plan runs.
    pub(super) fn keep_constants(&mut self) {
        for (name, value) in &self.constants {
            let variable = self.program.variable(name);
            self.program.initial.push((variable, Text::fixed(value.as_str())));
        }
    }

    /// Sets the initial value of a variable.
    pub(super) fn define(&mut self, name: &str, value: Text) {
        match value.as_fixed() {
            Some(fixed) if !self.changed.contains(name) && fixed.len() <= MAX_CONSTANT_BYTES => {
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
