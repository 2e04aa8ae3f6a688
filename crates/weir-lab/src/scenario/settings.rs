//! Settings of a scenario besides its requests and load.

use super::fields::{SCALARS, TIME, cores, cores_of, pairs, pairs_of, seconds, share, word};
use super::prepare::{PREPARE, Preparation, preparations};
use super::tls::TlsKeys;
use crate::measure::Method;
use crate::program::Origin;
use crate::protocol::{PairedRules, Rules};
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
        /// Certificates.
        pub tls: Option<TlsKeys> = object::<TlsKeys>(),
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
        /// The weir program that serves the configuration.
        pub program: Option<PathBuf> = value(Kind::Text, |node| Some(node.text()?.into())).name("binary").absent("this weir"),
        /// Files in its data folder, and their templates, which may contain the placeholders of the
        /// command.
        pub files: Vec<(String, String)> = pairs(Names::Name),
        /// Commands that run to their end before the server starts, with the placeholders of the
        /// command.
        pub prepare: Vec<Preparation> = by_hand(PREPARE),
        /// Names of further free ports: `${port.NAME}`. `admin` is that of weir's admin listener.
        pub ports: Vec<String> = texts(Kind::List(&Kind::Format(format::NAME))),
        /// Cores of its processes.
        pub cores: Vec<usize> = cores().absent("all cores"),
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
    /// For each round. It runs only during its round.
    Round,
    /// Never.
    Never,
}

/// The backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Echo backend or program.
    pub start: BackendStart,
    /// Working directory of the command.
    pub folder: PathBuf,
    /// Files in its data folder, and their templates.
    pub files: Vec<(String, String)>,
    /// Names of further free ports.
    pub ports: Vec<String>,
    /// Cores of its processes; all if empty.
    pub cores: Vec<usize>,
}

/// Echo backend or program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendStart {
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
        /// Files in its data folder `${data}`, and their templates.
        files = pairs(Names::Name),
        /// Names of further free ports: `${port.NAME}`; for servers, `${backend.NAME}` is the address.
        ports = texts(Kind::List(&Kind::Format(format::NAME))),
        /// Cores of its processes.
        cores = cores().absent("all cores"),
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
    /// Where the load is generated.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Generator is "the generator" {
        /// Cores of the loops of the Lab, and of other generators.
        pub cores: Vec<usize> = cores().absent("all cores"),
    }
}

settings! {
    /// Measurement of a cell.
    pub(super) static PROTOCOL is "a protocol" {
        /// Rounds until a steady state, then recorded rounds.
        stabilise = by_hand(Kind::Object(Stabilise::SHAPE)),
        /// One run without its beginning.
        fixed = object::<FixedRun>(),
        /// Rounds in which each case is measured once.
        rounds = by_hand(Kind::Object(Rounds::SHAPE)),
    },
    groups: &[Group { keys: &["stabilise", "fixed", "rounds"], required: true }],
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

settings! {
    /// Rounds in which each case is measured once, one after the other; the next round starts with
    /// another case. Figures are compared within a round.
    struct Rounds for PairedRules is "rounds" {
        /// Valid rounds.
        rounds: usize = integer(1, 50).name("count").default("7"),
        /// Rounds that may be repeated, because one of their cases was invalid or disturbed.
        repeats: usize = integer(0, 50).default("5"),
        /// Load of each case before its first round; nothing of it is reported.
        warm_up: Duration = duration().default("1s"),
        /// Cores used by other programs above which a round is repeated, as a share of one core.
        others: f64 = share().default("10%"),
        /// Length of the beginning of each round that is not measured: connections are opened.
        cut: Duration = duration().default("0"),
        /// Share of failed requests up to which a round is valid.
        errors: f64 = share().default("0%"),
        idle = same(IDLE),
    }
}

/// Idle condition between rounds.
const IDLE: Key = Key::new(
    "idle",
    Kind::Either(&[Kind::Enum(&["drained", "quiet"]), TIME, Kind::Object(Gauges::SHAPE)]),
    "Idle condition between rounds: weir has indexed and counted all records, its processes do hardly anything, gauges are 0, or a time has passed.",
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
    /// Until weir's queues are empty, and the processes of the server, whatever it is, used less than
    /// 5 % of a core for a second.
    Quiet,
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
        /// Ids of further processes: server and backend are always observed.
        pub pids: Vec<i32> = by_hand(Kind::OneOrMany(&Kind::Integer(1, 0x7FFF_FFFF))),
        /// URL of the server's Prometheus metrics.
        pub metrics: Option<String> = text(Kind::Text),
        /// The CPU time of the server: of its processes, or of the machine without the generator, which
        /// includes the backend and processes that end before they can be read.
        pub cpu: CpuSource = word().default("processes"),
        /// Names of metrics.
        pub gauges: Vec<String> = texts(Kind::List(&Kind::Text)),
        /// Name of the server's threads whose CPU time is the figure `thread-cpu`, without a number at
        /// its end.
        pub thread: Option<String> = text(Kind::Text),
        /// Counters of the metrics page by their names in bars: `tries of weir <= 1.2` for each request.
        pub counters: Vec<(String, String)> = pairs(Names::Name),
        /// Unified GC log of a JVM.
        pub gc_log: Option<PathBuf> = by_hand(Kind::Text),
    }
}

