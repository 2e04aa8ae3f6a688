//! `weir repair`: puts damaged files of a data folder aside, so that weir starts again, and accepts
//! that files of the journal are missing.

use crate::exit::Exit;
use crate::{audit, output, tracker};
use anyhow::{Context, ensure};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Arguments of `weir repair`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Looks at weir.db, hash.key and the checkpoints of those who follow the journal. What is damaged is
moved aside under a name with the time, never removed, and made anew: the next start counts again all
calls that the journal has, and indexes what it has to. Nothing is done to files that are whole.

Without weir.db these are lost: audit, attempts and resolutions of resubmission, jobs, events that
wait to be posted, price lists, and counts of what the journal has no more. Without hash.key, bodies
recorded before cannot be compared by their hashes with bodies recorded later.

With --accept-missing the files of the journal that are missing are listed and accepted, which `weir audit`
shows. `weir journal verify` and weir_journal_missing_files pass over them then; their transactions
stay `missing`.

Examples:
  weir repair --data /var/lib/weir
  weir repair --data /var/lib/weir --accept-missing")]
pub(crate) struct Args {
    /// The data folder, which no weir may be using
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Accept that files of the journal are missing for good
    #[arg(long)]
    accept_missing: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let data = &args.data;
    ensure!(data.is_dir(), "there is no data folder {}", data.display());
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
        // The journal is opened, which takes the folder itself.
        drop(lock);
        accept_missing(data)?;
    }
    Ok(Exit::Success)
}

/// Accepts the loss of files. The audit knows of it before it is done.
fn accept_missing(data: &Path) -> anyhow::Result<()> {
    let (journal, recovery) = tracker::journal(data)?;
    let missing: Vec<_> = recovery.missing.iter().filter(|file| !file.accepted).collect();
    if missing.is_empty() {
        output::line("no file of the journal is missing");
        return Ok(());
    }
    let transactions: u64 = missing.iter().map(|file| file.transactions).sum();
    let files: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let what = format!("{} files, {transactions} transactions", files.len());
    audit::note_repair(data, "accept-missing", &what, &files)
        .context("the audit cannot be written; nothing is accepted")?;
    journal.accept_missing().context("the loss cannot be written down as accepted")?;
    output::line(&format!("missing files of the journal, accepted: {what}"));
    files.iter().for_each(|file| output::line(&format!("  {file}")));
    output::line("their transactions stay `missing`; `weir journal verify` passes over the files");
    Ok(())
}

/// Whether the database was damaged.
fn database(data: &Path, suffix: &str) -> anyhow::Result<bool> {
    let found = weir_store::damage(data).context("weir.db cannot be read")?;
    let Some(what) = found else { return Ok(false) };
    let to = weir_store::move_aside(data, suffix).context("weir.db cannot be moved")?;
    weir_store::open(data).context("a new weir.db cannot be made")?;
    output::line(&format!("weir.db was damaged ({what}); it is {} now", to.display()));
    output::line("  the next start counts again all calls that the journal has");
    output::line("  audit, attempts, resolutions, jobs and events that waited begin anew");
    Ok(true)
}

/// Whether the key was none.
fn hash_key(data: &Path, suffix: &str) -> anyhow::Result<bool> {
    if weir_gateway::hash_key_is_whole(data).context("hash.key cannot be read")? {
        return Ok(false);
    }
    let to = aside(&data.join("hash.key"), suffix).context("hash.key cannot be moved")?;
    output::line(&format!("hash.key was damaged; it is {} now", to.display()));
    output::line(
        "  the next start makes another one: hashes of bodies before and after do not compare",
    );
    Ok(true)
}

/// Whether a checkpoint was damaged.
fn checkpoints(data: &Path, suffix: &str) -> anyhow::Result<bool> {
    let damaged = weir_journal::damaged_checkpoints(data).context("checkpoints cannot be read")?;
    for path in &damaged {
        let to = aside(path, suffix).context("a checkpoint cannot be moved")?;
        output::line(&format!("{} was damaged; it is {} now", path.display(), to.display()));
        output::line("  whoever follows the journal by it goes on where its own files say");
    }
    Ok(!damaged.is_empty())
}

fn aside(path: &Path, suffix: &str) -> io::Result<PathBuf> {
    let to = path.with_added_extension(suffix);
    fs::rename(path, &to)?;
    Ok(to)
}
