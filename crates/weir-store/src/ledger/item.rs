//! States of the transactions of a job, and what is stored as text.

use super::Again;
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use strum::{AsRefStr, Display, EnumString};
use utoipa::ToSchema;
use weir_model::RejectionReason;

/// Most retries of a job that are listed with it, the last ones.
pub const MAX_RETRIES: usize = 100;

/// State of a transaction of a job.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    ToSchema,
    AsRefStr,
    Display,
    EnumString,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ItemState {
    /// It is to be sent.
    Pending,
    /// The preview found that it cannot be sent.
    Cannot,
    /// It is about to be sent, or was sent and has no response yet.
    Sending,
    /// The response has a status that means success.
    Succeeded,
    /// The response has another status, or was aborted.
    Failed,
    /// It was rejected when it was to be sent.
    Refused,
    /// It is not known whether it was sent.
    Unknown,
    /// The job was cancelled before.
    Cancelled,
}

impl ItemState {
    /// Whether a job has an attempt at a transaction in this state.
    #[must_use]
    pub fn is_attempted(self) -> bool {
        !matches!(self, Self::Pending | Self::Cannot | Self::Cancelled)
    }

    /// Whether a job that has stopped can be retried for transactions in this state.
    #[must_use]
    pub fn can_retry(self) -> bool {
        !matches!(self, Self::Pending | Self::Sending | Self::Succeeded)
    }
}

/// The description of a reason with this code.
#[must_use]
pub fn reason_words(code: &str) -> String {
    RejectionReason::from_code(code).map(|reason| reason.words()).unwrap_or_default()
}

/// States as they are stored.
#[must_use]
pub fn states_text(states: &[ItemState]) -> String {
    let mut names: Vec<&str> = states.iter().map(AsRef::as_ref).collect();
    names.sort_unstable();
    names.dedup();
    names.join(",")
}

/// The states of a stored text.
#[must_use]
pub fn read_states(text: &str) -> Vec<ItemState> {
    text.split(',').filter_map(|name| name.parse().ok()).collect()
}

/// What the retry of a job with transactions in these states sends again.
pub(super) fn retried(again: bool, states: &[ItemState]) -> Again {
    match again {
        true => Again::All,
        false if states.contains(&ItemState::Unknown) => Again::Unknown,
        false => Again::No,
    }
}

/// The numbers of the last jobs that retry a job, the first one first.
pub(super) fn retries(db: &Connection, job: i64) -> rusqlite::Result<Vec<i64>> {
    let mut select = db
        .prepare_cached("SELECT number FROM job WHERE retry_of = ? ORDER BY number DESC LIMIT ?")?;
    let rows = select.query_map(params![job, MAX_RETRIES as i64], |row| row.get(0))?;
    let mut numbers: Vec<i64> = rows.collect::<rusqlite::Result<_>>()?;
    numbers.reverse();
    Ok(numbers)
}
