//! Errors of the query parser.

/// Why a query cannot be parsed, with the location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at {}: {message}{}", at + 1, hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
pub struct QueryError {
    /// Start of the invalid text, in bytes from the start of the query.
    pub at: usize,
    /// Its end.
    pub end: usize,
    /// The error.
    pub message: String,
    /// The remedy.
    pub hint: Option<String>,
}

impl QueryError {
    pub(crate) fn new(at: usize, end: usize, message: impl Into<String>) -> Self {
        Self { at, end, message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
