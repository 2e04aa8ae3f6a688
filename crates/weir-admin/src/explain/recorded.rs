//! Explanation of a recorded transaction. No policy is evaluated again: the record is sufficient,
//! even if the request was masked, its token has expired or the configuration has changed.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_http::problem::Problem;
use weir_model::{TransactionId, UnixMicros};
use weir_tracker::document::{Stage, Transaction};

/// Explanation of a recorded transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct RecordedExplanation {
    /// Transaction id.
    #[schema(value_type = String)]
    id: TransactionId,
    /// Time of receipt (RFC 3339, UTC).
    #[schema(value_type = String)]
    time: UnixMicros,
    /// Outcome.
    outcome: RecordedOutcome,
    /// Status of the response, 0 without a response.
    status: u16,
    /// Summary in one sentence.
    why: String,
    /// The problem that weir itself returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    problem: Option<RecordedProblem>,
    /// Name of the API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    api: String,
    /// Operation of the route; empty without a matching route.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    operation: String,
    /// Name of the consumer; empty without a consumer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    consumer: String,
    /// Subject of the verified credential.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    principal: String,
    /// Address of the client.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    client: String,
    /// Name of the upstream.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    upstream: String,
    /// Number of retries at upstreams.
    retries: u8,
    /// Microseconds by stage.
    stages: Vec<Stage>,
}

/// Outcome of a recorded transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RecordedOutcome {
    /// The handler returned a response.
    #[default]
    Answered,
    /// weir itself returned a problem.
    Problem,
    /// The response was aborted, or weir ended before its end.
    BrokenOff,
}

/// The problem that weir itself returned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct RecordedProblem {
    /// Last part of the type.
    code: String,
    /// Meaning of the type.
    title: String,
    /// The side that must act: `client`, `weir` or `upstream`.
    fault: String,
    /// Whether the request may be retried: `pointless`, `safe` or `if-idempotent`.
    retry: String,
    /// Detail: the auth, limit or rule. Empty if the record has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    detail: String,
}

impl RecordedExplanation {
    /// From the record alone.
    pub(crate) fn of(transaction: Transaction) -> Self {
        let Transaction { summary, retries, stages, .. } = transaction;
        let problem = (!summary.problem.is_empty())
            .then(|| problem(&summary.problem, summary.detail.clone()));
        let broken = summary.state == "interrupted" || summary.status == 0;
        let outcome = match &problem {
            Some(_) => RecordedOutcome::Problem,
            None if broken => RecordedOutcome::BrokenOff,
            None => RecordedOutcome::Answered,
        };
        let by = match summary.receiver.as_str() {
            "" => "weir responded".to_owned(),
            upstream => format!("{upstream} responded"),
        };
        let why = match (&problem, outcome) {
            (Some(problem), _) if problem.detail.is_empty() => format!("{}.", problem.title),
            (Some(problem), _) => format!("{}: {}.", problem.title, problem.detail),
            (None, RecordedOutcome::BrokenOff) => {
                "The response was aborted, or weir ended.".to_owned()
            }
            (None, _) => format!("It passed every policy, and {by} with {}.", summary.status),
        };
        Self {
            id: summary.id,
            time: summary.time,
            outcome,
            status: summary.status,
            why,
            problem,
            api: summary.api,
            operation: summary.operation,
            consumer: summary.consumer,
            principal: summary.principal,
            client: summary.sender,
            upstream: summary.receiver,
            retries,
            stages,
        }
    }
}

fn problem(code: &str, detail: String) -> RecordedProblem {
    let known = Problem::of_slug(code);
    // A record of another version may have an unknown code.
    let words = |word: fn(Problem) -> &'static str| known.map_or("", word).to_owned();
    RecordedProblem {
        title: known.map_or(code, |problem| problem.title()).to_owned(),
        fault: words(|problem| problem.fault().into()),
        retry: words(|problem| problem.retry().into()),
        code: code.to_owned(),
        detail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_tracker::document::Summary;

    fn recorded(summary: Summary, detail: &str) -> RecordedExplanation {
        let summary = Summary { detail: detail.to_owned(), ..summary };
        RecordedExplanation::of(Transaction { summary, ..Transaction::default() })
    }

    #[test]
    fn the_record_says_why() {
        let rejected = Summary {
            state: "completed".to_owned(),
            status: 401,
            problem: "token-expired".to_owned(),
            ..Summary::default()
        };
        let explanation = recorded(rejected.clone(), "auth jwt");
        assert_eq!(explanation.outcome, RecordedOutcome::Problem);
        assert_eq!(explanation.why, "The token has expired: auth jwt.");
        assert_eq!(explanation.problem.unwrap().fault, "client");
        let unknown = Summary { problem: "new-one".to_owned(), ..rejected };
        assert_eq!(recorded(unknown, "").why, "new-one.");
        let answered = Summary { receiver: "back".to_owned(), status: 404, ..Summary::default() };
        let explanation = recorded(answered, "");
        assert_eq!(explanation.outcome, RecordedOutcome::Answered);
        assert_eq!(explanation.why, "It passed every policy, and back responded with 404.");
        assert_eq!(recorded(Summary::default(), "").outcome, RecordedOutcome::BrokenOff);
    }
}
