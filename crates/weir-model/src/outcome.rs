//! The end of a transaction.

use strum::{Display, EnumString, IntoStaticStr, VariantNames};

/// How a transaction ended. The numbers are those of records and indexes, the names those of the
/// configuration, of queries and of JSON.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Display, EnumString, IntoStaticStr, VariantNames,
)]
#[strum(serialize_all = "lowercase")]
pub enum Outcome {
    /// A complete response was sent.
    #[default]
    Completed,
    /// Failed by rule.
    Failed,
    /// Not finished: the client disconnected, or weir ended before.
    Interrupted,
}

impl Outcome {
    /// The outcome with a number; an unknown one counts as interrupted.
    #[must_use]
    pub fn from_code(code: u64) -> Self {
        match code {
            0 => Self::Completed,
            1 => Self::Failed,
            _ => Self::Interrupted,
        }
    }
}
