//! What happened to a recorded transaction, and why. Nothing is tried again: the record says it, also
//! where the request was masked, its token has expired since or the configuration is another one.

use crate::tracker::{Stage, Transaction};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_gateway::problem::Problem;

/// What happened to a recorded transaction, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct RecordedExplanation {
    /// Its id.
    id: String,
    /// When it was received (RFC 3339, UTC).
    time: String,
    /// How it ended.
    outcome: RecordedOutcome,
    /// Status of the answer, 0 if there was none.
    status: u16,
    /// In one sentence.
    why: String,
    /// What weir itself answered with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    problem: Option<RecordedProblem>,
    /// Name of the API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    api: String,
    /// Operation of the route; empty if none matched.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    operation: String,
    /// Name of the consumer; empty if nobody in particular was let in.
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
    /// How often it was sent to an upstream again.
    retries: u8,
    /// Microseconds that stages took, by their names.
    stages: Vec<Stage>,
}

/// How a recorded transaction ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RecordedOutcome {
    /// It was answered by its handler.
    #[default]
    Answered,
    /// weir itself answered with a problem.
    Problem,
    /// The answer broke off, or weir ended before it did.
    BrokenOff,
}

/// What weir itself answered with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct RecordedProblem {
    /// The last part of its type.
    code: String,
    /// What it means.
    title: String,
    /// Who has to change something: `client`, `weir` or `upstream`.
    fault: String,
    /// Whether the same request may be sent again: `pointless`, `safe` or `if-idempotent`.
    retry: String,
    /// What it was about: which auth, which limit, which rule. Empty if the record does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    detail: String,
}

impl RecordedExplanation {
    /// By the record alone.
    pub(crate) fn of(transaction: Transaction) -> Self {
        let Transaction { summary, detail, retries, stages, .. } = transaction;
        let problem = (!summary.problem.is_empty()).then(|| problem(&summary.problem, detail));
        let broken = summary.state == "interrupted" || summary.status == 0;
        let outcome = match &problem {
            Some(_) => RecordedOutcome::Problem,
            None if broken => RecordedOutcome::BrokenOff,
            None => RecordedOutcome::Answered,
        };
        let by = match summary.receiver.as_str() {
            "" => "weir answered it".to_owned(),
            upstream => format!("{upstream} answered it"),
        };
        let why = match (&problem, outcome) {
            (Some(problem), _) if problem.detail.is_empty() => format!("{}.", problem.title),
            (Some(problem), _) => format!("{}: {}.", problem.title, problem.detail),
            (None, RecordedOutcome::BrokenOff) => "It did not come to its end.".to_owned(),
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
    // A record of another version may have one that is not known here.
    let words = |word: fn(Problem) -> &'static str| known.map_or("", word).to_owned();
    RecordedProblem {
        title: known.map_or(code, |problem| problem.title()).to_owned(),
        fault: words(|problem| problem.fault().as_str()),
        retry: words(|problem| problem.retry().as_str()),
        code: code.to_owned(),
        detail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracker::Summary;

    fn recorded(summary: Summary, detail: &str) -> RecordedExplanation {
        let detail = detail.to_owned();
        RecordedExplanation::of(Transaction { summary, detail, ..Transaction::default() })
    }

    #[test]
    fn the_record_says_why() {
        let rejected = Summary {
            state: "completed".to_owned(),
            status: 401,
            problem: "token-expired".to_owned(),
            ..Summary::default()
        };
        let told = recorded(rejected.clone(), "auth jwt");
        assert_eq!(told.outcome, RecordedOutcome::Problem);
        assert_eq!(told.why, "The token has expired: auth jwt.");
        assert_eq!(told.problem.unwrap().fault, "client");
        let unknown = Summary { problem: "new-one".to_owned(), ..rejected };
        assert_eq!(recorded(unknown, "").why, "new-one.");
        let answered = Summary { receiver: "back".to_owned(), status: 404, ..Summary::default() };
        let told = recorded(answered, "");
        assert_eq!(told.outcome, RecordedOutcome::Answered);
        assert_eq!(told.why, "It passed every policy, and back answered it with 404.");
        assert_eq!(recorded(Summary::default(), "").outcome, RecordedOutcome::BrokenOff);
    }
}
