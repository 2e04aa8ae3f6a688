//! Validates requests and responses against an OpenAPI document: compiles its schemas, and applies
//! them to bodies and parameters.
//!
//! The work is bounded (`budget`). A validated body is buffered completely, within the route's
//! limit; it has at most [`MAX_BODY_BYTES`] bytes and `VALUES` values, and nests at most `DEPTH`
//! levels. Each access to a value takes a step, and each error memory, of a budget that grows with
//! the body up to a fixed maximum. Patterns take linear time or, with look-around, a bounded number
//! of steps. At most [`MAX_VIOLATIONS`] violations are reported. A body over budget does not match.
//! A violation contains the location and the rule, never the value.

mod budget;
mod compile;
mod document;
mod keywords;
mod parameter;
mod pattern;
mod schema;
mod weights;

pub use parameter::RequestParts;
pub use schema::{Fault, MAX_VIOLATIONS};

use document::{Document, Unread};
use parameter::CompiledParameter;
use schema::{OVER_BUDGET, Schema, over_budget};
use std::sync::Arc;
use weir_config::validation::{
    BodyCheck, Content, MAX_BODY_BYTES, Parameter, Place, SchemaId, SchemaSource,
};
use weir_document::draft::Described;
use weir_document::finding::Diagnostics;

/// Number of steps for all parameters of a request.
const PARAMETER_STEPS: i64 = 1_000_000;
/// Detail for a body longer than [`MAX_BODY_BYTES`].
const TOO_LONG: &str = "the body exceeds the budget of the validation";

/// The compiled schemas of a configuration. A clone shares them.
#[derive(Clone, Debug, Default)]
pub struct Schemas(Arc<[Schema]>);

impl Schemas {
    /// Compiles schemas of `documents`. Schemas that cannot be compiled are findings; the result is
    /// then empty.
    #[must_use]
    pub fn compile(
        sources: Vec<SchemaSource>,
        documents: &[Described],
        report: &mut Diagnostics,
    ) -> Self {
        let compiled = compile::all(sources, documents, report);
        Self(compiled.into_iter().collect::<Option<_>>().unwrap_or_default())
    }

    fn get(&self, id: SchemaId) -> &Schema {
        &self.0[id.0]
    }

    /// Validates a body.
    ///
    /// # Errors
    /// Why the body is rejected.
    pub fn check_body(&self, content: &Content, bytes: &[u8]) -> Result<(), Fault> {
        if matches!(content.check, BodyCheck::Nothing) {
            return Ok(());
        }
        let place = (Place::Body, "");
        if bytes.len() > MAX_BODY_BYTES {
            return Err(over_budget(place, TOO_LONG));
        }
        let compare = |schema: &Schema, mut document: Document<'_>| {
            schema.check(&mut document, place, budget::of_body(bytes.len()))
        };
        match content.check {
            BodyCheck::Nothing => Ok(()),
            BodyCheck::Json(schema) => {
                let document = Document::parse(bytes).map_err(|unread| match unread {
                    Unread::Malformed(why) => Fault::Malformed(why),
                    Unread::OverBudget(why) => over_budget(place, why),
                })?;
                schema.map_or(Ok(()), |schema| compare(self.get(schema), document))
            }
            BodyCheck::Form(schema) => {
                let fields = parameter::form(&self.get(schema).shape, bytes);
                match fields.as_ref().and_then(Document::of) {
                    Some(document) => compare(self.get(schema), document),
                    None => Err(over_budget(place, parameter::TOO_MANY)),
                }
            }
            BodyCheck::Text(schema) => match std::str::from_utf8(bytes) {
                Ok(text) => compare(self.get(schema), Document::of_text(text)),
                Err(_) => Err(Fault::Malformed("the text is not UTF-8".to_owned())),
            },
        }
    }

    /// Validates the parameters of a request.
    ///
    /// # Errors
    /// Why they are rejected.
    pub fn check_parameters(
        &self,
        parameters: &[Parameter],
        parts: &RequestParts<'_>,
    ) -> Result<(), Fault> {
        let mut violations = Vec::new();
        let checked = budget::within(PARAMETER_STEPS, i64::MAX, || {
            for parameter in parameters {
                let schema = self.get(parameter.schema);
                match (CompiledParameter { parameter, schema }).check(parts) {
                    Ok(()) => {}
                    Err(Fault::Violations(more)) => violations.extend(more),
                    Err(other) => return Err(other),
                }
                if violations.len() >= MAX_VIOLATIONS {
                    break;
                }
            }
            Ok(())
        });
        checked.unwrap_or_else(|| Err(over_budget((Place::Query, ""), OVER_BUDGET)))?;
        violations.truncate(MAX_VIOLATIONS);
        if violations.is_empty() { Ok(()) } else { Err(Fault::Violations(violations)) }
    }
}

#[cfg(test)]
mod tests;