/// What counts as the CPU time of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum CpuSource {
    /// Its processes and their descendants.
    Processes,
    /// All of the machine except the generator.
    Machine,
}

/// `target`.
pub(super) fn target(root: &Fields<'_>) -> Option<Target> {
    let target = root.object("target", Target::SHAPE)?;
    let base = target.text("base")?.trim_end_matches('/').to_owned();
    Some(Target { base, ..Target::read(&target) })
}

/// `server`.
pub(super) fn server(root: &Fields<'_>, folder: &Path) -> Option<Server> {
    Some(started_server(&root.object("server", Server::SHAPE)?, folder))
}

/// Reports `ready` of a server or backend whose page is behind TLS: only pages of plain HTTP are read.
fn check_ready(of: &Fields<'_>, is_tls: bool, report: &mut Diagnostics) {
    if let Some(ready) = of.get("ready").filter(|_| is_tls) {
        report
            .error(codes::CONFLICT, ready.at, "`ready` is not possible with https")
            .help("omit it: the server is ready when its port is open");
    }
}

/// Reports `ready` of the servers of the scenario and of the backend if their pages are behind TLS.
pub(super) fn check_all_ready(root: &Fields<'_>, origin: &Origin, report: &mut Diagnostics) {
    if let Some(server) = root.object("server", Server::SHAPE) {
        check_ready(&server, origin.tls, report);
    }
    for contender in root.members("contenders") {
        let server = contender.value.get("server").filter(|server| server.members().is_some());
        if let Some(server) = server {
            check_ready(&Fields::new(server, Server::SHAPE), origin.tls, report);
        }
    }
    if let Some(backend) = root.object("backend", &BACKEND) {
        let is_tls = backend.text("ready").is_some_and(|url| url.starts_with("https:"));
        check_ready(&backend, is_tls, report);
    }
}

/// A server with its files relative to `folder`.
pub(super) fn started_server(server: &Fields<'_>, folder: &Path) -> Server {
    let start = match server.text("weir") {
        Some(file) => Start::Weir(in_folder(folder, file)),
        None => Start::Command(server.texts("command")),
    };
    let read = Server::read(server, start);
    let prepare = preparations(server.many("prepare"));
    let program = read.program.map(|path| folder.join(path));
    let files = templates(read.files, folder);
    let folder = server.text("folder").map_or(folder.to_owned(), |path| folder.join(path));
    Server { folder, program, files, prepare, ..read }
}

/// Templates of files, resolved against the scenario's folder.
fn templates(files: Vec<(String, String)>, folder: &Path) -> Vec<(String, String)> {
    let resolved = |(name, path): (String, String)| {
        (name, in_folder(folder, &path).to_string_lossy().into_owned())
    };
    files.into_iter().map(resolved).collect()
}

/// A file of the scenario's folder, or one that begins with a placeholder such as `${data}`.
fn in_folder(folder: &Path, file: &str) -> PathBuf {
    if file.starts_with("${") { file.into() } else { folder.join(file) }
}

/// `backend`.
pub(super) fn backend(root: &Fields<'_>, folder: &Path) -> Option<Backend> {
    let backend = root.object("backend", &BACKEND)?;
    let start = match backend.object("echo", Echo::SHAPE) {
        Some(echo) => BackendStart::Echo(Echo::read(&echo)),
        None => BackendStart::Command {
            command: backend.texts("command"),
            ready: backend.text("ready").map(str::to_owned),
        },
    };
    let files = backend.get("files").and_then(pairs_of).unwrap_or_default();
    Some(Backend {
        start,
        folder: folder.to_owned(),
        files: templates(files, folder),
        ports: backend.texts("ports"),
        cores: backend.get("cores").and_then(cores_of).unwrap_or_default(),
    })
}

/// `protocol`: measurement method and idle condition.
pub(super) fn protocol(root: &Fields<'_>, report: &mut Diagnostics) -> (Method, Idle) {
    let protocol = root.object_or_empty("protocol", &PROTOCOL);
    if let Some(fixed) = protocol.object("fixed", FixedRun::SHAPE) {
        let cut = FixedRun::read(&fixed).cut.unwrap_or_default();
        check_whole_seconds(cut, &fixed, report);
        return (Method::Fixed { cut }, idle(&fixed, root, report));
    }
    if let Some(rounds) = protocol.object("rounds", Rounds::SHAPE) {
        let rules = Rounds::read(&rounds);
        check_whole_seconds(rules.cut, &rounds, report);
        return (Method::Paired(rules), idle(&rounds, root, report));
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

fn check_whole_seconds(cut: Duration, fields: &Fields<'_>, report: &mut Diagnostics) {
    if cut.subsec_nanos() > 0 {
        report.error(codes::BAD_VALUE, fields.node().at, "`cut` takes whole seconds");
    }
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
        Some("quiet") => Idle::Quiet,
        _ => Idle::Time(protocol.duration("idle").unwrap_or_default()),
    }
}

/// `observe`.
pub(super) fn observe(root: &Fields<'_>, folder: &Path) -> Observe {
    let observe = root.object_or_empty("observe", Observe::SHAPE);
    // The shape has their range.
    let pid = |node: &Node| i32::try_from(node.scalar()?.integer()?).ok();
    let pids = observe.many("pids").iter().filter_map(pid).collect();
    let gc_log = observe.text("gc_log").map(|path| folder.join(path));
    Observe { pids, gc_log, ..Observe::read(&observe) }
}
