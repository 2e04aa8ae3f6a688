//! What is missing of a data folder's recordings and counts, as it is shown.

use weir_admin::gap::Missing;
use weir_store::gaps::{Gap, Gaps};

/// As the admin API and the commands show it.
pub(crate) fn shown(gap: Gap) -> Missing {
    let Gap { unrecorded, shortened, uncounted } = gap;
    Missing { unrecorded, shortened, uncounted }
}

/// As the admin API asks it. What cannot be read is not missing.
pub(crate) fn doors(gaps: Gaps) -> weir_admin::gap::Gaps {
    Box::new(move |from, to| gaps.between(from, to).map(shown).unwrap_or_default())
}
