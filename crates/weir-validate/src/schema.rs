//! Compiled schemas, and the comparison of documents with them.

use crate::document::{Document, Documents, Element};
use crate::weights::Traits;
use crate::{budget, keywords};
use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::Value;
use weir_config::validation::{Place, Shape, Violation};

/// Maximum number of violations that are reported for a request or response.
pub const MAX_VIOLATIONS: usize = 16;
/// Maximum length of a path to a value for which violations are reported one by one, in bytes.
const LONGEST_PATH: usize = 64 << 10;
/// Maximum number of values and bytes of a body for which violations are reported one by one
/// although a pattern may be aborted: the library copies the body in that case.
const COPIED: (usize, usize) = (5_000, 256 << 10);
/// Detail for a comparison over budget.
pub(crate) const OVER_BUDGET: &str = "the schema check exceeds the budget of the validation";

/// Why a body or parameters are rejected.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// The body does not match its media type.
    Malformed(String),
    /// The body or the parameters do not match the schema.
    Violations(Vec<Violation>),
    /// Validation would take more work or memory than the budget allows.
    OverBudget(Violation),
}

pub(crate) fn over_budget((place, name): (Place, &str), why: &str) -> Fault {
    Fault::OverBudget(Violation::new(place, name, why))
}

/// A compiled schema.
pub(crate) struct Schema {
    pub(crate) validator: Validator<Documents>,
    pub(crate) shape: Shape,
    pub(crate) traits: Traits,
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema").field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl Schema {
    /// Whether the value of a parameter matches. `None`: over budget.
    pub(crate) fn is_valid(&self, value: &Value) -> Option<bool> {
        self.matches(&Document::of(value)?, budget::BASE_STEPS)
    }

    /// Whether a document matches. `None`: over budget.
    fn matches(&self, document: &Document<'_>, steps: i64) -> Option<bool> {
        keywords::begin();
        // Without sets, memory is needed only when errors are collected.
        let memory = if self.traits.keeps_sets { budget::MEMORY } else { i64::MAX };
        budget::within(steps, memory, || self.validator.is_valid(document.root()))
    }

    /// The errors of a document, within this number of steps.
    pub(crate) fn check(
        &self,
        document: &mut Document<'_>,
        (place, name): (Place, &str),
        steps: i64,
    ) -> Result<(), Fault> {
        match self.matches(document, steps) {
            Some(true) => return Ok(()),
            Some(false) => {}
            None => return Err(over_budget((place, name), OVER_BUDGET)),
        }
        let unexplained = || {
            let violation = Violation::new(place, name, "the value does not match the schema");
            Err(Fault::Violations(vec![violation]))
        };
        let is_copied = self.traits.backtracks;
        if document.longest_path > LONGEST_PATH
            || (is_copied && (document.values() > COPIED.0 || document.bytes() > COPIED.1))
        {
            return unexplained();
        }
        let copied = if is_copied { document.copy_bytes() } else { 0 };
        document.report(self.traits.copied + copied, is_copied);
        let mut violations = Vec::new();
        let steps = steps.min(budget::MOST_ERROR_STEPS);
        let whole = budget::within(steps, budget::MEMORY, || {
            // Errors that were created after the budget was exhausted are void.
            let errors = self.validator.iter_errors(document.root());
            let errors = errors.filter(|error| !Element::is_void(error)).take(MAX_VIOLATIONS);
            violations.extend(errors.map(|error| {
                let pointer = error.instance_path().to_string();
                Violation::at(place, name, &pointer, &detail(&error))
            }));
        });
        match (violations.is_empty(), whole) {
            (false, _) => Err(Fault::Violations(violations)),
            (true, None) => Err(over_budget((place, name), OVER_BUDGET)),
            // No error was collected: the document would match if an aborted pattern did.
            (true, Some(())) => unexplained(),
        }
    }
}

/// The explanation, without the value.
fn detail(error: &ValidationError<'_>) -> String {
    let counts_items = matches!(error.kind(), ValidationErrorKind::AdditionalItems { .. });
    if counts_items && Element::is_long_list(error) {
        return "the value exceeds the maximum number of items".to_owned();
    }
    error.masked_with("the value").to_string()
}
