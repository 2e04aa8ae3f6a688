//! `weir diff`: what a configuration would change.

mod side;

use super::server_args::ServerArgs;
use crate::exit::Exit;
use crate::source::parse_set;
use crate::{escape, findings, output};
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use side::Side;
use similar::TextDiff;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use weir_admin::configuration::{PolicyInfo, RouteInfo};
use weir_config::Source;

/// Arguments of `weir diff`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "weir diff [OPTIONS] [OLD] NEW",
    after_help = "\
Compares NEW with the configuration in force of the running weir, or with OLD. Shows changed lines with
redacted secrets, added, removed and changed routes, and the settings that need a restart. Nothing is
changed. Options of the running weir (`--set`, `--listen`, `--data`) apply to NEW as well. Relative paths in a configuration are relative to its folder: put NEW beside the old file.

Exit codes:
  0  no difference
  1  differences
  2  errors in a configuration

Examples:
  weir diff new.yaml
  weir diff weir.yaml new.yaml
  weir diff new.yaml --context production --json"
)]
pub(crate) struct Args {
    /// The new configuration (a file, or a folder with `weir.yaml`), preceded by the old one to
    /// compare with a file instead of the running weir
    #[arg(required = true, num_args = 1..=2, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Override one value of both configurations, as for `weir serve`; may be repeated
    #[arg(long, value_name = "PATH=VALUE", value_parser = parse_set)]
    set: Vec<(String, String)>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// The differences.
#[derive(Debug, Serialize)]
struct Differences {
    files: Vec<FileDifference>,
    routes: Vec<RouteDifference>,
    /// Settings that need a restart.
    restart: Vec<String>,
}

/// A changed file, as a unified diff.
#[derive(Debug, Serialize)]
struct FileDifference {
    path: String,
    diff: String,
}

/// A route that is added (without `old`), removed (without `new`) or changed.
#[derive(Debug, Serialize)]
struct RouteDifference {
    api: String,
    route: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<Vec<PolicyInfo>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new: Option<Vec<PolicyInfo>>,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let load = |path: &Path, running: Vec<(String, String)>| {
        let overrides = running.into_iter().chain(args.set.iter().cloned()).collect();
        let source = Source { path: path.to_owned(), overrides, ..Default::default() };
        findings::accepted(weir_gateway::configuration::load(&source))
    };
    let (old, new) = match &args.paths[..] {
        [old, new] => {
            let Some(old) = load(old, Vec::new()) else { return Ok(Exit::Findings) };
            (Side::of_file(&old), load(new, Vec::new()))
        }
        paths => {
            let old = Side::of_server(&args.server.client()?)?;
            let new = load(&paths[0], old.overrides().collect());
            (old, new)
        }
    };
    let Some(new) = new else { return Ok(Exit::Findings) };
    let differences = differences(&old, &Side::of_file(&new), |fixed| {
        new.config.needs_restart_from(fixed).into_iter().map(|finding| finding.message).collect()
    });
    let same = differences.files.is_empty() && differences.routes.is_empty();
    if args.json {
        output::json(&differences)?;
    } else if same {
        output::line("no difference");
    } else {
        output::text(&text(&differences, output::styled()));
    }
    Ok(if same { Exit::Success } else { Exit::Failure })
}

fn differences(
    old: &Side,
    new: &Side,
    restart: impl FnOnce(&BTreeMap<String, String>) -> Vec<String>,
) -> Differences {
    Differences { files: files(old, new), routes: routes(old, new), restart: restart(&old.fixed) }
}

fn files(old: &Side, new: &Side) -> Vec<FileDifference> {
    let names =
        old.files.keys().chain(new.files.keys().filter(|name| !old.files.contains_key(*name)));
    let difference = |name: &String| {
        let text = |side: &Side| side.files.get(name).map_or("", |file| &file.text).to_owned();
        let path = |side: &Side| match side.files.get(name) {
            Some(file) => file.path.clone(),
            None => "/dev/null".to_owned(),
        };
        let (before, after) = (text(old), text(new));
        let diff = TextDiff::from_lines(&before, &after);
        let from = format!("{}{}", path(old), old.note);
        let unified = diff.unified_diff().header(&from, &path(new)).to_string();
        let path = new.files.get(name).or_else(|| old.files.get(name))?.path.clone();
        (before != after).then_some(FileDifference { path, diff: unified })
    };
    names.filter_map(difference).collect()
}

fn routes(old: &Side, new: &Side) -> Vec<RouteDifference> {
    let (before, after) = (by_name(old), by_name(new));
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    let difference = |name: &(String, String)| {
        let policies = |routes: &BTreeMap<_, &RouteInfo>| -> Option<Vec<PolicyInfo>> {
            routes.get(name).map(|route| route.policies.clone())
        };
        let (old, new) = (policies(&before), policies(&after));
        let (api, route) = name.clone();
        (old != new).then_some(RouteDifference { api, route, old, new })
    };
    names.filter_map(difference).collect()
}

/// Routes by API, and by operation with methods and path.
fn by_name(side: &Side) -> BTreeMap<(String, String), &RouteInfo> {
    let named = side.apis.iter().flat_map(|api| {
        let hosts = api.hosts.join(",");
        api.routes.iter().map(move |route| {
            let methods = match &route.methods[..] {
                [] => "any".to_owned(),
                methods => methods.join(","),
            };
            let name = format!("{methods} {hosts}{} ({})", route.path, route.operation);
            ((api.api.clone(), name), route)
        })
    });
    named.collect()
}

/// Colours of lines by their first character.
fn style(line: &str) -> Style {
    let color = match line.as_bytes().first() {
        Some(b'+') => AnsiColor::Green,
        Some(b'-') => AnsiColor::Red,
        Some(b'@') => AnsiColor::Cyan,
        _ => return Style::new(),
    };
    Style::new().fg_color(Some(color.into()))
}

fn text(differences: &Differences, styled: bool) -> String {
    let mut plain = String::new();
    for file in &differences.files {
        plain.push_str(&file.diff);
    }
    for RouteDifference { api, route, old, new } in &differences.routes {
        let change = match (old, new) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "changed",
        };
        let _ = writeln!(plain, "route {change}: {api}: {route}");
        let policies = |side: &Option<Vec<PolicyInfo>>| side.clone().unwrap_or_default();
        let (old, new) = (policies(old), policies(new));
        for (sign, all, others) in [('-', &old, &new), ('+', &new, &old)] {
            for PolicyInfo { stage, words } in all.iter().filter(|one| !others.contains(one)) {
                let _ = writeln!(plain, "{sign}   {stage}: {words}");
            }
        }
    }
    for reason in &differences.restart {
        let _ = writeln!(plain, "{reason}");
    }
    colored(&escape::block(&plain), styled)
}

/// Lines of a diff with colours.
pub(super) fn colored(plain: &str, styled: bool) -> String {
    if !styled {
        return plain.to_owned();
    }
    plain.lines().fold(String::new(), |mut out, line| {
        let style = style(line);
        let _ = writeln!(out, "{style}{line}{style:#}");
        out
    })
}
