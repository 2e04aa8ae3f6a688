//! Settings of a scenario besides its requests and load.

use super::fields::Fields;
use super::{Backend, Idle, Observe, Process, Server, Start, Target};
use crate::measure::Method;
use crate::protocol::{CaseOrder, Rules};
use crate::threshold::Threshold;
use std::path::Path;
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, codes};

/// `target`.
pub(super) fn target(root: &Node) -> Option<Target> {
    let target = Fields(root).object("target")?;
    Some(Target {
        base: target.text("base")?.trim_end_matches('/').to_owned(),
        http2: target.bool("http2", false),
        insecure: target.bool("insecure", false),
        connect_timeout: target.duration("connect_timeout").unwrap_or(Duration::from_secs(10)),
        timeout: target.duration("timeout").unwrap_or(Duration::from_secs(60)),
    })
}

/// `server`.
pub(super) fn server(root: &Node, folder: &Path) -> Option<Server> {
    let server = Fields(root).object("server")?;
    let start = match server.text("weir") {
        Some(file) => Start::Weir(folder.join(file)),
        None => Start::Command(server.texts("command")),
    };
    Some(Server {
        start,
        sets: server.pairs("set"),
        folder: server.text("folder").map_or(folder.to_owned(), |path| folder.join(path)),
        env: server.pairs("env"),
        ready: server.owned("ready"),
        ready_timeout: server.duration("patience").unwrap_or(Duration::from_secs(30)),
        restart: server.choice("restart").unwrap_or_default(),
    })
}

/// `backend`.
pub(super) fn backend(root: &Node) -> Option<Backend> {
    let backend = Fields(root).object("backend")?;
    Some(match backend.object("echo") {
        Some(echo) => Backend::Echo {
            port: echo.integer("port").unwrap_or(8688),
            delay: echo.duration("delay").unwrap_or_default(),
        },
        None => {
            Backend::Command { command: backend.texts("command"), ready: backend.owned("ready") }
        }
    })
}

/// `cases.order`.
pub(super) fn order(root: &Node) -> CaseOrder {
    let cases = Fields(root).object("cases");
    cases.and_then(|cases| cases.choice("order")).unwrap_or_default()
}

/// `protocol`: measurement method and idle condition.
pub(super) fn protocol(root: &Node, report: &mut Diagnostics) -> (Method, Idle) {
    let Some(protocol) = Fields(root).object("protocol") else { return (Method::Once, AT_ONCE) };
    if let Some(fixed) = protocol.object("fixed") {
        let cut = fixed.duration("cut").unwrap_or_default();
        if cut.subsec_nanos() > 0 {
            report.error(codes::BAD_VALUE, fixed.0.at, "`cut` takes whole seconds");
        }
        return (Method::Fixed { cut }, idle(fixed, root, report));
    }
    let Some(rounds) = protocol.object("stabilise") else { return (Method::Once, AT_ONCE) };
    let usual = Rules::default();
    let seconds = |key, default| rounds.duration(key).map_or(default, |time| time.as_secs_f64());
    let rules = Rules {
        rounds: rounds.integer("rounds").unwrap_or(usual.rounds),
        margin: rounds.share("margin").unwrap_or(usual.margin),
        alpha: usual.alpha,
        max_rounds: rounds.integer("max_rounds").unwrap_or(usual.max_rounds),
        min_round: seconds("least", usual.min_round),
        max_round: seconds("longest", usual.max_round),
        variation: rounds.share("variation").unwrap_or(usual.variation),
        exact: rounds.bool("exact", usual.exact),
    };
    if rules.max_rounds < rules.rounds * 3 {
        report.error(codes::CONFLICT, rounds.0.at, "`max_rounds` is too small for `rounds`").help(
            format!("the decision and the recording need at least {} rounds", rules.rounds * 3),
        );
    }
    (Method::Stabilise(rules), idle(rounds, root, report))
}

const AT_ONCE: Idle = Idle::Time(Duration::ZERO);

/// Idle condition between rounds.
fn idle(protocol: Fields<'_>, root: &Node, report: &mut Diagnostics) -> Idle {
    let Some(node) = protocol.get("idle") else { return AT_ONCE };
    if let Some(gauges) = protocol.object("idle") {
        let metrics = Fields(root).object("observe").and_then(|observe| observe.get("metrics"));
        if metrics.is_none() {
            report
                .error(codes::MISSING_KEY, node.at, "the metrics page of these gauges is missing")
                .help("add `observe: {metrics: URL}`");
        }
        return Idle::Zero(gauges.texts("zero"));
    }
    match protocol.text("idle") {
        Some("drained") => Idle::Drained,
        _ => Idle::Time(protocol.duration("idle").unwrap_or_default()),
    }
}

/// `observe`.
pub(super) fn observe(root: &Node, folder: &Path, report: &mut Diagnostics) -> Observe {
    const INTERVAL: Duration = Duration::from_secs(1);
    let Some(observe) = Fields(root).object("observe") else {
        return Observe { every: INTERVAL, ..Observe::default() };
    };
    let mut processes = Vec::new();
    for node in observe.many("pids") {
        match node.text().unwrap_or_default() {
            "gateway" | "server" => processes.push(Process::Server),
            "backend" => processes.push(Process::Backend),
            text => match text.parse() {
                Ok(pid) => processes.push(Process::Pid(pid)),
                Err(_) => {
                    report
                        .error(codes::BAD_VALUE, node.at, format!("`{text}` is not a process"))
                        .help("write `gateway`, `backend` or a process id");
                }
            },
        }
    }
    Observe {
        every: observe.duration("every").unwrap_or(INTERVAL),
        processes,
        metrics: observe.owned("metrics"),
        gauges: observe.texts("gauges"),
        gc_log: observe.text("gc_log").map(|path| folder.join(path)),
    }
}

/// `thresholds`.
pub(super) fn thresholds(root: &Node, report: &mut Diagnostics) -> Vec<Threshold> {
    let mut thresholds = Vec::new();
    for node in Fields(root).many("thresholds") {
        match Threshold::parse(node.text().unwrap_or_default()) {
            Ok(threshold) => thresholds.push(threshold),
            Err(error) => {
                report
                    .error(codes::BAD_VALUE, node.at, error.to_string())
                    .help("for example `p99<500ms for echo`, `error-rate<=0` or `rps>=1000`");
            }
        }
    }
    thresholds
}
