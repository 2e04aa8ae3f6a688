//! Gaps in figures and search results.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Transactions and calls of a period that could not be recorded or metered because the journal was
/// full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Missing {
    /// Requests without a recorded transaction. Their calls are metered, unless they are among
    /// `uncounted`.
    #[serde(default)]
    pub unrecorded: u64,
    /// Transactions recorded without all of their headers and bodies.
    #[serde(default)]
    pub shortened: u64,
    /// Calls that are not metered: usage, quotas and invoices are too low by this number.
    #[serde(default)]
    pub uncounted: u64,
}

impl Missing {
    /// Whether there is no gap.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A sentence about unrecorded transactions; `None` without any.
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
        Some(format!("{text}: the journal was full"))
    }

    /// A sentence about unmetered calls; `None` without any.
    #[must_use]
    pub fn of_counts(&self) -> Option<String> {
        let uncounted = self.uncounted;
        (uncounted > 0).then(|| format!("{uncounted} calls are not included: the journal was full"))
    }
}

/// The gaps from a second since 1970 until another one (exclusive).
pub type Gaps = Box<dyn Fn(u64, u64) -> Missing + Send + Sync>;
