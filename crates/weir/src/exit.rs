//! What the process says when it ends.

use std::process::ExitCode;
use weir_lab::verdict::Verdict;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: it did what it was asked to do.
    Success,
    /// 1: it could not.
    Failure,
    /// 2: the configuration has errors (clap uses the same code for a wrong command line).
    Findings,
    /// 0, 1, 3, 4 or 5: what a measurement says.
    Measured(Verdict),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Success => Self::SUCCESS,
            Exit::Failure => Self::from(1),
            Exit::Findings => Self::from(2),
            Exit::Measured(verdict) => Self::from(verdict.exit_code()),
        }
    }
}
