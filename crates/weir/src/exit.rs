//! Exit codes.

use std::process::ExitCode;

/// Result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: success.
    Success,
    /// 1: failure.
    Failure,
    /// 2: the configuration has errors (clap uses the same code for a wrong command line), or a command of
    /// the Lab with a verdict failed.
    Findings,
    /// 0 to 5: the verdict of a Lab run.
    Lab(u8),
}

impl From<()> for Exit {
    fn from((): ()) -> Self {
        Self::Success
    }
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
