//! Pools.

use super::{Fields, Resolver, absolute_path};
use crate::config::{PoolHandler, PoolId};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_document::draft::{Member, Node};
use weir_document::finding::{Fault, codes};
use weir_document::settings;
use weir_document::shape::{Group, Kind, Names, format};
use weir_model::pool::{
    Account, AgentAddress, AgentCounts, AgentProtocol, AgentScript, AgentSource, Pool, PoolQueue,
    Program, ProgramLimits, Recycle, ScriptRoot,
};

/// Maximum number of agents and of queued requests of a pool.
const MAX_AGENTS: u64 = 100_000;

settings! {
    /// Process pool: agents, each of which handles one request at a time. Agents are started by
    /// weir (`command`) or externally (`connect`).
    pub(super) struct PoolKeys is "a pool" {
        /// Protocol of the agents: FastCGI 1.0, HTTP/1.1, or CGI, which starts a process per
        /// request.
        protocol: AgentProtocol = choice().default("fastcgi"),
        /// Program and arguments, without a shell; a path with a slash is relative to this file.
        /// The program receives its listening socket as standard input; if an argument contains
        /// `{socket}`, the program listens at that path itself. With `cgi`: the interpreter of the
        /// scripts.
        command = by_hand(Kind::OneOrMany(&Kind::Text)).absent("with `cgi`: the script itself"),
        /// Address of agents that are started externally: `unix:/run/php/php-fpm.sock` or
        /// `tcp:127.0.0.1:9000`.
        connect = by_hand(Kind::Text),
        /// Working folder, relative to this file.
        folder = by_hand(Kind::Text).absent("the folder of this file"),
        /// User of the agents, by name or number. Only root can start agents as another user.
        user = by_hand(Kind::Scalar).absent("that of weir"),
        /// Set `PR_SET_NO_NEW_PRIVS`: agents and their child processes gain no privileges from
        /// set-user-ID and set-group-ID programs. `false` for agents that need `sudo` or a
        /// set-group-ID mail program.
        no_new_privileges: bool = boolean().default("true"),
        /// Environment variables, in addition to `PATH` and `LANG` of weir; no others are
        /// inherited.
        env = by_hand(Kind::Table(Names::Name, &Kind::Secret)),
        /// Resource limits of an agent.
        limits = by_hand(Kind::Object(LimitKeys::SHAPE)),
        /// Number of agents.
        agents = by_hand(Kind::Object(AgentKeys::SHAPE)),
        /// Queue of requests that wait for an agent.
        queue = by_hand(Kind::Object(QueueKeys::SHAPE)),
        /// Replacement of agents.
        recycle = by_hand(Kind::Object(RecycleKeys::SHAPE)),
        /// Time from the last byte of the request to the first byte of the response. After a
        /// timeout the agent is killed with its child processes.
        timeout: Duration = positive().default("30s"),
        /// Time without progress of a body in either direction.
        idle_timeout: Duration = positive().default("60s"),
        /// Time from the start of an agent to its first response.
        start_timeout: Duration = positive().default("30s"),
        /// Time for an agent to exit by itself before it is killed.
        stop_timeout: Duration = positive().default("5s"),
        /// Script that handles all requests (`SCRIPT_FILENAME`), relative to this file.
        script = by_hand(Kind::Text),
        /// Folder of scripts, relative to this file; the rest of the path selects the script.
        root = by_hand(Kind::Text),
        /// Extensions of files in `root` that are run as scripts.
        extensions = by_hand(Kind::OneOrMany(&Kind::Format(format::NAME)))
            .absent("php; with `cgi` every executable file"),
        /// Index script of a folder.
        index = by_hand(Kind::Format(format::NAME)),
        /// Request headers to pass to agents although they contain credentials (`authorization`,
        /// `cookie`) or have an underscore or a dot in the name.
        headers = by_hand(Kind::OneOrMany(&Kind::Format(format::HEADER))),
        /// Variables of every request, in addition to those of CGI.
        params = by_hand(Kind::Table(Names::Name, &Kind::Scalar)),
    },
    short: Some("connect"),
    groups: &[Group { keys: &["script", "root"], required: false }],
    misspellings: &[
        ("cmd", "write `command: [program, argument]`"),
        ("socket", "write `connect: \"unix:/path\"`"),
        ("cwd", "write `folder`"),
        ("workers", "write `agents: {max: …}`"),
        ("processes", "write `agents: {max: …}`"),
    ],
}

settings! {
    /// Number of agents.
    struct AgentKeys is "the agents of a pool" {
        /// Minimum number of agents, if they can be started.
        min: usize = integer(0, MAX_AGENTS).default("1"),
        /// Number of agents at the start.
        initial: Option<usize> = integer(0, MAX_AGENTS).absent("`min`"),
        /// Maximum number of agents. With `connect`: of connections, which must not exceed the
        /// number of processes behind the address.
        max: usize = integer(1, MAX_AGENTS).default("10"),
        /// Maximum number of agents that start at the same time.
        starting: usize = integer(1, MAX_AGENTS).default("2"),
    },
    misspellings: &[("maximum", "write `max`")],
}

