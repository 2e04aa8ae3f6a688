//! The journal of a running server.

use super::handover::predecessor::Folder;
use anyhow::Context;
use std::sync::Arc;
use weir_config::Config;
use weir_journal::{Durability, Journal, Lane, MissingFile, RecoveryReport, Settings};

/// Largest number of missing files in the start message.
const MAX_REPORTED_FILES: usize = 20;

/// An open journal; it must outlive all writers of its lanes.
pub(super) struct Opened {
    pub(super) journal: Option<Arc<Journal>>,
    pub(super) lanes: Vec<Lane>,
    pub(super) recovery: RecoveryReport,
}

/// Opens the journal, if transactions are recorded or metered, and reports its recovery. `folder` is
/// what a predecessor has handed over.
pub(super) fn open(config: &Config, folder: Option<&mut Folder>) -> anyhow::Result<Opened> {
    if !config.tracker.enabled && !config.counts_calls() {
        let recovery = RecoveryReport::default();
        return Ok(Opened { journal: None, lanes: Vec::new(), recovery });
    }
    let lanes = u16::try_from(config.workers).context("too many workers for the journal")?;
    let settings = Settings {
        lanes,
        disk_bytes: config.journal.disk,
        durability: match config.journal.durability {
            weir_config::Durability::Process => Durability::Process,
            weir_config::Durability::Disk => Durability::Disk,
        },
        keep_completed: config.tracker.keep_completed,
        keep_failed: config.tracker.keep_failed,
        ..Settings::default()
    };
    let handed_over =
        folder.and_then(|folder| Some((folder.lock.take()?, folder.progress.lanes())));
    let opened = match handed_over {
        Some((lock, held)) => Journal::take_over(&config.data, settings, lock, &held),
        None => Journal::open(&config.data, settings),
    };
    let (journal, lanes, recovery) =
        opened.with_context(|| format!("cannot open the journal in {}", config.data.display()))?;
    report_recovery(&recovery);
    Ok(Opened { journal: Some(Arc::new(journal)), lanes, recovery })
}

/// Reports deleted files.
fn report_missing(missing: &[MissingFile]) {
    for accepted in [false, true] {
        let of_kind: Vec<_> = missing.iter().filter(|file| file.accepted == accepted).collect();
        if of_kind.is_empty() {
            continue;
        }
        let transactions: u64 = of_kind.iter().map(|file| file.transactions).sum();
        let how = if accepted { " (accepted)" } else { "" };
        eprintln!(
            "journal: {} files are missing{how}: {transactions} transactions; not deleted by retention",
            of_kind.len(),
        );
    }
    for file in missing.iter().filter(|file| file.new).take(MAX_REPORTED_FILES) {
        eprintln!("journal: missing: {file}");
    }
}

/// Reports repairs, if any.
fn report_recovery(report: &RecoveryReport) {
    if report.interrupted > 0 {
        eprintln!("journal: {} transactions were interrupted", report.interrupted);
    }
    if report.left_open > 0 {
        eprintln!("journal: {} open transactions could not be closed", report.left_open);
    }
    if !report.missing.is_empty() {
        report_missing(&report.missing);
    }
    report.damaged_files.iter().for_each(|message| eprintln!("journal: {message}"));
    for damage in &report.damage {
        eprintln!(
            "journal: {} bytes of lane {} are damaged, from byte {} of segment {}",
            damage.bytes, damage.lane, damage.offset, damage.segment,
        );
    }
}
