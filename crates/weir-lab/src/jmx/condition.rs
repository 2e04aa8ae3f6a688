//! Conditions that JMeter evaluates as JavaScript.

use super::text::TextError;
use crate::program::{Function, Text, TextPart, condition};

/// A text that is `true` or `false` as the condition in `text`. As in JMeter, a condition that is no
/// valid JavaScript once its variables have values is `false`.
///
/// # Errors
/// The condition has elements that the Lab does not evaluate.
pub(super) fn condition_script(text: Text) -> Result<Text, TextError> {
    let unsupported =
        |reason: String| TextError::unsupported(format!("the Lab does not run scripts: {reason}"));
    if let Some(fixed) = text.as_fixed() {
        let is_true = condition(fixed).map_err(unsupported)?;
        return Ok(Text::fixed(is_true.to_string()));
    }
    // With a number for each variable the rest must be understood.
    let literal = |part: &TextPart| match part {
        TextPart::Literal(text) => text.to_string(),
        _ => "1".to_owned(),
    };
    let example: String = text.parts().iter().map(literal).collect();
    let is_only_variable = matches!(text.parts(), [_]);
    if !is_only_variable {
        condition(&example).map_err(unsupported)?;
    }
    Ok(Text::from_parts([Function::Condition(text).into()]))
}
