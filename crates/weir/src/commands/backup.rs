//! `weir backup` and `weir restore`.

use super::control::ControlArgs;
use crate::backup::{Backup, Manifest, restore};
use crate::exit::Exit;
use crate::output;
use crate::serve::control_socket::{Command, Response};
use anyhow::Context;
use std::path::PathBuf;
use weir_journal::DataLock;

/// Arguments of `weir backup`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Copies journal, index, database, tokens, keys and the files of the configuration, while weir serves or with a
data folder that no weir uses. FOLDER must not exist or be empty; it appears when the backup is complete. A
running weir writes it, with the rights of its user. The backup has recorded payloads and keys: protect it as the
data folder itself.

Exit codes:
  0  the backup is complete
  1  it failed; nothing is left

Examples:
  weir backup /backup/weir-monday
  weir backup /backup/weir-monday --config /etc/weir/weir.yaml
  weir backup /backup/weir-monday --data /var/lib/weir --json")]
pub(crate) struct Args {
    /// The new folder of the backup
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    #[command(flatten)]
    control: ControlArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `weir restore`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Verifies every file of a backup and copies the data folder. DIR must not exist or be empty; it appears when every
file is verified. Then check it (`weir journal verify --data DIR`), change its owner to weir's user, and start weir.
The files of the configuration are in FOLDER/configuration.

Exit codes:
  0  restored
  1  the backup is incomplete or damaged, or DIR is not empty; nothing is left

Examples:
  weir restore /backup/weir-monday --data /var/lib/weir")]
pub(crate) struct RestoreArgs {
    /// The folder of the backup
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// The new data folder
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
}

/// Runs `weir backup`.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let folder = std::path::absolute(&args.folder).context("FOLDER")?;
    let response = match args.control.connect()? {
        Some(connection) => connection.send(&Command::Backup { folder })?,
        None => {
            let (data, sources) = args.control.folder_and_sources()?;
            anyhow::ensure!(data.is_dir(), "data folder {} does not exist", data.display());
            let _lock = DataLock::acquire(&data)
                .with_context(|| format!("{} cannot be copied now", data.display()))?;
            let backup = Backup { data: &data, journal: None, configuration: &sources };
            Response::backed_up(&backup.write(&folder)?)
        }
    };
    if args.json {
        output::json(&response)?;
    }
    match response {
        Response::Failed { reason } => {
            output::error(&format!("the backup failed: {reason}"));
            Ok(Exit::Failure)
        }
        Response::BackedUp { files, bytes } if !args.json => {
            let folder = args.folder.display();
            output::line(&format!("backed up {files} files, {bytes} bytes, to {folder}"));
            Ok(Exit::Success)
        }
        _ => Ok(Exit::Success),
    }
}

/// Runs `weir restore`.
pub(crate) fn run_restore(args: &RestoreArgs) -> anyhow::Result<Exit> {
    let manifest: Manifest = restore::restore(&args.folder, &args.data)?;
    let (files, bytes) = manifest.size();
    let (data, time) = (args.data.display(), &manifest.time);
    output::line(&format!("restored {files} files, {bytes} bytes, of {time} to {data}"));
    Ok(Exit::Success)
}
