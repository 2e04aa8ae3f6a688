//! What is missing from figures and search results.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What could not be recorded or counted in a time, for want of room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Missing {
    /// Requests without a recorded transaction. Their calls are counted, unless they are among
    /// `uncounted`.
    #[serde(default)]
    pub unrecorded: u64,
    /// Transactions recorded without all of their headers and bodies.
    #[serde(default)]
    pub shortened: u64,
    /// Calls that are not counted: usage, quotas and invoices are too low by them.
    #[serde(default)]
    pub uncounted: u64,
}

impl Missing {
    /// Whether nothing is missing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// In words: what is missing of recorded transactions; none if nothing is.
    #[must_use]
    pub fn of_records(&self) -> Option<String> {
        let Self { unrecorded, shortened, .. } = *self;
        let text = match (unrecorded, shortened) {
            (0, 0) => return None,
            (0, _) => format!("{shortened} transactions without all of their headers and bodies"),
            (_, 0) => format!("{unrecorded} requests were not recorded"),
            _ => format!(
                "{unrecorded} requests were not recorded, {shortened} without all of their headers \
                 and bodies"
            ),
        };
        Some(format!("{text}: the journal had no room"))
    }

    /// In words: what is missing of counts; none if nothing is.
    #[must_use]
    pub fn of_counts(&self) -> Option<String> {
        let uncounted = self.uncounted;
        (uncounted > 0)
            .then(|| format!("{uncounted} calls are not in it: the journal had no room for them"))
    }
}

/// What is missing of the time from a second since 1970 until before another one.
pub type Gaps = Box<dyn Fn(u64, u64) -> Missing + Send + Sync>;
