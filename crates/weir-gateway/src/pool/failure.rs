//! Why an attempt to have an agent answer failed, and what becomes of the agent and the client then.

use crate::body::RequestBodyError;
use crate::deadline::{Expired, Wait};
use crate::problem::Problem;
use crate::proxy;
use crate::refusal::Refusal;
use crate::upstream::{Connection, Failed};

/// Why one attempt failed.
#[derive(Debug)]
pub(super) enum Failure {
    Client(RequestBodyError),
    Closed {
        /// Something of an answer had come.
        answered: bool,
    },
    Garbage(String),
    Overloaded,
    Late(Expired),
}

impl From<proxy::Failure> for Failure {
    fn from(failure: proxy::Failure) -> Self {
        match failure {
            proxy::Failure::Client(error) => Self::Client(error),
            proxy::Failure::Closed { answered } => Self::Closed { answered },
            proxy::Failure::Garbage(error) => Self::Garbage(error.to_string()),
            proxy::Failure::Interim => Self::Garbage("unexpected interim responses".to_owned()),
            proxy::Failure::Late(expired) => Self::Late(expired),
        }
    }
}

impl Failure {
    /// The agent is gone without a word, as one is that has ended in order.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self, Self::Closed { answered: false })
    }

    /// Gives the connection back with word of it; what the client gets.
    pub(super) fn give_up(self, connection: Connection) -> Refusal {
        match self {
            // Dropped, the agent is looked after.
            Self::Client(error) => error.into(),
            Self::Late(Expired::Wait(Wait::RequestBody)) => Problem::RequestTimeout.into(),
            Self::Closed { .. } => {
                connection.failed(Failed::Closed);
                Problem::UpstreamClosed.into()
            }
            Self::Overloaded => {
                connection.close();
                Refusal::new(Problem::PoolBusy).header("retry-after", "1".to_owned())
            }
            Self::Garbage(why) => {
                connection.failed(Failed::Garbage);
                Refusal::new(Problem::UpstreamGarbage).detail(why)
            }
            Self::Late(expired) => {
                connection.failed(Failed::Late);
                Refusal::from(expired)
            }
        }
    }
}
