//! `weir history`: the configurations that were in force, and what each changed.

use super::diff;
use super::server_args::ServerArgs;
use crate::admin_client::with_query;
use crate::{escape, output, table};
use std::fmt::Write as _;
use weir_admin::configuration::{
    ConfigurationHistory, FileChange, PastConfiguration, PastConfigurationDetails,
};

/// Arguments of `weir history`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without a number: the configurations that were in force, the last one first. With one: what it changed in the one
before, as values and as lines, with redacted secrets; requires the role operator. Transactions name the
configuration that handled them: `weir search 'configuration:DIGEST'`.

Examples:
  weir history
  weir history 12
  weir history 12 --against 9
  weir history 12 --text > weir.yaml.before")]
pub(crate) struct Args {
    /// The configuration to show
    #[arg(value_name = "NUMBER")]
    number: Option<i64>,
    /// Compare with this one instead of the one before
    #[arg(long, value_name = "NUMBER", requires = "number")]
    against: Option<i64>,
    /// Print its texts instead of what it changed
    #[arg(long, requires = "number", conflicts_with_all = ["against", "json"])]
    text: bool,
    /// Maximum number of configurations
    #[arg(long, value_name = "N", default_value_t = 50, conflicts_with = "number")]
    limit: usize,
    /// Name or id of the node of the fleet, or `here` for the one that is asked [default: all nodes;
    /// with a number: `here`]
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Print JSON: an object per line of the list, or one
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let client = args.server.client()?;
    let Some(number) = args.number else {
        let parameters = [("limit", Some(args.limit.to_string())), ("node", args.node.clone())];
        let found = client.get(&with_query("/v1/configuration/history", &parameters)?)?;
        return list(args, found);
    };
    let parameters =
        [("against", args.against.map(|other| other.to_string())), ("node", args.node.clone())];
    let path = format!("/v1/configuration/history/{number}");
    let details: PastConfigurationDetails = client.get(&with_query(&path, &parameters)?)?;
    if args.json {
        return output::json(&details);
    }
    let text = if args.text { texts(&details) } else { changes(&details) };
    output::text(&diff::colored(&escape::block(&text), output::styled()));
    Ok(())
}

fn list(args: &Args, found: ConfigurationHistory) -> anyhow::Result<()> {
    let ConfigurationHistory { configurations, more, nodes } = found;
    let header = ["NUMBER", "SINCE", "CONFIGURATION", "BY", "VERSION", "FINDINGS"];
    if nodes.is_none() {
        table::print(&configurations, args.json, header, row)?;
    } else {
        let [number, since, configuration, by, version, findings] = header;
        let header = [number, "NODE", since, configuration, by, version, findings];
        table::print(&configurations, args.json, header, |one| {
            let [number, since, configuration, by, version, findings] = row(one);
            [number, escape::line(&one.node), since, configuration, by, version, findings]
        })?;
    }
    for missing in nodes.iter().flat_map(|nodes| &nodes.missing) {
        let (name, reason) = (escape::line(&missing.name), escape::line(&missing.reason));
        output::note(&format!("no response of {name}: {reason}"));
    }
    if more {
        output::note("there are earlier ones: --limit");
    }
    Ok(())
}

fn row(one: &PastConfiguration) -> [String; 6] {
    let version = one.version.map(|version| version.to_string()).unwrap_or_default();
    [
        one.number.to_string(),
        one.time.to_string(),
        one.configuration.clone(),
        escape::line(&one.by),
        version,
        one.findings.to_string(),
    ]
}

/// The texts, one after the other; with their paths if there are several.
fn texts(details: &PastConfigurationDetails) -> String {
    let mut out = String::new();
    for file in &details.files {
        if details.files.len() > 1 {
            let _ = writeln!(out, "# {}", file.path);
        }
        out.push_str(file.text.as_deref().unwrap_or("# its text is not kept\n"));
    }
    out
}

fn changes(details: &PastConfigurationDetails) -> String {
    let PastConfiguration { number, configuration, time, by, .. } = &details.configuration;
    let mut out = format!("configuration {number} ({configuration}), since {time}, by {by}\n");
    for finding in &details.findings {
        let _ = writeln!(out, "warning: {}:{}: {}", finding.file, finding.line, finding.message);
    }
    match &details.compared {
        None => out.push_str("the first one of the history\n"),
        Some(other) => {
            let _ = writeln!(out, "compared with {} ({})", other.number, other.configuration);
        }
    }
    for FileChange { path, change, values, more, diff } in &details.changes {
        let _ = writeln!(out, "\n{change}: {path}");
        for value in values {
            let _ = match (&value.before, &value.after) {
                (Some(before), Some(after)) => {
                    writeln!(out, "  {}: {before} → {after}", value.path)
                }
                (None, after) => {
                    let after = after.as_deref().unwrap_or_default();
                    writeln!(out, "  {}: added {after}", value.path)
                }
                (_, None) => writeln!(out, "  {}: removed", value.path),
            };
        }
        if *more > 0 {
            let _ = writeln!(out, "  and {more} more");
        }
        out.push_str(diff);
    }
    out
}
