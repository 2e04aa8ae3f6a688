//! What the process says when it ends.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: it did what it was asked to do.
    Success,
    /// 1: it could not.
    Failure,
    /// 2: the configuration has errors (clap uses the same code for a wrong command line).
    Findings,
    /// 0 to 5: what the Lab says of a run, by its verdict.
    Lab(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Success => Self::SUCCESS,
            Exit::Failure => Self::from(1),
            Exit::Findings => Self::from(2),
            Exit::Lab(verdict) => Self::from(verdict),
        }
    }
}