settings! {
    /// Queue of requests that wait for an agent. If the queue is full or the time is over, the
    /// response is a 503 with Retry-After.
    struct QueueKeys for PoolQueue is "the queue of a pool" {
        /// Maximum number of waiting requests.
        max: usize = integer(0, MAX_AGENTS).default("100"),
        /// Maximum time in the queue.
        wait: Duration = positive().default("15s"),
    },
    misspellings: &[("maximum", "write `max`")],
}

settings! {
    /// Replacement of agents after the current request.
    struct RecycleKeys for Recycle is "the agent recycling" {
        /// Requests after which an agent is replaced.
        requests: Option<u64> = integer(1, u64::MAX).absent("never"),
        /// Memory above which an agent is replaced.
        memory: Option<u64> = size().absent("never"),
        /// Age at which an agent is replaced.
        age: Option<Duration> = positive().absent("never"),
        /// Idle time after which an agent above `min` is stopped, without a replacement. With
        /// `connect`: after which a connection is closed.
        idle: Option<Duration> = positive().absent("never; with `connect` 50s"),
    }
}

settings! {
    /// Resource limits of an agent (setrlimit).
    struct LimitKeys for ProgramLimits is "the limits of an agent" {
        /// Address space.
        memory: Option<u64> = size().absent("that of weir"),
        /// Number of open files.
        files: Option<u64> = integer(3, 1_000_000_000).absent("soft limit 1024"),
        /// Number of processes of the agent's user.
        processes: Option<u64> = integer(1, 1_000_000_000).absent("that of weir"),
        /// CPU time in seconds, without fractions.
        cpu: Option<Duration> = positive().absent("that of weir"),
    }
}

settings! {
    /// Requests are handled by an agent of a pool.
    pub(super) static POOL_HANDLER is "a pool handler" {
        /// Name of the pool.
        name = by_hand(Kind::Format(format::NAME)).required(),
        /// Script that handles the requests, relative to this file, in place of that of the pool.
        script = by_hand(Kind::Text),
        /// Time to the first byte of the response, in place of that of the pool.
        timeout = by_hand(Kind::Format(format::POSITIVE_DURATION)),
    }
}

/// Idle time after which a connection to external agents is closed.
const IDLE: Duration = Duration::from_secs(50);

impl Resolver<'_> {
    pub(super) fn pool(&mut self, member: &Member) -> Option<Pool> {
        let fields = Fields::new(&member.value, PoolKeys::SHAPE);
        let keys = PoolKeys::read(&fields);
        let protocol = keys.protocol;
        let source = self.agent_source(&fields, &keys, member);
        let script = self.agent_script(&fields, protocol);
        let agents = self.agent_counts(&fields, source.as_ref());
        let queue = QueueKeys::read(&fields.object_or_empty("queue", QueueKeys::SHAPE));
        let source = source?;
        let connects = matches!(source, AgentSource::Connect(_));
        let mut recycle = RecycleKeys::read(&fields.object_or_empty("recycle", RecycleKeys::SHAPE));
        recycle.idle = recycle.idle.or(connects.then_some(IDLE));
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
            queue,
            recycle,
            timeout: keys.timeout,
            idle_timeout: keys.idle_timeout,
            script,
            headers: fields.texts("headers").iter().map(|n| n.to_ascii_lowercase()).collect(),
            params: self.variables(&fields, "params"),
        })
    }

    fn agent_source(
        &mut self,
        fields: &Fields<'_>,
        keys: &PoolKeys,
        member: &Member,
    ) -> Option<AgentSource> {
        let cgi = keys.protocol == AgentProtocol::Cgi;
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
            _ => self.agent_program(fields, keys).map(AgentSource::Start),
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

    fn agent_program(&mut self, fields: &Fields<'_>, keys: &PoolKeys) -> Option<Program> {
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
            no_new_privileges: keys.no_new_privileges,
            limits: LimitKeys::read(&fields.object_or_empty("limits", LimitKeys::SHAPE)),
            start_timeout: keys.start_timeout,
            stop_timeout: keys.stop_timeout,
        };
        self.warn_of_privileges(&program, fields);
        if program.binds_itself()
            && let Some(node) = fields.get("command")
        {
            let why = match (keys.protocol, &program.user) {
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
        let agents = fields.object_or_empty("agents", AgentKeys::SHAPE);
        let AgentKeys { min, initial, max, starting } = AgentKeys::read(&agents);
        let counts = AgentCounts { min, initial: initial.unwrap_or(min), max, starting };
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
                Some(self.script_file(node, &Fields::new(&pool.value, PoolKeys::SHAPE))?)
            }
            None => None,
        };
        Some(PoolHandler { pool, script, timeout: fields.duration("timeout") })
    }
}
