//! Findings as JSON, and on standard error.

use crate::output;
use serde_json::Value;
use weir_document::finding::{Findings, Severity};

/// One object for each finding, in order.
pub(crate) fn to_json(findings: &Findings) -> Value {
    serde_json::to_value(&findings.list).unwrap_or_default()
}

/// Prints findings as text, if there are any.
pub(crate) fn print(findings: &Findings) {
    if !findings.list.is_empty() {
        output::note(findings.render(output::color()).trim_end());
    }
}

/// The result of a load; `None` if it has errors, which are printed.
pub(crate) fn accepted<T>(loaded: Result<T, Findings>) -> Option<T> {
    loaded.inspect_err(print).ok()
}

/// `2 errors, 1 warning`.
pub(crate) fn summary(findings: &Findings) -> String {
    let errors = findings.list.iter().filter(|f| f.severity == Severity::Error).count();
    let warnings = findings.list.len() - errors;
    [(errors, "error"), (warnings, "warning")]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, noun)| count(n, noun))
        .collect::<Vec<_>>()
        .join(", ")
}

/// `1 error`, `2 errors`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
