//! Pools.

use super::{Fields, Resolver, absolute_path};
use crate::config::{PoolHandler, PoolId};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_document::draft::{Member, Node};
use weir_document::finding::{Fault, codes};
use weir_document::shape::typed::{Defaulted, boolean, choice, integer, positive};
use weir_document::shape::{Group, Key, Kind, Names, Shape, format};
use weir_model::pool::{
    Account, AgentAddress, AgentCounts, AgentProtocol, AgentScript, AgentSource, Pool, PoolQueue,
    Program, ProgramLimits, Recycle, ScriptRoot,
};

/// Maximum number of agents and of queued requests of a pool.
const MAX_AGENTS: u64 = 100_000;

const PROTOCOL: Defaulted<AgentProtocol> = choice(
    "protocol",
    "Protocol of the agents: FastCGI 1.0, HTTP/1.1, or CGI, which starts a process per request.",
)
.default("fastcgi");
const NO_NEW_PRIVILEGES: Defaulted<bool> = boolean("no_new_privileges", "Set `PR_SET_NO_NEW_PRIVS`: agents and their child processes gain no privileges from set-user-ID and set-group-ID programs. `false` for agents that need `sudo` or a set-group-ID mail program.").default("true");
const TIMEOUT: Defaulted<Duration> = positive("timeout", "Time from the last byte of the request to the first byte of the response. After a timeout the agent is killed with its child processes.").default("30s");
const IDLE_TIMEOUT: Defaulted<Duration> =
    positive("idle_timeout", "Time without progress of a body in either direction.").default("60s");
const START_TIMEOUT: Defaulted<Duration> =
    positive("start_timeout", "Time from the start of an agent to its first response.")
        .default("30s");
const STOP_TIMEOUT: Defaulted<Duration> =
    positive("stop_timeout", "Time for an agent to exit by itself before it is killed.")
        .default("5s");

/// A value of `pools`.
pub(super) static POOL: Shape = Shape {
    short: Some("connect"),
    groups: &[Group { keys: &["script", "root"], required: false }],
    misspellings: &[
        ("cmd", "write `command: [program, argument]`"),
        ("socket", "write `connect: \"unix:/path\"`"),
        ("cwd", "write `folder`"),
        ("workers", "write `agents: {max: …}`"),
        ("processes", "write `agents: {max: …}`"),
    ],
    ..Shape::new(
        "a pool",
        "Process pool: agents, each of which handles one request at a time. Agents are started by weir (`command`) or externally (`connect`).",
        &[
            PROTOCOL.key,
            Key::new("command", Kind::OneOrMany(&Kind::Text), "Program and arguments, without a shell; a path with a slash is relative to this file. The program receives its listening socket as standard input; if an argument contains `{socket}`, the program listens at that path itself. With `cgi`: the interpreter of the scripts.").absent("with `cgi`: the script itself"),
            Key::new("connect", Kind::Text, "Address of agents that are started externally: `unix:/run/php/php-fpm.sock` or `tcp:127.0.0.1:9000`."),
            Key::new("folder", Kind::Text, "Working folder, relative to this file.").absent("the folder of this file"),
            Key::new("user", Kind::Scalar, "User of the agents, by name or number. Only root can start agents as another user.").absent("that of weir"),
            NO_NEW_PRIVILEGES.key,
            Key::new("env", Kind::Table(Names::Name, &Kind::Secret), "Environment variables, in addition to `PATH` and `LANG` of weir; no others are inherited."),
            Key::new("limits", Kind::Object(&POOL_LIMITS), "Resource limits of an agent."),
            Key::new("agents", Kind::Object(&AGENTS), "Number of agents."),
            Key::new("queue", Kind::Object(&QUEUE), "Queue of requests that wait for an agent."),
            Key::new("recycle", Kind::Object(&RECYCLE), "Replacement of agents."),
            TIMEOUT.key,
            IDLE_TIMEOUT.key,
            START_TIMEOUT.key,
            STOP_TIMEOUT.key,
            Key::new("script", Kind::Text, "Script that handles all requests (`SCRIPT_FILENAME`), relative to this file."),
            Key::new("root", Kind::Text, "Folder of scripts, relative to this file; the rest of the path selects the script."),
            Key::new("extensions", Kind::OneOrMany(&Kind::Format(format::NAME)), "Extensions of files in `root` that are run as scripts.").absent("php; with `cgi` every executable file"),
            Key::new("index", Kind::Format(format::NAME), "Index script of a folder."),
            Key::new("headers", Kind::OneOrMany(&Kind::Format(format::HEADER)), "Request headers to pass to agents although they contain credentials (`authorization`, `cookie`) or have an underscore or a dot in the name."),
            Key::new("params", Kind::Table(Names::Name, &Kind::Scalar), "Variables of every request, in addition to those of CGI."),
        ],
    )
};

