//! `weir explain`: explains how a request would be processed.

use super::server_args::ServerArgs;
use crate::exit::Exit;
use crate::table::table;
use crate::{escape, findings, output};
use anyhow::{Context as _, anyhow, ensure};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use weir_admin::explain::Explain;
use weir_config::Source;
use weir_gateway::explain;
use weir_gateway::explanation::{Explanation, Kind, Outcome, Pair, Sent};

/// Arguments of `weir explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nothing is sent, counted, recorded or logged. Without --running, the configuration is read from \
CONFIG
and every limit is unused. With --running, the configuration and limits of a running weir apply.

curl options that describe the request are supported; other options are errors.

Exit codes:
  0  explained, whatever the result
  1  failure
  2  error in the configuration

Examples:
  weir explain GET /orders/7
  weir explain POST http://shop.example/orders -H 'content-type: application/json' --body @order.json
  weir explain --curl \"curl -H 'x-api-key: k' http://127.0.0.1:8080/orders\" shop/weir.yaml
  weir explain GET /orders/7 --running --json")]
pub(crate) struct Args {
    /// METHOD and PATH (or a URL), unless given by --curl; then the configuration
    /// [default: weir.yaml]
    #[arg(value_name = "METHOD PATH CONFIG", num_args = 0..=3)]
    words: Vec<String>,
    /// Header line, NAME: VALUE; may be repeated
    #[arg(short = 'H', long = "header", value_name = "LINE")]
    headers: Vec<String>,
    /// Body, or @FILE
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
    /// A curl command instead of METHOD, PATH, headers and body
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["headers", "body"])]
    curl: Option<String>,
    /// Address or port of the listener [default: that of the URL, or the first]
    #[arg(long, value_name = "ADDR")]
    listener: Option<String>,
    /// Client address
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    client: IpAddr,
    /// Query a running weir instead of reading CONFIG
    #[arg(long)]
    running: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let (request, config) = request(args)?;
    let explanation = if args.running {
        ensure!(config.is_none(), "CONFIG is not used with --running; use --config");
        args.server.client()?.post("/v1/explain", &serde_json::to_value(&request)?)?
    } else {
        let path = config.unwrap_or_else(|| args.server.config().to_owned());
        let loaded = weir_gateway::configuration::load(&Source { path, ..Default::default() });
        let Some(loaded) = findings::accepted(loaded) else { return Ok(Exit::Findings) };
        explain::offline(Arc::new(loaded.config), loaded.compiled, request.request_text()?)??
    };
    if args.json {
        output::json(&explanation)?;
    } else {
        print(&explanation);
    }
    Ok(Exit::Success)
}

/// The request, and the optional configuration.
fn request(args: &Args) -> anyhow::Result<(Explain, Option<PathBuf>)> {
    let mut request = Explain {
        curl: args.curl.clone(),
        listener: args.listener.clone(),
        client: Some(args.client),
        ..Explain::default()
    };
    let words = match (args.words.as_slice(), &args.curl) {
        (words, Some(_)) => words,
        ([method, target, words @ ..], None) => {
            (request.method, request.target) = (method.clone(), target.clone());
            words
        }
        _ => return Err(anyhow!("METHOD and PATH, or --curl 'curl …', are required")),
    };
    ensure!(words.len() <= 1, "only one CONFIG is allowed: {}", words.join(" "));
    for line in &args.headers {
        let (name, value) = line.split_once(':').context("a header must be NAME: VALUE")?;
        let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
        request.headers.push(Pair { name, value });
    }
    request.body = match args.body.as_deref().map(|body| (body, body.strip_prefix('@'))) {
        None => String::new(),
        Some((_, Some(file))) => {
            std::fs::read_to_string(file).with_context(|| format!("cannot read {file} as text"))?
        }
        Some((text, None)) => text.to_owned(),
    };
    Ok((request, words.first().map(PathBuf::from)))
}

