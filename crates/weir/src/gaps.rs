//! Gaps in the recordings and usage of a data folder.

use weir_admin::gap::Missing;
use weir_store::gaps::{Gap, Gaps};

/// In the form of the admin API and the commands.
pub(crate) fn shown(gap: Gap) -> Missing {
    let Gap { unrecorded, shortened, uncounted } = gap;
    Missing { unrecorded, shortened, uncounted }
}

/// Access for the admin API. Unreadable gaps are left out.
pub(crate) fn doors(gaps: Gaps) -> weir_admin::gap::Gaps {
    Box::new(move |from, to| gaps.between(from, to).map(shown).unwrap_or_default())
}
