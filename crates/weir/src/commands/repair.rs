//! `weir repair`: moves damaged files of a data folder aside, so that weir can start, and accepts
//! missing files of the journal.

use crate::{data_folder, output};
use anyhow::{Context, ensure};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use weir_model::UnixMicros;
use weir_store::audit::{AuditEvent, AuditLog};
use weir_store::clock::now_us;

/// Arguments of `weir repair`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Checks weir.db, hash.key and the checkpoints of the journal's followers. Damaged files are moved \
aside
under a name with the time, never deleted, and created anew: the next start rebuilds the metering from
the journal, and the index as far as necessary. Intact files are not changed.

Lost with weir.db: audit log, attempts and resolutions of resubmission, jobs, queued events, price
lists, and metering older than the journal. Lost with hash.key: hashes of bodies recorded before cannot
be compared with later ones.

With --accept-missing, missing files of the journal are listed and accepted, and the audit log has an
entry. `weir journal verify` and weir_journal_missing_files then ignore these files; their transactions
stay `missing`.

Examples:
  weir repair --data /var/lib/weir
  weir repair --data /var/lib/weir --accept-missing")]
pub(crate) struct Args {
    /// Data folder; no weir may be using it
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Accept missing files of the journal as lost
    #[arg(long)]
    accept_missing: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let data = &args.data;
    ensure!(data.is_dir(), "data folder {} does not exist", data.display());
    let lock = weir_journal::DataLock::acquire(data)
        .with_context(|| format!("{} cannot be repaired now", data.display()))?;
    ensure!(
        !weir_store::is_in_use(data).unwrap_or(false),
        "{} cannot be repaired now: another process has weir.db open",
        data.display()
    );
    let suffix = format!("damaged-{}", jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ"));
    let repaired =
        [database(data, &suffix)?, hash_key(data, &suffix)?, checkpoints(data, &suffix)?];
    if !repaired.contains(&true) {
        output::line("nothing is damaged");
    }
    if args.accept_missing {
        // Opening the journal locks the folder.
        drop(lock);
        accept_missing(data)?;
    }
    Ok(())
}

/// Accepts the loss of files. The audit event is written before.
fn accept_missing(data: &Path) -> anyhow::Result<()> {
    let (journal, recovery) = data_folder::journal(data)?;
    let missing: Vec<_> = recovery.missing.iter().filter(|file| !file.accepted).collect();
    if missing.is_empty() {
        output::line("no journal files are missing");
        return Ok(());
    }
    let transactions: u64 = missing.iter().map(|file| file.transactions).sum();
    let files: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let subject = format!("{} files, {transactions} transactions", files.len());
    audit_acceptance(data, &subject, &files)
        .context("the audit log cannot be written; nothing is accepted")?;
    journal.accept_missing().context("the acceptance cannot be recorded")?;
    output::line(&format!("missing journal files accepted: {subject}"));
    files.iter().for_each(|file| output::line(&format!("  {file}")));
    output::line("their transactions stay `missing`; `weir journal verify` ignores the files");
    Ok(())
}

/// Maximum number of files in the audit event.
const MAX_AUDITED_FILES: usize = 100;

/// Writes the audit event of an acceptance.
fn audit_acceptance(data: &Path, subject: &str, files: &[String]) -> anyhow::Result<()> {
    let files = &files[..files.len().min(MAX_AUDITED_FILES)];
    let event = AuditEvent {
        time: UnixMicros(now_us()),
        name: "weir repair".to_owned(),
        action: "accept-missing".to_owned(),
        about: "journal".to_owned(),
        subject: subject.to_owned(),
        details: serde_json::json!({"files": files}).to_string(),
        ..AuditEvent::default()
    };
    Ok(AuditLog::open(data)?.record(&event)?)
}

/// Returns whether the database was damaged.
fn database(data: &Path, suffix: &str) -> anyhow::Result<bool> {
    let found = weir_store::damage(data).context("weir.db cannot be read")?;
    let Some(damage) = found else { return Ok(false) };
    let to = weir_store::move_aside(data, suffix).context("weir.db cannot be moved")?;
    weir_store::open(data).context("a new weir.db cannot be created")?;
    output::line(&format!("weir.db was damaged ({damage}); moved to {}", to.display()));
    output::line("  the next start rebuilds the metering from the journal");
    output::line("  audit log, attempts, resolutions, jobs and queued events start empty");
    Ok(true)
}

/// Returns whether the key was damaged.
fn hash_key(data: &Path, suffix: &str) -> anyhow::Result<bool> {
    if weir_record::capture::hash_key_is_whole(data).context("hash.key cannot be read")? {
        return Ok(false);
    }
    let to = aside(&data.join("hash.key"), suffix).context("hash.key cannot be moved")?;
    output::line(&format!("hash.key was damaged; moved to {}", to.display()));
    output::line(
        "  the next start creates a new key: hashes of bodies before and after cannot be compared",
    );
    Ok(true)
}

/// Returns whether a checkpoint was damaged.
fn checkpoints(data: &Path, suffix: &str) -> anyhow::Result<bool> {
    let damaged = weir_journal::damaged_checkpoints(data).context("checkpoints cannot be read")?;
    for path in &damaged {
        let to = aside(path, suffix).context("a checkpoint cannot be moved")?;
        output::line(&format!("{} was damaged; moved to {}", path.display(), to.display()));
        output::line("  the follower resumes at the position in its own files");
    }
    Ok(!damaged.is_empty())
}

fn aside(path: &Path, suffix: &str) -> io::Result<PathBuf> {
    let to = path.with_added_extension(suffix);
    fs::rename(path, &to)?;
    Ok(to)
}