fn print(explanation: &Explanation) {
    let decision = &explanation.decision;
    let decided = match (decision.kind, decision.status, &decision.problem) {
        (Kind::Refused, Some(status), Some(problem)) => format!("rejected: {status} {problem}"),
        (Kind::Answered, Some(status), _) => format!("response by weir: {status}"),
        _ => match &explanation.sent {
            Some(sent) => format!("forwarded to the {} {}", sent.to, sent.name),
            None => "rejected".to_owned(),
        },
    };
    line(&decided);
    line(&format!("  {}", decision.why));
    let listener = &explanation.listener;
    line(&format!("listener   {} ({})", listener.address, listener.why));
    line(&format!(
        "request    {} {} of {}, from {}",
        explanation.method, explanation.path, explanation.host, explanation.client
    ));
    match (&explanation.api, &explanation.operation) {
        (Some(api), Some(operation)) => {
            let path = explanation.route.as_deref().unwrap_or_default();
            let location = explanation.location.as_deref().unwrap_or_default();
            line(&format!("route      {operation} {path} of {api} ({location})"));
        }
        (Some(api), None) => line(&format!("route      none of {api}")),
        _ => line("route      none, no API"),
    }
    for Pair { name, value } in &explanation.parameters {
        line(&format!("  {name} = {value}"));
    }
    if let Some(principal) = &explanation.principal {
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let (consumer, plan) = (known(&principal.consumer), known(&principal.plan));
        let scopes = principal.scopes.join(" ");
        let auth = known(&principal.auth);
        line(&format!("caller     {consumer} (plan {plan}, by {auth}, scopes {scopes})"));
    }
    steps(explanation);
    if let Some(sent) = &explanation.sent {
        print_sent(sent);
    }
    if let Some(response) = &explanation.answer {
        line(&format!("response   {}", response.status));
        pairs(&response.headers);
        if let Some(text) = response.body.as_ref().and_then(|body| body.text.as_deref()) {
            output::text(&format!("{}\n", escape::block(text)));
        }
    }
    line(&format!("recorded   {}: {}", explanation.capture.level, explanation.capture.why));
    if !explanation.others.is_empty() {
        line("other routes:");
        let rows: Vec<[String; 3]> = explanation.others.iter().map(other).collect();
        output::text(&table(["METHODS", "PATH", "WHY"], &rows));
    }
}

fn other(other: &weir_gateway::explanation::Other) -> [String; 3] {
    let methods = if other.methods.is_empty() { "any".to_owned() } else { other.methods.join(",") };
    [methods, escape::line(&other.path), escape::line(&other.why)]
}

fn steps(explanation: &Explanation) {
    let mut rows = Vec::new();
    for step in explanation.steps.iter().filter(|step| step.outcome != Outcome::Off) {
        let outcome = match step.outcome {
            Outcome::Passed => "passed",
            Outcome::Refused => "REJECTED",
            Outcome::Answered => "answered",
            Outcome::Off => "off",
            Outcome::NotReached => "not reached",
            Outcome::Later => "later",
        };
        let cell = |text: &str| escape::line(text);
        rows.push([step.name.clone(), outcome.to_owned(), cell(&step.setting), cell(&step.why)]);
        for part in &step.parts {
            let name = format!("  {}", cell(&part.name));
            rows.push([name, part.outcome.clone(), String::new(), cell(&part.why)]);
        }
    }
    output::text(&table(["POLICY", "OUTCOME", "SETTING", "WHY"], &rows));
}

fn print_sent(sent: &Sent) {
    line(&format!("sent       to {}", sent.targets.join(", then ")));
    line(&format!("  {}", sent.line));
    pairs(&sent.headers);
    if let Some(body) = &sent.body {
        match &body.text {
            Some(text) => output::text(&format!("\n{}\n", escape::block(text))),
            None => line(&format!("  (binary body of {} bytes)", body.bytes)),
        }
    }
}

fn pairs(pairs: &[Pair]) {
    for Pair { name, value } in pairs {
        line(&format!("  {name}: {value}"));
    }
}

fn line(text: &str) {
    output::line(&escape::line(text));
}
