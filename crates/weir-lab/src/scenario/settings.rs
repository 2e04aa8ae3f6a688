//! Settings of a scenario besides its requests and load.

use super::fields::{SCALARS, TIME, pairs, seconds, share, valid_or_help, word};
use crate::measure::Method;
use crate::protocol::Rules;
use crate::threshold::Threshold;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, codes};
use weir_document::settings;
use weir_document::shape::fields::Fields;
use weir_document::shape::{Group, Key, Kind, Names, format};

settings! {
    /// The server under test.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Target is "the target" {
        /// Its base URL.
        // Without a trailing slash.
        pub base: String = by_hand(Kind::Format(format::TARGET)).required(),
        /// HTTP/2: by ALPN over TLS, with prior knowledge otherwise.
        pub http2: bool = boolean().default("false"),
        /// Do not verify its certificate.
        pub insecure: bool = boolean().default("false"),
        /// Connect timeout.
        pub connect_timeout: Duration = positive().default("10s"),
        /// Timeout to the end of a response.
        pub timeout: Duration = positive().default("60s"),
    },
    short: Some("base"),
}

settings! {
    /// Start of the server under test.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Server is "the server" {
        /// A configuration file, served by this weir with a separate port and data folder for each
        /// case.
        weir = text(Kind::Text),
        /// Settings of weir, as `weir serve --set` takes them. `${backend}` is the address of the
        /// backend.
        pub sets: Vec<(String, String)> = pairs(Names::Parameter).name("set"),
        /// A program and its arguments. `${port}` is a free port for the target, `${data}` a new
        /// data folder, `${backend}` the address of the backend.
        command = texts(SCALARS),
        /// Working directory of the command.
        pub folder: PathBuf = by_hand(Kind::Text).default("the scenario's folder"),
        /// Additional environment variables.
        pub env: Vec<(String, String)> = pairs(Names::Name),
        /// Path with a 2xx response once the server is ready.
        pub ready: Option<String> = text(Kind::Text).absent("its port is open"),
        /// Time to become ready.
        pub ready_timeout: Duration = positive().name("patience").default("30s"),
        /// When the server is restarted.
        pub restart: Restart = word().default("case"),
    }
    given {
        /// Program or configuration.
        pub start: Start
    },
    groups: &[Group { keys: &["weir", "command"], required: true }],
}

/// Program or configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// This weir with a configuration.
    Weir(PathBuf),
    /// A program and its arguments.
    Command(Vec<String>),
}

/// When a server is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Restart {
    /// For each case.
    Case,
    /// For each cell.
    Cell,
    /// Never.
    Never,
}

/// The backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// weir's echo backend.
    Echo(Echo),
    /// A program and its arguments.
    Command {
        /// Program and arguments.
        command: Vec<String>,
        /// URL with a 2xx response once the backend is ready.
        ready: Option<String>,
    },
}

settings! {
    /// The backend of the server under test.
    pub(super) static BACKEND is "the backend" {
        /// weir's echo backend, which returns the request body.
        echo = object::<Echo>(),
        /// A program and its arguments.
        command = texts(SCALARS),
        /// URL with a 2xx response once the backend is ready.
        ready = text(Kind::Text).absent("its port is open"),
    },
    groups: &[Group { keys: &["echo", "command"], required: true }],
}

settings! {
    /// weir's echo backend.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Echo is "the echo backend" {
        /// Its port; 0 chooses a free one.
        pub port: u16 = integer(0, 65_535).default("8688"),
        /// Delay of each response, without a thread per request.
        pub delay: Duration = duration().default("0"),
    }
}

settings! {
    /// Measurement of a cell.
    pub(super) static PROTOCOL is "a protocol" {
        /// Rounds until a steady state, then recorded rounds.
        stabilise = by_hand(Kind::Object(Stabilise::SHAPE)),
        /// One run without its beginning.
        fixed = object::<FixedRun>(),
    },
    groups: &[Group { keys: &["stabilise", "fixed"], required: true }],
}

settings! {
    /// Rounds until a steady state, then recorded rounds.
    struct Stabilise for Rules is "stabilising" {
        /// Recorded rounds, and rounds in each half of those before the decision.
        rounds: usize = integer(3, 100).default("5"),
        /// Largest difference of equivalent rounds.
        margin: f64 = share().default("5%"),
        /// Rounds after which the case is UNSTABLE.
        max_rounds: usize = integer(6, 10_000).default("60"),
        /// Shortest round.
        min_round: f64 = seconds().name("least").default("2s"),
        /// Longest round.
        max_round: f64 = seconds().name("longest").default("10s"),
        /// Largest coefficient of variation of successive rounds.
        variation: f64 = share().default("2%"),
        /// Keep the number of iterations.
        exact: bool = boolean().default("false"),
        idle = same(IDLE),
    }
    given { alpha: f64 }
}

settings! {
    /// One run without its beginning.
    struct FixedRun is "a fixed run" {
        /// Length of the beginning that is cut off.
        cut: Option<Duration> = duration().required(),
        idle = same(IDLE),
    }
}

/// Idle condition between rounds.
const IDLE: Key = Key::new(
    "idle",
    Kind::Either(&[Kind::Enum(&["drained"]), TIME, Kind::Object(Gauges::SHAPE)]),
    "Idle condition between rounds: weir has indexed and counted all records, gauges are 0, or a time has passed.",
)
.default("0");

settings! {
    /// Gauges of `observe.metrics` that are 0 on an idle server.
    struct Gauges is "an idle condition" {
        /// Names of the gauges.
        zero: Vec<String> = texts(Kind::List(&Kind::Text)).required(),
    }
}