const AGENTS_MIN: Defaulted<usize> =
    integer("min", (0, MAX_AGENTS), "Minimum number of agents, if they can be started.")
        .default("1");
const AGENTS_MAX: Defaulted<usize> = integer("max", (1, MAX_AGENTS), "Maximum number of agents. With `connect`: of connections, which must not exceed the number of processes behind the address.").default("10");
const AGENTS_STARTING: Defaulted<usize> =
    integer("starting", (1, MAX_AGENTS), "Maximum number of agents that start at the same time.")
        .default("2");

/// `agents` of a pool.
pub(super) static AGENTS: Shape = Shape {
    misspellings: &[("maximum", "write `max`")],
    ..Shape::new(
        "the agents of a pool",
        "Number of agents.",
        &[
            AGENTS_MIN.key,
            Key::new("initial", Kind::Integer(0, MAX_AGENTS), "Number of agents at the start.")
                .absent("`min`"),
            AGENTS_MAX.key,
            AGENTS_STARTING.key,
        ],
    )
};

const QUEUE_MAX: Defaulted<usize> =
    integer("max", (0, MAX_AGENTS), "Maximum number of waiting requests.").default("100");
const QUEUE_WAIT: Defaulted<Duration> =
    positive("wait", "Maximum time in the queue.").default("15s");

/// `queue` of a pool.
pub(super) static QUEUE: Shape = Shape {
    misspellings: &[("maximum", "write `max`")],
    ..Shape::new(
        "the queue of a pool",
        "Queue of requests that wait for an agent. If the queue is full or the time is over, the response is a 503 with Retry-After.",
        &[QUEUE_MAX.key, QUEUE_WAIT.key],
    )
};

/// `recycle` of a pool.
pub(super) static RECYCLE: Shape = Shape::new(
    "the agent recycling",
    "Replacement of agents after the current request.",
    &[
        Key::new("requests", Kind::Integer(1, u64::MAX), "Requests after which an agent is replaced.").absent("never"),
        Key::new("memory", Kind::Format(format::SIZE), "Memory above which an agent is replaced.").absent("never"),
        Key::new("age", Kind::Format(format::POSITIVE_DURATION), "Age at which an agent is replaced.").absent("never"),
        Key::new("idle", Kind::Format(format::POSITIVE_DURATION), "Idle time after which an agent above `min` is stopped, without a replacement. With `connect`: after which a connection is closed.").absent("never; with `connect` 50s"),
    ],
);

/// `limits` of a pool.
pub(super) static POOL_LIMITS: Shape = Shape::new(
    "the limits of an agent",
    "Resource limits of an agent (setrlimit).",
    &[
        Key::new("memory", Kind::Format(format::SIZE), "Address space.").absent("that of weir"),
        Key::new("files", Kind::Integer(3, 1_000_000_000), "Number of open files.")
            .absent("soft limit 1024"),
        Key::new(
            "processes",
            Kind::Integer(1, 1_000_000_000),
            "Number of processes of the agent's user.",
        )
        .absent("that of weir"),
        Key::new(
            "cpu",
            Kind::Format(format::POSITIVE_DURATION),
            "CPU time in seconds, without fractions.",
        )
        .absent("that of weir"),
    ],
);

/// `pool` of a route as a mapping.
pub(super) static POOL_HANDLER: Shape = Shape::new(
    "a pool handler",
    "Requests are handled by an agent of a pool.",
    &[
        Key::new("name", Kind::Format(format::NAME), "Name of the pool.").required(),
        Key::new(
            "script",
            Kind::Text,
            "Script that handles the requests, relative to this file, in place of that of the pool.",
        ),
        Key::new(
            "timeout",
            Kind::Format(format::POSITIVE_DURATION),
            "Time to the first byte of the response, in place of that of the pool.",
        ),
    ],
);

/// Idle time after which a connection to external agents is closed.
const IDLE: Duration = Duration::from_secs(50);

