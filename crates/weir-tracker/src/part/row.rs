//! The metadata of a transaction: one row of columns.

use weir_journal::{Address, Outcome, Transaction};
use weir_model::stage;

use crate::field::{Name, Number, cut};

/// Number of columns of names.
pub(crate) const NAMES: usize = Name::ALL.len();

/// The metadata of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// UUIDv7.
    pub id: u128,
    /// Time received, in microseconds since 1970.
    pub time: u64,
    /// Microseconds from `time` to the end of the response.
    pub elapsed: u64,
    /// Status, 0 if there was no response.
    pub status: u16,
    /// Its outcome.
    pub outcome: Outcome,
    /// Its address in the journal.
    pub address: Option<Address>,
    pub(crate) names: [String; NAMES],
}

/// Duration of the stage that spans the whole transaction.
pub(crate) fn elapsed(stages: &[(u8, u32)]) -> u64 {
    stages.iter().find(|(code, _)| *code == stage::TOTAL).map_or(0, |(_, time)| u64::from(*time))
}

/// Its type; the default `http` is not recorded.
pub(crate) fn transaction_type(transaction: &Transaction) -> &str {
    match transaction.transaction_type.as_str() {
        "" => "http",
        other => other,
    }
}

/// The path of its request target.
pub(crate) fn path(transaction: &Transaction) -> &str {
    transaction.target.split('?').next().unwrap_or_default()
}

/// Its names, in full, in the order of [`Name`].
pub(crate) fn names(transaction: &Transaction) -> [&str; NAMES] {
    [
        &transaction.api,
        &transaction.operation,
        transaction_type(transaction),
        &transaction.method,
        &transaction.consumer,
        &transaction.principal,
        &transaction.client,
        &transaction.upstream,
        &transaction.problem,
        &transaction.plan,
        &transaction.detail,
        &transaction.upstream_target,
        &transaction.configuration,
    ]
}

impl Row {
    pub(crate) fn of(transaction: &Transaction) -> Self {
        Self {
            id: u128::from_be_bytes(transaction.id),
            time: transaction.received_us,
            elapsed: elapsed(&transaction.stages),
            status: transaction.status,
            outcome: transaction.outcome,
            address: transaction.address,
            names: names(transaction).map(|name| cut(name).to_owned()),
        }
    }

    /// One of its names; empty if absent.
    #[must_use]
    pub fn name(&self, name: Name) -> &str {
        &self.names[name as usize]
    }

    /// `completed`, `failed` or `interrupted`.
    #[must_use]
    pub fn state(&self) -> &'static str {
        self.outcome.into()
    }

    pub(crate) fn number(&self, number: Number) -> u64 {
        match number {
            Number::Time => self.time,
            Number::Elapsed => self.elapsed,
            Number::Status => self.status.into(),
            Number::State => self.outcome as u64,
        }
    }
}
