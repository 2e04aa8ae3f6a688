//! Compiles schemas to validators.

use crate::keywords::validator;
use crate::pattern::Pattern;
use crate::schema::Schema;
use crate::weights::{self, Traits};
use std::collections::HashMap;
use weir_config::validation::SchemaSource;
use weir_document::draft::Described;
use weir_document::finding::{Diagnostics, codes};
use weir_document::source_map::Span;

/// Compiles schemas; `None` for those with a finding.
pub(crate) fn all(
    sources: Vec<SchemaSource>,
    documents: &[Described],
    report: &mut Diagnostics,
) -> Vec<Option<Schema>> {
    // Schemas share patterns.
    let mut known = HashMap::new();
    let compiled = sources.into_iter().map(|source| {
        let mut are_patterns = true;
        for (at, pattern) in &source.patterns {
            are_patterns &= *known.entry(*at).or_insert_with(|| is_pattern(*at, pattern, report));
        }
        if are_patterns { compile(source, documents, report) } else { None }
    });
    compiled.collect()
}

fn compile(
    mut source: SchemaSource,
    documents: &[Described],
    report: &mut Diagnostics,
) -> Option<Schema> {
    let traits = Traits::of(&source.value);
    weights::take_patterns(&mut source.value);
    // Findings refer to the schema without weights.
    let mut built = validator(&source.value);
    if built.is_ok() && weights::add(&mut source.value) {
        built = validator(&source.value);
    }
    match built {
        Ok(validator) => Some(Schema { validator, shape: source.shape, traits }),
        Err(error) => {
            let at = source.span(documents, &error.instance_path().to_string());
            let message: String = error.to_string().chars().take(200).collect();
            report.error(codes::BAD_SCHEMA, at, format!("invalid schema: {message}"));
            None
        }
    }
}

/// Whether a pattern is valid; an invalid one is an error. A pattern that may reject long texts is
/// a warning.
fn is_pattern(at: Span, pattern: &str, report: &mut Diagnostics) -> bool {
    let short: String = pattern.chars().take(60).collect();
    let compiled = Pattern::new(pattern);
    if let Err(why) = &compiled {
        report.error(codes::BAD_SCHEMA, at, format!("invalid pattern `{short}`: {why}"));
    }
    if compiled.as_ref().is_ok_and(Pattern::backtracks) {
        let message = format!(
            "the pattern `{short}` needs backtracking: texts that exceed the budget of the \
             validation are rejected"
        );
        report.warning(codes::BACKTRACKING_PATTERN, at, message).help(
            "place look-ahead directly after `^` (`^(?=.*[0-9])(?!-)[a-z0-9-]+$`), \
             look-behind directly before `$`, without back-references, or set `maxLength`",
        );
    }
    compiled.is_ok()
}