impl Resolver<'_> {
    pub(super) fn pool(&mut self, member: &Member) -> Option<Pool> {
        let fields = Fields::new(&member.value, &POOL);
        let protocol = fields.read(&PROTOCOL);
        let source = self.agent_source(&fields, protocol, member);
        let script = self.agent_script(&fields, protocol);
        let agents = self.agent_counts(&fields, source.as_ref());
        let queue = fields.object_or_empty("queue", &QUEUE);
        let source = source?;
        let connects = matches!(source, AgentSource::Connect(_));
        let recycle = recycle(&fields, connects);
        let script = script?;
        if protocol == AgentProtocol::Cgi
            && let (AgentSource::Start(program), AgentScript::None) = (&source, &script)
            && program.command.is_empty()
        {
            self.report
                .error(codes::MISSING_KEY, member.at, "the pool has no program")
                .help("set `command`, `script` or `root`");
            return None;
        }
        Some(Pool {
            name: member.key.clone(),
            protocol,
            source,
            agents,
            queue: PoolQueue { max: queue.read(&QUEUE_MAX), wait: queue.read(&QUEUE_WAIT) },
            recycle,
            timeout: fields.read(&TIMEOUT),
            idle_timeout: fields.read(&IDLE_TIMEOUT),
            script,
            headers: fields.texts("headers").iter().map(|n| n.to_ascii_lowercase()).collect(),
            params: self.variables(&fields, "params"),
        })
    }

    fn agent_source(
        &mut self,
        fields: &Fields<'_>,
        protocol: AgentProtocol,
        member: &Member,
    ) -> Option<AgentSource> {
        let cgi = protocol == AgentProtocol::Cgi;
        match (fields.get("command"), fields.get("connect")) {
            (Some(_), Some(node)) => {
                self.report
                    .error(codes::CONFLICT, node.at, "`connect` and `command` exclude each other")
                    .help("agents are started either by weir or externally");
                None
            }
            (None, Some(node)) if cgi => {
                self.report
                    .error(codes::CONFLICT, node.at, "`cgi` starts a process for each request")
                    .help("remove `connect`, or write `protocol: fastcgi`");
                None
            }
            (None, Some(node)) => {
                self.only_with_command(fields);
                Some(AgentSource::Connect(self.agent_address(node)?))
            }
            (None, None) if !cgi => {
                self.report.error(
                    codes::MISSING_KEY,
                    member.at,
                    "a pool needs `command` or `connect`",
                );
                None
            }
            _ => self.agent_program(fields, protocol).map(AgentSource::Start),
        }
    }

    /// Settings of processes do not apply to connections.
    fn only_with_command(&mut self, fields: &Fields<'_>) {
        let processes = [
            "folder",
            "user",
            "no_new_privileges",
            "env",
            "limits",
            "start_timeout",
            "stop_timeout",
        ];
        for key in processes {
            if let Some(node) = fields.get(key) {
                self.report
                    .error(codes::CONFLICT, node.at, format!("`{key}` has no effect"))
                    .help("with `connect`, agents are started externally");
            }
        }
    }

    fn agent_address(&mut self, node: &Node) -> Option<AgentAddress> {
        let text = node.text()?;
        if let Some(path) = text.strip_prefix("unix:") {
            let path = self.draft.texts.resolve(node.at.file, path);
            return Some(AgentAddress::Unix(self.absolute_path(&path)));
        }
        let address = text.strip_prefix("tcp:").and_then(|address| address.parse().ok());
        if address.is_none() {
            self.fault(
                node,
                Fault::value(format!("`{text}` is not an agent address"))
                    .help("`unix:/run/php/php-fpm.sock` or `tcp:127.0.0.1:9000`"),
            );
        }
        address.map(AgentAddress::Tcp)
    }

    fn agent_program(&mut self, fields: &Fields<'_>, protocol: AgentProtocol) -> Option<Program> {
        let mut command = fields.texts("command");
        if let (Some(program), Some(node)) = (command.first_mut(), fields.many("command").first())
            && program.contains('/')
        {
            let path = self.draft.texts.resolve(node.at.file, program);
            self.must_exist(node, &path);
            *program = self.absolute_path(&path).to_string_lossy().into_owned();
        }
        let folder = match fields.get("folder") {
            Some(node) => {
                let path = self.draft.texts.resolve(node.at.file, node.text()?);
                self.must_exist(node, &path);
                self.absolute_path(&path)
            }
            None => self.absolute_path(&self.draft.texts.resolve(fields.node().at.file, "")),
        };
        let user = match fields.get("user") {
            Some(node) => Some(self.account(node)?),
            None => None,
        };
        if user.is_none() && self.is_root() {
            self.report
                .warning(codes::AGENTS_AS_ROOT, fields.node().at, "the agents run as root")
                .help("write `user: www-data`, or `user: root` if intended");
        }
        let program = Program {
            command,
            folder,
            env: self.variables(fields, "env"),
            user,
            no_new_privileges: fields.read(&NO_NEW_PRIVILEGES),
            limits: limits(fields),
            start_timeout: fields.read(&START_TIMEOUT),
            stop_timeout: fields.read(&STOP_TIMEOUT),
        };
        self.warn_of_privileges(&program, fields);
        if program.binds_itself()
            && let Some(node) = fields.get("command")
        {
            let why = match (protocol, &program.user) {
                (AgentProtocol::Cgi, _) => Some("CGI programs have no socket"),
                (_, Some(user)) if !self.is_self(user) => {
                    Some("another user cannot create a socket in weir's folder")
                }
                _ => None,
            };
            if let Some(why) = why {
                self.report
                    .error(codes::CONFLICT, node.at, why)
                    .help("remove `{socket}`: the listening socket is standard input");
            }
        }
        Some(program)
    }

    /// Agents cannot run a program that gains privileges when started.
    fn warn_of_privileges(&mut self, program: &Program, fields: &Fields<'_>) {
        let (Some(name), Some(node)) = (program.command.first(), fields.many("command").first())
        else {
            return;
        };
        let path = Path::new(name);
        let known = path.file_name().is_some_and(|name| name == "sudo" || name == "doas");
        let marked = !self.draft.sealed
            && name.contains('/')
            && path.metadata().is_ok_and(|found| found.permissions().mode() & 0o6000 != 0);
        if program.no_new_privileges && (known || marked) {
            let message =
                format!("`{name}` gains privileges at its start, which is not permitted to agents");
            self.report
                .warning(codes::NO_NEW_PRIVILEGES, node.at, message)
                .help("use `user`, or `no_new_privileges: false` if intended");
        }
    }

    fn is_self(&self, user: &Account) -> bool {
        self.draft.sealed || nix::unistd::geteuid().as_raw() == user.uid
    }

    fn is_root(&self) -> bool {
        !self.draft.sealed && nix::unistd::geteuid().is_root()
    }

    fn must_exist(&mut self, node: &Node, path: &Path) {
        if !self.draft.sealed && !path.exists() {
            let message = format!("{} does not exist", path.display());
            self.report.error(codes::MISSING_FILE, node.at, message);
        }
    }

    fn account(&mut self, node: &Node) -> Option<Account> {
        let text = node.text()?;
        if self.draft.sealed {
            // No user database is queried, and no process is started, with the result.
            return Some(Account { name: text.to_owned(), uid: u32::MAX, gid: u32::MAX });
        }
        let found = match text.parse() {
            Ok(uid) => nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)),
            Err(_) => nix::unistd::User::from_name(text),
        };
        let Ok(Some(user)) = found else {
            let message = format!("unknown user `{text}`");
            self.report.error(codes::UNKNOWN_NAME, node.at, message);
            return None;
        };
        let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
        Some(Account { name: text.to_owned(), uid, gid })
    }

    /// Names and values of variables; programs must be able to read the names.
    fn variables(&mut self, fields: &Fields<'_>, key: &str) -> Vec<(String, String)> {
        let mut variables = Vec::new();
        for member in fields.members(key) {
            let name = &member.key;
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            if !name.bytes().all(fits) || name.starts_with(|c: char| c.is_ascii_digit()) {
                self.report
                    .error(codes::BAD_VALUE, member.at, format!("`{name}` is not a variable name"))
                    .help("use letters, digits and underscores, no digit first");
                continue;
            }
            let Some(value) = member.value.text() else { continue };
            let value = value.trim_end_matches(['\r', '\n']);
            if value.contains('\0') {
                self.report.error(codes::BAD_VALUE, member.value.at, "the value contains a NUL");
                continue;
            }
            variables.push((name.clone(), value.to_owned()));
        }
        variables
    }

    fn agent_counts(&mut self, fields: &Fields<'_>, source: Option<&AgentSource>) -> AgentCounts {
        let agents = fields.object_or_empty("agents", &AGENTS);
        let (min, max) = (agents.read(&AGENTS_MIN), agents.read(&AGENTS_MAX));
        let counts = AgentCounts {
            min,
            initial: agents.number("initial", min),
            max,
            starting: agents.read(&AGENTS_STARTING),
        };
        for (key, value) in [("min", counts.min), ("initial", counts.initial)] {
            let Some(node) = agents.get(key) else { continue };
            if value > max {
                self.report.error(
                    codes::CONFLICT,
                    node.at,
                    format!("`{key}` exceeds `max` ({max})"),
                );
            } else if matches!(source, Some(AgentSource::Connect(_))) {
                self.report
                    .error(codes::CONFLICT, node.at, format!("`{key}` has no effect"))
                    .help("with `connect`, agents are started externally");
            }
        }
        if let Some(node) = agents.get("initial").filter(|_| counts.initial < counts.min) {
            self.report.error(codes::CONFLICT, node.at, "`initial` is less than `min`");
        }
        counts
    }

    fn agent_script(
        &mut self,
        fields: &Fields<'_>,
        protocol: AgentProtocol,
    ) -> Option<AgentScript> {
        let http = protocol == AgentProtocol::Http;
        for key in ["script", "root", "params"] {
            if let Some(node) = fields.get(key).filter(|_| http) {
                let message = format!("`{key}` has no effect with `protocol: http`");
                self.report.error(codes::CONFLICT, node.at, message);
            }
        }
        if let Some(node) = fields.get("script") {
            return Some(AgentScript::Fixed(self.script_file(node, fields)?));
        }
        let Some(node) = fields.get("root") else {
            for key in ["extensions", "index"] {
                if let Some(node) = fields.get(key) {
                    self.report
                        .error(codes::CONFLICT, node.at, format!("`{key}` has no effect"))
                        .help("it needs `root`");
                }
            }
            return Some(AgentScript::None);
        };
        let path = self.draft.texts.resolve(node.at.file, node.text()?);
        let folder = if self.draft.sealed { Ok(path.clone()) } else { path.canonicalize() };
        let Ok(folder) = folder else {
            let message = format!("{} does not exist", path.display());
            self.report.error(codes::MISSING_FILE, node.at, message);
            return None;
        };
        let mut extensions = fields.texts("extensions");
        if extensions.is_empty() && protocol == AgentProtocol::FastCgi {
            extensions.push("php".to_owned());
        }
        let index = fields.text("index").map(str::to_owned);
        Some(AgentScript::Below(ScriptRoot { folder, extensions, index }))
    }

    /// The script. External agents on another machine may have files that do not exist here.
    fn script_file(&mut self, node: &Node, fields: &Fields<'_>) -> Option<PathBuf> {
        let path = self.draft.texts.resolve(node.at.file, node.text()?);
        if fields.text("connect").is_some_and(|connect| connect.starts_with("tcp:")) {
            return Some(absolute_path::lexical(&path));
        }
        self.must_exist(node, &path);
        Some(self.absolute_path(&path))
    }

    /// `pool` of a route.
    pub(super) fn pool_handler(&mut self, node: &Node) -> Option<PoolHandler> {
        if let Some(name) = node.text() {
            let pool = PoolId(self.pools.find(name, node.at, self.report)?);
            return Some(PoolHandler { pool, script: None, timeout: None });
        }
        let fields = Fields::new(node, &POOL_HANDLER);
        let name = fields.get("name")?;
        let pool = PoolId(self.pools.find(name.text()?, name.at, self.report)?);
        let script = match fields.get("script") {
            Some(node) => {
                let pool = self.draft.table("pools").into_iter().nth(pool.0)?;
                Some(self.script_file(node, &Fields::new(&pool.value, &POOL))?)
            }
            None => None,
        };
        Some(PoolHandler { pool, script, timeout: fields.duration("timeout") })
    }
}

fn recycle(fields: &Fields<'_>, connects: bool) -> Recycle {
    let idle = connects.then_some(IDLE);
    let Some(fields) = fields.object("recycle", &RECYCLE) else {
        return Recycle { idle, ..Recycle::default() };
    };
    Recycle {
        requests: fields.integer("requests"),
        memory: fields.size("memory"),
        age: fields.duration("age"),
        idle: fields.duration("idle").or(idle),
    }
}

fn limits(fields: &Fields<'_>) -> ProgramLimits {
    let Some(fields) = fields.object("limits", &POOL_LIMITS) else {
        return ProgramLimits::default();
    };
    ProgramLimits {
        memory: fields.size("memory"),
        files: fields.integer("files"),
        processes: fields.integer("processes"),
        cpu: fields.duration("cpu"),
    }
}
