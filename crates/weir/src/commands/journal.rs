//! `weir journal`: the journal itself.

use super::place::PlaceArgs;
use crate::exit::Exit;
use crate::table::table;
use crate::{output, tracker};
use anyhow::Context;
use serde_json::{Value, json};
use std::path::PathBuf;
use weir_admin::tracker::JournalState;
use weir_journal::Position;

/// Commands on the journal.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print what a journal holds, what its recovery found and who lags
    Inspect(Inspect),
    /// Read a whole journal and compare every checksum
    #[command(after_help = "Exit codes:\n  0  whole\n  1  damaged, or it cannot be read\n\n\
        Example:\n  weir journal verify --data /var/lib/weir")]
    Verify(Verify),
}

/// Arguments of `weir journal inspect`.
#[derive(Debug, clap::Args)]
pub(crate) struct Inspect {
    /// Most lines
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Arguments of `weir journal verify`.
#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    /// The data folder, which no weir may be using
    #[arg(long, value_name = "DIR", default_value = "data")]
    data: PathBuf,
    /// Most lines
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Inspect(args) => inspect(args),
        Command::Verify(args) => verify(args),
    }
}

fn inspect(args: &Inspect) -> anyhow::Result<Exit> {
    let state: JournalState = match args.place.data() {
        Some(data) => tracker::Tracker::read(data)?.state()?,
        None => args.place.server()?.get("/v1/journal")?,
    };
    let Value::Object(mut whole) = serde_json::to_value(&state)? else {
        anyhow::bail!("the state of the journal is no object");
    };
    let recovery = whole.remove("recovery").unwrap_or_default();
    whole.remove("followers");
    whole.insert("id".to_owned(), json!("journal"));
    let mut lines = vec![Value::Object(whole)];
    let mut add = |id: String, mut line: Value| {
        line["id"] = Value::String(id);
        lines.push(line);
    };
    let mut found = recovery;
    found.as_object_mut().map(|members| members.remove("damage"));
    add("recovery".to_owned(), found);
    for lag in &state.followers {
        add(format!("follower/{}", lag.name), serde_json::to_value(lag)?);
    }
    for damage in &state.recovery.damage {
        let id = format!("damage/{}/{}/{}", damage.lane, damage.segment, damage.offset);
        add(id, serde_json::to_value(damage)?);
    }
    print(&lines, args.limit, args.json);
    Ok(Exit::Success)
}

fn verify(args: &Verify) -> anyhow::Result<Exit> {
    let (journal, recovery) = tracker::journal(&args.data)?;
    let mut lines = Vec::new();
    let mut whole = recovery.damage.is_empty();
    for lane in 0..journal.lanes() {
        let (mut transactions, mut damaged, mut expired) = (0_u64, 0_u64, 0_u64);
        let mut reader = journal.reader(lane, Position::START);
        let at = || format!("lane {lane}");
        while let Some(transaction) = reader.next_transaction().with_context(at)? {
            transactions += 1;
            damaged += u64::from(transaction.damaged);
            expired += u64::from(transaction.expired);
        }
        whole &= damaged == 0;
        lines.push(json!({
            "id": format!("lane/{lane}"),
            "transactions": transactions,
            "damaged": damaged,
            "expired": expired,
        }));
    }
    for damage in &recovery.damage {
        let (segment, offset) = (damage.position.segment(), damage.position.offset());
        let id = format!("damage/{}/{segment}/{offset}", damage.lane);
        lines.push(json!({"id": id, "bytes": damage.bytes}));
    }
    print(&lines, args.limit, args.json);
    Ok(if whole { Exit::Success } else { Exit::Failure })
}

/// One line for each object, or one for each of its members in a table.
fn print(lines: &[Value], limit: Option<usize>, json: bool) {
    let lines = lines.iter().take(limit.unwrap_or(usize::MAX));
    if json {
        return lines.for_each(|line| output::line(&line.to_string()));
    }
    let mut rows = Vec::new();
    for line in lines {
        let id = line["id"].as_str().unwrap_or_default();
        for (name, value) in line.as_object().into_iter().flatten() {
            if name != "id" {
                rows.push([id.to_owned(), name.clone(), crate::neutral::line(&value.to_string())]);
            }
        }
    }
    output::text(&table(["OF", "WHAT", "VALUE"], &rows));
}
