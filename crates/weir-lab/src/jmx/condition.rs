//! Conditions that JMeter evaluates as JavaScript.

use crate::program::{Function, Text, condition};

/// A text that is `true` or `false` as the condition in `text`. As in JMeter, a condition that is no
/// valid JavaScript once its variables have values is `false`.
pub(super) fn condition_script(text: Text) -> Text {
    let constant = text.as_fixed().and_then(|fixed| condition(fixed).ok());
    match constant {
        Some(is_true) => Text::fixed(is_true.to_string()),
        None => Text::from_parts([Function::Condition(text).into()]),
    }
}
