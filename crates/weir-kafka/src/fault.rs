//! What errors mean for messages.

use kafka_protocol::error::ResponseError;

/// What happened to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All replicas in sync have it.
    Acknowledged,
    /// It is to be sent again: it may or may not be in the topic.
    Retry(String),
    /// Kafka rejects this message: error code and reason.
    Rejected(u16, String),
    /// Kafka rejects every message until an operator has changed something.
    Pause(String),
}

/// Why a request has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// Another attempt may succeed.
    #[error("{0}")]
    Retry(String),
    /// An operator has to change something.
    #[error("{0}")]
    Pause(String),
}

impl Fault {
    /// The verdict on messages that are concerned.
    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::Retry(reason) => Verdict::Retry(reason.clone()),
            Self::Pause(reason) => Verdict::Pause(reason.clone()),
        }
    }

    /// Adds where it happened.
    pub(crate) fn at(self, place: &str) -> Self {
        match self {
            Self::Retry(reason) => Self::Retry(format!("{place}: {reason}")),
            Self::Pause(reason) => Self::Pause(format!("{place}: {reason}")),
        }
    }
}

/// What the error of a record batch means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BatchFault {
    /// To be sent again, to the leader that the metadata names then.
    Retry(String),
    /// A message in it is at fault, or it is too large: to be divided, down to one message.
    Divide(u16, String),
    /// An operator has to change something.
    Pause(String),
}

/// Judges the error code of a record batch; `None`: it is acknowledged.
pub(crate) fn of_batch(code: i16) -> Option<BatchFault> {
    use ResponseError::{
        CorruptMessage, InvalidRecord, InvalidTimestamp, MessageTooLarge, RecordListTooLarge,
    };
    let error = ResponseError::try_from_code(code)?;
    let status = code.unsigned_abs();
    Some(match error {
        MessageTooLarge | RecordListTooLarge | InvalidRecord | InvalidTimestamp => {
            BatchFault::Divide(status, reason(error, code))
        }
        // The bytes were changed on their way; the protocol calls it retriable.
        CorruptMessage => BatchFault::Retry(reason(error, code)),
        error if is_permanent(error) => BatchFault::Pause(reason(error, code)),
        _ => BatchFault::Retry(reason(error, code)),
    })
}

/// Judges the error code of a response that concerns all messages.
///
/// # Errors
/// The code is not 0.
pub(crate) fn check(code: i16) -> Result<(), Fault> {
    let Some(error) = ResponseError::try_from_code(code) else { return Ok(()) };
    let reason = reason(error, code);
    Err(if is_permanent(error) { Fault::Pause(reason) } else { Fault::Retry(reason) })
}

/// Whether another attempt gives the same error until an operator has changed something.
fn is_permanent(error: ResponseError) -> bool {
    use ResponseError::{
        ClusterAuthorizationFailed, IllegalSaslState, InvalidRequest, InvalidRequiredAcks,
        InvalidTopicException, PolicyViolation, SaslAuthenticationFailed, TopicAuthorizationFailed,
        UnsupportedForMessageFormat, UnsupportedSaslMechanism, UnsupportedVersion,
    };
    matches!(
        error,
        ClusterAuthorizationFailed
            | IllegalSaslState
            | InvalidRequest
            | InvalidRequiredAcks
            | InvalidTopicException
            | PolicyViolation
            | SaslAuthenticationFailed
            | TopicAuthorizationFailed
            | UnsupportedForMessageFormat
            | UnsupportedSaslMechanism
            | UnsupportedVersion
    )
}

/// Name and code of an error; texts of brokers may quote messages and are left out.
fn reason(error: ResponseError, code: i16) -> String {
    format!("Kafka error {code}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_a_batch_has_its_consequence() {
        assert_eq!(of_batch(0), None);
        for (code, expected) in [
            (-1, "retry"),
            (2, "retry"),
            (3, "retry"),
            (6, "retry"),
            (7, "retry"),
            (10, "divide"),
            (17, "pause"),
            (18, "divide"),
            (19, "retry"),
            (20, "retry"),
            (29, "pause"),
            (31, "pause"),
            (32, "divide"),
            (56, "retry"),
            (87, "divide"),
            (1_000, "retry"),
        ] {
            let found = match of_batch(code) {
                Some(BatchFault::Retry(_)) => "retry",
                Some(BatchFault::Divide(status, _)) => {
                    assert_eq!(i16::try_from(status), Ok(code));
                    "divide"
                }
                Some(BatchFault::Pause(_)) => "pause",
                None => "none",
            };
            assert_eq!(found, expected, "{code}");
        }
        assert!(matches!(check(58), Err(Fault::Pause(_))));
        assert!(matches!(check(5), Err(Fault::Retry(_))));
        assert_eq!(check(0), Ok(()));
    }
}
