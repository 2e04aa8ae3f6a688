//! `weir routes`: the routes of a configuration.

use crate::exit::Exit;
use crate::source::SourceArgs;
use crate::table::table;
use crate::{findings, output};
use serde_json::{Value, json};
use weir_config::{Api, Config, Files, Handler, ReplyBody, Route};
use weir_gateway::configuration::Configuration;

/// Arguments of `weir routes`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:\n  0  listed\n  2  error in the configuration\n\n\
    Examples:\n  weir routes\n  weir routes examples/mware --json")]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Print a JSON array with one object per route
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let loaded = weir_gateway::configuration::load(&args.source.source());
    let Some(Configuration { config, findings: warnings, .. }) = findings::accepted(loaded) else {
        return Ok(Exit::Findings);
    };
    findings::print(&warnings);
    let listed = config.apis.iter().flat_map(|api| api.routes.iter().map(move |r| (api, r)));
    if args.json {
        let list: Vec<Value> = listed.map(|(api, route)| to_json(&config, api, route)).collect();
        output::line(&Value::Array(list).to_string());
    } else {
        let rows: Vec<_> = listed.map(|(api, route)| row(&config, api, route)).collect();
        output::text(&table(COLUMNS, &rows));
    }
    Ok(Exit::Success)
}

const COLUMNS: [&str; 6] = ["METHODS", "PATH", "HANDLER", "AUTH", "API", "WRITTEN AT"];

fn row(config: &Config, api: &Api, route: &Route) -> [String; COLUMNS.len()] {
    [
        if route.methods.is_empty() { "any".to_owned() } else { route.methods.join(",") },
        format!("{}{}", api.hosts.join(","), api.path_of(route)),
        handler(config, route),
        access(config, route),
        api.name.clone(),
        format!("{}:{}", route.location.file.display(), route.location.line),
    ]
}

fn to_json(config: &Config, api: &Api, route: &Route) -> Value {
    json!({
        "api": api.name,
        "operation": route.operation,
        "hosts": api.hosts,
        "methods": route.methods,
        "path": api.path_of(route),
        "handler": handler(config, route),
        "auth": access(config, route),
        "file": route.location.file.display().to_string(),
        "line": route.location.line,
    })
}

fn handler(config: &Config, route: &Route) -> String {
    let summary = route.handler.summary(config);
    match &route.handler {
        Handler::Reply(reply) => {
            let body = match &reply.body {
                ReplyBody::Empty => "empty",
                ReplyBody::Fixed(_) => "fixed",
                ReplyBody::Negotiated(_) => "negotiated",
                ReplyBody::Mapped(_) => "mapped",
            };
            format!("{summary} {body}")
        }
        Handler::Files(Files { root, file: Some(file), .. }) => {
            format!("files {}", root.join(file).display())
        }
        _ => summary,
    }
}

fn access(config: &Config, route: &Route) -> String {
    let mut ways: Vec<&str> =
        route.access.any_of.iter().map(|rule| config.auths[rule.auth.0].name.as_str()).collect();
    if route.access.anonymous || ways.is_empty() {
        ways.push("anonymous");
    }
    ways.join(" | ")
}
