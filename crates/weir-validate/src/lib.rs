//! Whether requests and responses meet what an OpenAPI document demands of them: schemas compiled, and
//! compared with bodies and parameters.
//!
//! The work is bounded (`budget`): a body that is validated is held whole, within the route's limit,
//! has at most [`MAX_BODY_BYTES`] bytes and `VALUES` values, and is nested no deeper than
//! `DEPTH`; each access to a value takes a step, each error memory, of a budget that grows
//! with the body up to a fixed end; patterns take linear time or, with look-around, a bounded number of
//! steps; no more than [`MAX_VIOLATIONS`] violations are reported. What is over budget does not match. A
//! violation contains the place and the rule, never the value.

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

/// Steps of all parameters of a request.
const PARAMETER_STEPS: i64 = 1_000_000;
/// Detail for a body longer than [`MAX_BODY_BYTES`].
const TOO_LONG: &str = "the body exceeds the budget of the validation";

/// The compiled schemas of a configuration. A clone shares them.
#[derive(Clone, Debug, Default)]
pub struct Schemas(Arc<[Schema]>);

impl Schemas {
    /// Compiles schemas of `documents`. Those that cannot be compiled are findings; there are none
    /// then.
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

    /// Checks a body.
    ///
    /// # Errors
    /// What is wrong with it.
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
            BodyCheck::Form(schema) => match parameter::form(&self.get(schema).shape, bytes) {
                Some(fields) => compare(self.get(schema), Document::of(&fields)),
                None => Err(over_budget(place, parameter::TOO_MANY)),
            },
            BodyCheck::Text(schema) => match std::str::from_utf8(bytes) {
                Ok(text) => compare(self.get(schema), Document::of_text(text)),
                Err(_) => Err(Fault::Malformed("the text is not UTF-8".to_owned())),
            },
        }
    }

    /// Checks the parameters of a request.
    ///
    /// # Errors
    /// What is wrong with them.
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
