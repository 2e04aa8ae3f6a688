//! `weir resolve`: sets the resolution of failed transactions.

use super::server_args::ServerArgs;
use super::transactions::IdPrefix;
use crate::exit::Exit;
use crate::output;
use serde_json::json;

/// Arguments of `weir resolve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir resolve 019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55 --as resolved --comment 'booked by hand'
  weir resolve 019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55 --as dismissed")]
pub(crate) struct Args {
    /// Transaction ids, or their first digits
    #[arg(required = true)]
    ids: Vec<IdPrefix>,
    /// Resolution
    #[arg(long = "as", value_name = "RESOLUTION", value_parser = ["resolved", "dismissed", "open"])]
    state: String,
    /// Reason
    #[arg(long, value_name = "TEXT", default_value = "")]
    comment: String,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let client = args.server.client()?;
    // All are known before the first is changed.
    let ids: Vec<_> = args.ids.iter().map(|id| id.find_on(&client)).collect::<Result<_, _>>()?;
    let resolution = json!({"state": args.state, "comment": args.comment});
    let mut all = true;
    for id in &ids {
        match client.post_only(&format!("/v1/transactions/{id}/resolution"), &resolution) {
            Ok(()) if args.json => {
                output::line(&json!({"id": id.to_string(), "resolution": args.state}).to_string());
            }
            Ok(()) => output::line(&format!("{id} {}", args.state)),
            Err(error) => {
                all = false;
                output::error(&format!("{id}: {}", output::with_causes(&error)));
            }
        }
    }
    Ok(if all { Exit::Success } else { Exit::Failure })
}
