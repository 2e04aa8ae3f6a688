//! `weir journal`: inspects the journal.

use super::data_source::DataSourceArgs;
use crate::exit::Exit;
use crate::table::table;
use crate::{data_folder, escape, output};
use anyhow::Context;
use http::Method;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::sync::Arc;
use weir_model::duration_in_words;
use weir_tracker::{JournalState, Verification, Verified};

/// Commands on the journal.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print contents, recovery findings and lagging followers
    Inspect(Args),
    /// Read the entire journal and verify every checksum
    #[command(
        after_help = "Without --admin, WEIR_ADMIN and a context, the data folder is read; no weir may be using it.\n\n\
        Exit codes:\n  0  complete, or missing files were accepted by weir repair \
        --accept-missing\n  \
        1  damaged, incomplete or unreadable\n\n\
        Examples:\n  weir journal verify --data /var/lib/weir\n  \
        weir journal verify --admin http://127.0.0.1:9080"
    )]
    Verify(Args),
}

/// Arguments of both commands.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Maximum number of lines
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: DataSourceArgs,
}

/// Runs it.
pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Inspect(args) => inspect(args),
        Command::Verify(args) => verify(args),
    }
}

fn inspect(args: &Args) -> anyhow::Result<Exit> {
    let state: JournalState = match &args.source.data {
        Some(data) => args.source.read(data)?.journal_state()?,
        None => args.source.server.client()?.get("/v1/journal")?,
    };
    let Value::Object(mut summary) = serde_json::to_value(&state)? else {
        anyhow::bail!("the journal state is not an object");
    };
    let recovery = summary.remove("recovery").unwrap_or_default();
    summary.remove("followers");
    summary.insert("id".to_owned(), json!("journal"));
    let mut lines = vec![Value::Object(summary)];
    let mut add = |id: String, mut line: Value| {
        line["id"] = Value::String(id);
        lines.push(line);
    };
    let mut found = recovery;
    for list in ["damage", "missing", "damaged_checkpoints"] {
        found.as_object_mut().map(|members| members.remove(list));
    }
    add("recovery".to_owned(), found);
    for lag in &state.followers {
        add(format!("follower/{}", lag.name), serde_json::to_value(lag)?);
    }
    for damage in &state.recovery.damage {
        let id = format!("damage/{}/{}/{}", damage.lane, damage.segment, damage.offset);
        add(id, serde_json::to_value(damage)?);
    }
    for file in &state.recovery.missing {
        let id = format!("missing/{}/{}/{}", file.lane, file.segment, file.kind);
        add(id, serde_json::to_value(file)?);
    }
    for follower in &state.recovery.damaged_checkpoints {
        add(format!("damaged-checkpoint/{follower}"), json!({"follower": follower}));
    }
    print(&lines, args.limit, args.json);
    Ok(Exit::Success)
}

fn verify(args: &Args) -> anyhow::Result<Exit> {
    let is_remote = args.source.data.is_none() && args.source.server.is_selected()?;
    let found = if is_remote { request(&args.source)? } else { read(&args.source)? };
    let end = found.last().filter(|last| last.end).context("the response ended early")?;
    let is_intact = end.damaged == 0 && end.damaged_bytes == 0 && end.missing_files == 0;
    let lines: Vec<Value> = found.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
    print(&lines, args.limit, args.json);
    Ok(if is_intact { Exit::Success } else { Exit::Failure })
}

/// The verification of a running server.
fn request(source: &DataSourceArgs) -> anyhow::Result<Vec<Verified>> {
    let mut found = Vec::new();
    source.server.client()?.lines(Method::GET, "/v1/journal/verify", |line| {
        found.push(serde_json::from_str(line).context("unexpected response")?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// The verification of a data folder.
fn read(source: &DataSourceArgs) -> anyhow::Result<Vec<Verified>> {
    let data = match &source.data {
        Some(data) => data.clone(),
        None => source.server.load()?.data,
    };
    let (journal, recovery) = data_folder::journal(&data)?;
    let mut verification = Verification::new(Arc::new(journal), &recovery);
    let mut found = Vec::new();
    while let Some(some) = verification.step()? {
        found.extend(some);
    }
    Ok(found)
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
                rows.push([id.to_owned(), name.clone(), escape::line(&readable(name, value))]);
            }
        }
    }
    output::text(&table(["OF", "WHAT", "VALUE"], &rows));
}

/// A value of a table: texts without quotes, long durations in words.
fn readable(name: &str, value: &Value) -> String {
    match (value.as_str(), value.as_f64()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(seconds)) if name.ends_with("_seconds") && seconds >= 60.0 => {
            duration_in_words(seconds as u64)
        }
        _ => value.to_string(),
    }
}
