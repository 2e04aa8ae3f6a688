//! `weir monitor`: rebuilds metered usage.

use super::data_source::DataSourceArgs;
use crate::{data_folder, output};
use anyhow::Context;
use http::Method;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use weir_monitor::billing::Prices;
use weir_monitor::{Monitor, RebuildReport};

/// Commands on metering.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Rebuild the metering from the journal, and print the rebuilt interval
    #[command(after_help = "\
Metering older than the journal is not changed. The current metering rules apply; with --data, \
those of
--config. No weir may be using the data folder.

Examples:
  weir monitor rebuild
  weir monitor rebuild --data /var/lib/weir --config /etc/weir")]
    Rebuild(Args),
}

/// Arguments of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: DataSourceArgs,
}

/// Runs it.
pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    let Command::Rebuild(args) = command;
    let rebuilt = match &args.source.data {
        Some(data) => read(&args.source, data)?,
        None => request(&args.source)?,
    };
    if let Some(failed) = &rebuilt.failed {
        anyhow::bail!("nothing was changed: {failed}");
    }
    if args.json {
        output::line(&serde_json::to_string(&rebuilt)?);
    } else {
        let RebuildReport { from, to, read, before, after, .. } = rebuilt;
        output::line(&format!(
            "rebuilt: {from} to {to}, {read} transactions read; calls before {before}, now {after}"
        ));
    }
    Ok(())
}

fn request(source: &DataSourceArgs) -> anyhow::Result<RebuildReport> {
    let mut found = None;
    source.server.client()?.lines(Method::POST, "/v1/monitor/rebuild", |line| {
        found = serde_json::from_str(line).context("unexpected response")?;
        Ok(ControlFlow::Break(()))
    })?;
    found.context("the rebuild was aborted, or waits for other requests")
}

fn read(source: &DataSourceArgs, data: &Path) -> anyhow::Result<RebuildReport> {
    let config = source.config_of(data).context("the configuration is required: --config")?;
    let (journal, _) = data_folder::journal(data)?;
    // With prices, as a server meters.
    let settings = data_folder::metering_settings(&config, &Prices::default());
    let (_, mut counter) = Monitor::open(data, Arc::new(journal), settings)?;
    Ok(counter.rebuild().into())
}
