//! Data folders that no server uses, opened by commands.

use crate::output;
use anyhow::{Context, ensure};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weir_config::{Config, IndexDepth};
use weir_journal::{Journal, RecoveryReport};
use weir_monitor::Monitor;
use weir_monitor::billing::Prices;
use weir_store::gaps::Gaps;
use weir_store::ledger::Ledger;
use weir_tracker::{Depth, Index, Settings, Tracker};

/// Time that a call may exceed its limit.
const CALL_TIME_MARGIN: Duration = Duration::from_secs(5);

/// Longer than the retention of any journal: a command deletes no files.
const UNLIMITED: Duration = Duration::from_secs(1000 * 365 * 24 * 60 * 60);

/// The error of commands that need a whole data folder.
const NOT_FOR_ARCHIVES: &str =
    "an archive has transactions only: `weir search` and `weir show` read it";

/// Opens the journal and recovers it.
///
/// # Errors
/// There is none, a server uses it, or it cannot be read.
pub(crate) fn journal(data: &Path) -> anyhow::Result<(Journal, RecoveryReport)> {
    let at = || format!("cannot open the journal in {}", data.display());
    ensure!(!is_archive(data), NOT_FOR_ARCHIVES);
    ensure!(data.join("journal").is_dir(), "{} has no journal", data.display());
    let settings = weir_journal::Settings {
        lanes: 0,
        disk_bytes: u64::MAX / 4,
        seal_after: UNLIMITED,
        keep_completed: UNLIMITED,
        keep_failed: UNLIMITED,
        ..weir_journal::Settings::default()
    };
    let (journal, _, recovery) = Journal::open(data, settings).map_err(hinted).with_context(at)?;
    recovery.damaged_files.iter().for_each(|message| output::note(message));
    Ok((journal, recovery))
}

fn hinted(error: weir_journal::Error) -> anyhow::Error {
    let held = matches!(error, weir_journal::Error::InUse { .. });
    let error = anyhow::Error::from(error);
    if held { error.context("in use by a running weir; query it with --admin URL") } else { error }
}

/// The settings of the index in a configuration; `None` if it has no index.
pub(crate) fn index_settings(config: &Config) -> Option<Settings> {
    let depth = match config.tracker.index {
        IndexDepth::None => return None,
        IndexDepth::Keys => Depth::Keys,
        IndexDepth::Payload => Depth::Payload,
    };
    Some(Settings { depth, keys: Arc::clone(&config.tracker.keys), ..Settings::default() })
}

/// The settings of usage metering in a configuration.
pub(crate) fn metering_settings(config: &Config, prices: &Prices) -> weir_monitor::Settings {
    let weir_config::Monitor { counts, keep, cardinality, .. } = config.monitor;
    let routes = config.apis.iter().flat_map(|api| &api.routes);
    // A call without a time limit may last forever, and no invoice waits for it.
    let longest = routes.filter_map(|route| route.timeout).max().unwrap_or_default();
    let max_call_time = longest.saturating_add(CALL_TIME_MARGIN);
    let price = prices.of_calls(config.prices());
    weir_monitor::Settings { counts, keep, cardinality, price, max_call_time }
}

/// Opens the Tracker: recovers the journal and completes the index, with the settings of the
/// configuration. Without one the index keeps its depth, and new parts are provisional, without
/// business keys.
///
/// # Errors
/// There is none, a server uses it, or it cannot be read.
pub(crate) fn tracker(data: &Path, config: Option<&Config>) -> anyhow::Result<Arc<Tracker>> {
    let (journal, recovery) = journal(data)?;
    let journal = Arc::new(journal);
    let settings = match config {
        Some(config) => index_settings(config),
        None => Some(Settings {
            depth: weir_tracker::stored_depth(data).unwrap_or_default(),
            // Business keys are defined by the configuration.
            provisional: true,
            ..Settings::default()
        }),
    };
    let ledger = weir_store::exists(data).then(|| Ledger::open(data)).transpose()?;
    let Some(settings) = settings else {
        return Ok(Tracker::new(journal, None, recovery, ledger, Gaps::new(data)));
    };
    let (index, mut indexer) = Index::open(data, Arc::clone(&journal), settings)
        .with_context(|| format!("cannot open the index in {}", data.display()))?;
    indexer.catch_up().context("cannot update the index")?;
    if ledger.is_some() {
        index.set_ledger(Ledger::open(data)?);
    }
    Ok(Tracker::new(journal, Some(index), recovery, ledger, Gaps::new(data)))
}

/// Whether `--data` is a URL of an archive.
pub(crate) fn is_archive(data: &Path) -> bool {
    data.to_str().is_some_and(|text| text.starts_with("s3:"))
}

/// Opens the metered usage; a server may use the folder.
///
/// # Errors
/// There is no metered usage.
pub(crate) fn monitor(data: &Path) -> anyhow::Result<Monitor> {
    ensure!(!is_archive(data), NOT_FOR_ARCHIVES);
    ensure!(weir_store::exists(data), "{} has no metering data", data.display());
    Ok(Monitor::read(data))
}
