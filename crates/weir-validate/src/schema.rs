//! A compiled schema, and documents compared with it.

use crate::document::{Document, Documents, Element};
use crate::weights::Traits;
use crate::{budget, keywords};
use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::Value;
use weir_config::validation::{Place, Shape, Violation};

/// Most violations that are reported of one request or response.
pub const MAX_VIOLATIONS: usize = 16;
/// Longest path to a value of which violations are reported one by one, in bytes.
const LONGEST_PATH: usize = 64 << 10;
/// Most values and bytes of a body whose violations are reported one by one although a pattern may be
/// given up: the library copies the body then.
const COPIED: (usize, usize) = (5_000, 256 << 10);
/// Detail for a comparison over budget.
pub(crate) const OVER_BUDGET: &str = "the schema check exceeds the budget of the validation";

/// What is wrong with a body or with parameters.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not what its media type says.
    Malformed(String),
    /// It does not match.
    Violations(Vec<Violation>),
    /// To tell whether it matches would take more work or memory than the budget allows.
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
        self.matches(&Document::of(value), budget::BASE_STEPS)
    }

    /// Whether a document matches. `None`: over budget.
    fn matches(&self, document: &Document<'_>, steps: i64) -> Option<bool> {
        keywords::begin();
        // Without sets nothing is kept until errors are.
        let memory = if self.traits.keeps_sets { budget::MEMORY } else { i64::MAX };
        budget::within(steps, memory, || self.validator.is_valid(document.root()))
    }

    /// What is wrong with a document, within so many steps.
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
        let is_copied = self.traits.backtracks;
        if document.longest_path() > LONGEST_PATH
            || (is_copied && (document.values() > COPIED.0 || document.bytes() > COPIED.1))
        {
            let violation = Violation::new(place, name, "the value does not match the schema");
            return Err(Fault::Violations(vec![violation]));
        }
        let copied = if is_copied { document.copy_bytes() } else { 0 };
        document.report(self.traits.copied + copied, is_copied);
        let mut violations = Vec::new();
        let steps = steps.min(budget::MOST_ERROR_STEPS);
        let whole = budget::within(steps, budget::MEMORY, || {
            // Those made once the budget was used up say nothing.
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
            // It matches as long as some pattern that was given up does.
            (true, Some(())) => {
                let violation = Violation::new(place, name, "the value does not match the schema");
                Err(Fault::Violations(vec![violation]))
            }
        }
    }
}

/// What is wrong, without the value.
fn detail(error: &ValidationError<'_>) -> String {
    let counts_items = matches!(error.kind(), ValidationErrorKind::AdditionalItems { .. });
    if counts_items && Element::is_long_list(error) {
        return "the value exceeds the maximum number of items".to_owned();
    }
    error.masked_with("the value").to_string()
}
