//! The reasons why a transaction cannot be resubmitted, each with a stable code and a text.

/// Why a transaction cannot be resubmitted as requested.
#[derive(Clone, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr, strum::EnumIter)]
#[strum(serialize_all = "kebab-case")]
pub enum RejectionReason {
    /// The journal does not have it.
    NotKept,
    /// Headers and body were dropped because of their age.
    Expired,
    /// Headers or body were never recorded, or not kept.
    Unrecorded,
    /// Some of its records were lost.
    Damaged,
    /// A value of the request was masked: at this location, if that is known.
    Masked(Option<String>),
    /// Not all of the body was recorded.
    Truncated,
    /// The body was not recorded because it could not be masked.
    Withheld,
    /// The body did not reach its end, or it is not known whether it did.
    Aborted,
    /// It is itself an attempt.
    Attempt,
    /// An attempt is in flight.
    Sending,
    /// It is not known whether the last attempt was sent.
    Unknown,
    /// It has been resubmitted, resolved or dismissed.
    Settled,
    /// Its response means success.
    Succeeded,
    /// The consumer is no longer configured.
    ConsumerGone,
    /// The route now requires a scope that was not granted.
    ScopeMissing,
    /// The route would not admit its principal now.
    NotAdmitted,
    /// Its API no longer has a route for it.
    RouteGone,
    /// Its route does not list the other route.
    TargetNotListed,
    /// The other route does not fit.
    TargetUnfit,
    /// A rate limit or a quota is exhausted.
    LimitReached,
    /// weir itself would respond with this problem.
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
        let words = match self {
            Self::NotKept => "it is not kept here",
            Self::Expired => {
                "its headers and body were dropped because of their age; it can be sent only with \
                 a body of yours"
            }
            Self::Unrecorded => {
                "its headers or body were not recorded; it can be sent only with a body of yours"
            }
            Self::Damaged => {
                "some of its records were lost; it can be sent only with a body of yours"
            }
            Self::Masked(Some(location)) => {
                return format!("{}: {location}", Self::Masked(None).words());
            }
            Self::Masked(None) => {
                "something in its request was masked before it was recorded; it can be sent only \
                 with that edited"
            }
            Self::Truncated => {
                "only the beginning of its body was recorded; it can be sent only with a body of \
                 yours"
            }
            Self::Withheld => {
                "its body was not recorded, as it could not be masked; it can be sent only with a \
                 body of yours"
            }
            Self::Aborted => {
                "its body did not come to its end, or that is not known; it can be sent only with \
                 a body of yours"
            }
            Self::Attempt => "it is itself an attempt: resubmit what it is an attempt at",
            Self::Sending => "an attempt is under way",
            Self::Unknown => {
                "it is not known whether the last attempt was sent; `again` sends it all the same"
            }
            Self::Settled => {
                "it has been resubmitted, resolved or dismissed; `again` sends it all the same"
            }
            Self::Succeeded => "it was answered with success; `again` sends it all the same",
            Self::ConsumerGone => "its consumer is not in the configuration any more",
            Self::ScopeMissing => "the route asks for a scope now that its sender was not granted",
            Self::NotAdmitted => "its sender would not be let in by the route now",
            Self::RouteGone => "its API has no route for it any more",
            Self::TargetNotListed => "the route does not list that one in `resubmit.targets`",
            Self::TargetUnfit => {
                "the other route takes another method, or its path has parameters that this one \
                 has not"
            }
            Self::LimitReached => "a rate limit or quota of its consumer is exhausted; try later",
            Self::Rejected(problem) if problem.is_empty() => "weir itself does not take it",
            Self::Rejected(problem) => return format!("weir itself does not take it: {problem}"),
        };
        words.to_owned()
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
