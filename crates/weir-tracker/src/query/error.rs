//! Why a query was not understood.

/// What is wrong with a query, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at {}: {message}{}", at + 1, hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
pub struct QueryError {
    /// Where it begins, in bytes from the start of the query.
    pub at: usize,
    /// Where it ends.
    pub end: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right.
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
