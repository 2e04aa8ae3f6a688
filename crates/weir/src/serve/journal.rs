//! The journal of a running server.

use crate::tracker::{Opened, Tracker};
use anyhow::Context;
use weir_config::Config;
use weir_journal::{RecoveryReport, Settings};

/// Opens the journal, if transactions are recorded, and says what recovery found.
pub(super) fn open(config: &Config) -> anyhow::Result<Option<Opened>> {
    if !config.tracker.enabled {
        return Ok(None);
    }
    let lanes = u16::try_from(config.workers).context("too many workers for the journal")?;
    let settings = Settings { lanes, disk_bytes: config.journal.disk, ..Settings::default() };
    let opened = Tracker::open(&config.data, settings)?;
    tell(opened.tracker.recovery());
    Ok(Some(opened))
}

/// Says what was repaired; nothing if there was nothing.
fn tell(report: &RecoveryReport) {
    if report.interrupted > 0 {
        eprintln!("journal: {} transactions were interrupted", report.interrupted);
    }
    if report.left_open > 0 {
        eprintln!("journal: {} open transactions could not be closed", report.left_open);
    }
    for damage in &report.damage {
        eprintln!(
            "journal: {} bytes of lane {} are damaged, from byte {} of segment {}",
            damage.bytes,
            damage.lane,
            damage.position.offset(),
            damage.position.segment(),
        );
    }
}