/// Idle condition between rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Until weir's queues are empty: the journal is indexed and counted, and no event waits.
    Drained,
    /// Until these gauges are 0.
    Zero(Vec<String>),
    /// A time.
    Time(Duration),
}

settings! {
    /// Observed subjects, on the time axis of the load.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Observe is "the observed subjects" {
        /// Interval.
        pub every: Duration = positive().default("1s"),
        /// Processes: `gateway` and `backend`, as started by the Lab, or process ids.
        pub processes: Vec<Process> = by_hand(SCALARS).name("pids"),
        /// URL of the server's Prometheus metrics.
        pub metrics: Option<String> = text(Kind::Text),
        /// Names of metrics.
        pub gauges: Vec<String> = texts(Kind::List(&Kind::Text)),
        /// Unified GC log of a JVM.
        pub gc_log: Option<PathBuf> = by_hand(Kind::Text),
    }
}

/// An observed process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// The server started by the Lab.
    Server,
    /// The backend started by the Lab.
    Backend,
    /// Any other process.
    Pid(u32),
}

/// `target`.
pub(super) fn target(root: &Fields<'_>) -> Option<Target> {
    let target = root.object("target", Target::SHAPE)?;
    let base = target.text("base")?.trim_end_matches('/').to_owned();
    Some(Target { base, ..Target::read(&target) })
}

/// `server`.
pub(super) fn server(root: &Fields<'_>, folder: &Path) -> Option<Server> {
    let server = root.object("server", Server::SHAPE)?;
    let start = match server.text("weir") {
        Some(file) => Start::Weir(folder.join(file)),
        None => Start::Command(server.texts("command")),
    };
    let folder = server.text("folder").map_or(folder.to_owned(), |path| folder.join(path));
    Some(Server { folder, ..Server::read(&server, start) })
}

/// `backend`.
pub(super) fn backend(root: &Fields<'_>) -> Option<Backend> {
    let backend = root.object("backend", &BACKEND)?;
    Some(match backend.object("echo", Echo::SHAPE) {
        Some(echo) => Backend::Echo(Echo::read(&echo)),
        None => Backend::Command {
            command: backend.texts("command"),
            ready: backend.text("ready").map(str::to_owned),
        },
    })
}

/// `protocol`: measurement method and idle condition.
pub(super) fn protocol(root: &Fields<'_>, report: &mut Diagnostics) -> (Method, Idle) {
    let protocol = root.object_or_empty("protocol", &PROTOCOL);
    if let Some(fixed) = protocol.object("fixed", FixedRun::SHAPE) {
        let cut = FixedRun::read(&fixed).cut.unwrap_or_default();
        if cut.subsec_nanos() > 0 {
            report.error(codes::BAD_VALUE, fixed.node().at, "`cut` takes whole seconds");
        }
        return (Method::Fixed { cut }, idle(&fixed, root, report));
    }
    let Some(stabilise) = protocol.object("stabilise", Stabilise::SHAPE) else {
        return (Method::Once, AT_ONCE);
    };
    let rules = Stabilise::read(&stabilise, Rules::default().alpha);
    if rules.max_rounds < rules.rounds * 3 {
        let at = stabilise.node().at;
        report.error(codes::CONFLICT, at, "`max_rounds` is too small for `rounds`").help(format!(
            "the decision and the recording need at least {} rounds",
            rules.rounds * 3
        ));
    }
    (Method::Stabilise(rules), idle(&stabilise, root, report))
}

const AT_ONCE: Idle = Idle::Time(Duration::ZERO);

/// Idle condition between rounds.
fn idle(protocol: &Fields<'_>, root: &Fields<'_>, report: &mut Diagnostics) -> Idle {
    if let Some(gauges) = protocol.object("idle", Gauges::SHAPE) {
        let observe = root.object_or_empty("observe", Observe::SHAPE);
        if observe.get("metrics").is_none() {
            let at = gauges.node().at;
            report
                .error(codes::MISSING_KEY, at, "the metrics page of these gauges is missing")
                .help("add `observe: {metrics: URL}`");
        }
        return Idle::Zero(Gauges::read(&gauges).zero);
    }
    match protocol.text("idle") {
        Some("drained") => Idle::Drained,
        _ => Idle::Time(protocol.duration("idle").unwrap_or_default()),
    }
}

/// `observe`.
pub(super) fn observe(root: &Fields<'_>, folder: &Path, report: &mut Diagnostics) -> Observe {
    let observe = root.object_or_empty("observe", Observe::SHAPE);
    let help = Some("write `gateway`, `backend` or a process id");
    let process = |node: &Node| match node.text().unwrap_or_default() {
        "gateway" | "server" => Some(Process::Server),
        "backend" => Some(Process::Backend),
        text => {
            let pid = text.parse().map_err(|_| format!("`{text}` is not a process"));
            valid_or_help(pid.map(Process::Pid), node, help, report)
        }
    };
    let processes = observe.many("pids").iter().filter_map(process).collect();
    let gc_log = observe.text("gc_log").map(|path| folder.join(path));
    Observe { processes, gc_log, ..Observe::read(&observe) }
}

/// `thresholds`.
pub(super) fn thresholds(root: &Fields<'_>, report: &mut Diagnostics) -> Vec<Threshold> {
    let help = Some("for example `p99<500ms for echo`, `error-rate<=0` or `rps>=1000`");
    let threshold = |node: &Node| {
        let threshold = Threshold::parse(node.text().unwrap_or_default());
        valid_or_help(threshold, node, help, report)
    };
    root.many("thresholds").iter().filter_map(threshold).collect()
}
