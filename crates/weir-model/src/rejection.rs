//! The reasons why a transaction cannot be resubmitted, each with a stable code and a text.

use strum::{EnumIter, EnumMessage, EnumString, IntoStaticStr};

/// Why a transaction cannot be resubmitted as requested, with the cause and the remedy as displayed.
#[derive(Clone, Debug, PartialEq, Eq, EnumIter, EnumMessage, EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum RejectionReason {
    /// The journal does not have it.
    #[strum(message = "it is not kept here")]
    NotKept,
    /// Another node has it, and does not respond.
    #[strum(
        message = "the node that has it does not respond, and no sink has its complete request"
    )]
    Elsewhere,
    /// Headers and body were dropped because of their age.
    #[strum(
        message = "its headers and body were dropped because of their age; it can be sent only with a \
        body of yours"
    )]
    Expired,
    /// Headers or body were never recorded, or not kept.
    #[strum(
        message = "its headers or body were not recorded; it can be sent only with a body of yours"
    )]
    Unrecorded,
    /// Some of its records were lost.
    #[strum(message = "some of its records were lost; it can be sent only with a body of yours")]
    Damaged,
    /// A value of the request was masked: at this location, if that is known.
    #[strum(
        message = "something in its request was masked before it was recorded; it can be sent only with \
        that edited"
    )]
    Masked(Option<String>),
    /// Not all of the body was recorded.
    #[strum(
        message = "only the beginning of its body was recorded; it can be sent only with a body of \
        yours"
    )]
    Truncated,
    /// The body was not recorded because it could not be masked.
    #[strum(
        message = "its body was not recorded, as it could not be masked; it can be sent only with a \
        body of yours"
    )]
    Withheld,
    /// The body did not reach its end, or it is not known whether it did.
    #[strum(
        message = "its body did not come to its end, or that is not known; it can be sent only with a \
        body of yours"
    )]
    Aborted,
    /// It is itself an attempt.
    #[strum(message = "it is itself an attempt: resubmit what it is an attempt at")]
    Attempt,
    /// An attempt is in flight.
    #[strum(message = "an attempt is under way")]
    Sending,
    /// It is not known whether the last attempt was sent.
    #[strum(
        message = "it is not known whether the last attempt was sent; `again` sends it all the same"
    )]
    Unknown,
    /// It has been resubmitted, resolved or dismissed.
    #[strum(
        message = "it has been resubmitted, resolved or dismissed; `again` sends it all the same"
    )]
    Settled,
    /// Since the attempt that a retry is based on, there was another one.
    #[strum(
        message = "there is a newer attempt, of another job or by hand: retry that job; `again` sends it \
        all the same"
    )]
    NewerAttempt,
    /// Its response means success.
    #[strum(message = "it was answered with success; `again` sends it all the same")]
    Succeeded,
    /// The consumer is no longer configured.
    #[strum(message = "its consumer is not in the configuration any more")]
    ConsumerGone,
    /// The route now requires a scope that was not granted.
    #[strum(message = "the route asks for a scope now that its sender was not granted")]
    ScopeMissing,
    /// The route would not admit its principal now.
    #[strum(message = "its sender would not be let in by the route now")]
    NotAdmitted,
    /// Its API no longer has a route for it.
    #[strum(message = "its API has no route for it any more")]
    RouteGone,
    /// Its route does not list the other route.
    #[strum(message = "the route does not list that one in `resubmit.targets`")]
    TargetNotListed,
    /// The other route does not fit.
    #[strum(
        message = "the other route takes another method, or its path has parameters that this one has \
        not"
    )]
    TargetUnfit,
    /// A rate limit or a quota is exhausted.
    #[strum(message = "a rate limit or quota of its consumer is exhausted; try later")]
    LimitReached,
    /// weir itself would respond with this problem.
    #[strum(message = "weir itself does not take it")]
    Rejected(String),
}

impl RejectionReason {
    /// Its stable code; without details.
    #[must_use]
    pub fn code(&self) -> String {
        match self {
            Self::Rejected(problem) if !problem.is_empty() => format!("rejected:{problem}"),
            kind => <&str>::from(kind).to_owned(),
        }
    }

    /// The reason with a code; without a location.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        if let Some(problem) = code.strip_prefix("rejected:") {
            return Some(Self::Rejected(problem.to_owned()));
        }
        code.parse().ok()
    }

    /// The cause and the remedy.
    #[must_use]
    pub fn words(&self) -> String {
        let words = self.get_message().unwrap_or_default();
        match self {
            Self::Masked(Some(location)) => format!("{words}: {location}"),
            Self::Rejected(problem) if !problem.is_empty() => format!("{words}: {problem}"),
            _ => words.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use strum::IntoEnumIterator;

    #[test]
    fn codes_are_unique_and_are_read_back() {
        let mut seen = HashSet::new();
        for reason in RejectionReason::iter() {
            assert_eq!(RejectionReason::from_code(&reason.code()), Some(reason.clone()));
            assert!(seen.insert(reason.code()) && !reason.words().is_empty());
        }
        let rejected = RejectionReason::Rejected("body-too-large".to_owned());
        assert_eq!(RejectionReason::from_code(&rejected.code()), Some(rejected));
        assert_eq!(RejectionReason::from_code("none"), None);
    }
}
