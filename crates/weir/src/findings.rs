//! Findings as JSON, and on standard error.

use crate::output;
use serde_json::{Value, json};
use weir_config::finding::{Finding, Findings, Severity};

/// One object for each finding, in order.
pub(crate) fn to_json(findings: &Findings) -> Value {
    Value::Array(findings.list.iter().map(finding).collect())
}

fn finding(finding: &Finding) -> Value {
    json!({
        "code": finding.code,
        "severity": match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        "file": finding.file.display().to_string(),
        "line": finding.line,
        "column": finding.column,
        "message": finding.message,
        "help": finding.help,
    })
}

/// Prints findings for people, if there are any.
pub(crate) fn print(findings: &Findings) {
    if !findings.list.is_empty() {
        output::note(findings.render(output::color()).trim_end());
    }
}

/// `2 errors, 1 warning`.
pub(crate) fn summary(findings: &Findings) -> String {
    let errors = findings.list.iter().filter(|f| f.severity == Severity::Error).count();
    let warnings = findings.list.len() - errors;
    [(errors, "error"), (warnings, "warning")]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}{}", if n == 1 { "" } else { "s" }))
        .collect::<Vec<_>>()
        .join(", ")
}
