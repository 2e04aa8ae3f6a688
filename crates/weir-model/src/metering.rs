//! Rules of usage metering.

/// Kinds of calls that are counted. A call of several kinds is counted if all of them are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Turned away before the handler.
    pub rejected: bool,
    /// Failed by rule.
    pub failed: bool,
    /// Without a whole answer.
    pub interrupted: bool,
    /// Sent to an upstream more than once.
    pub retried: bool,
    /// Resubmitted by an operator.
    pub resubmitted: bool,
}
