//! A receiver of metrics during a run, and what became of the batches for it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Batches of metrics for a receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportFigures {
    /// Its URL, without credentials.
    pub to: String,
    /// `OTLP` or `Prometheus remote write`.
    pub protocol: String,
    /// Batches for it.
    pub batches: u64,
    /// Accepted batches.
    pub accepted: u64,
    /// Batches that it rejected, in whole or in part.
    pub rejected: u64,
    /// Batches that were dropped: it was too slow, or not available.
    pub dropped: u64,
    /// The last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl fmt::Display for ExportFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { to, batches, accepted, rejected, dropped, .. } = self;
        write!(f, "export to {to}: {accepted} of {batches} batches accepted")?;
        if *rejected > 0 {
            write!(f, ", {rejected} rejected")?;
        }
        if *dropped > 0 {
            write!(f, ", {dropped} dropped")?;
        }
        match &self.problem {
            Some(problem) => write!(f, " ({problem})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_batches_are_named() {
        let mut figures = ExportFigures { to: "http://a/w".to_owned(), ..Default::default() };
        (figures.batches, figures.accepted) = (5, 5);
        assert_eq!(figures.to_string(), "export to http://a/w: 5 of 5 batches accepted");
        (figures.accepted, figures.rejected, figures.dropped) = (2, 1, 2);
        figures.problem = Some("status 400".to_owned());
        let end = "2 of 5 batches accepted, 1 rejected, 2 dropped (status 400)";
        assert!(figures.to_string().ends_with(end), "{figures}");
    }
}
