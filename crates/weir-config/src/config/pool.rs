//! Pools: sets of agents, which are processes, behind `pool`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A named set of agents that answer alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Name, the key under `pools`.
    pub name: String,
    /// What agents speak.
    pub protocol: AgentProtocol,
    /// Where agents come from.
    pub source: AgentSource,
    /// How many there are.
    pub agents: AgentCounts,
    /// Requests that wait for one.
    pub queue: PoolQueue,
    /// When an agent is replaced.
    pub recycle: Recycle,
    /// Time from the request's last byte to the first byte of the answer; whoever
    /// takes longer is killed.
    pub timeout: Duration,
    /// How long a body may make no progress in either direction.
    pub idle_timeout: Duration,
    /// What program of the agents answers.
    pub script: AgentScript,
    /// Request headers that are passed although they carry credentials or have an underscore or a dot in
    /// their names; lower case.
    pub headers: Vec<String>,
    /// Variables that every request gets besides those of CGI.
    pub params: Vec<(String, String)>,
}

/// What agents speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentProtocol {
    /// FastCGI 1.0.
    FastCgi,
    /// HTTP/1.1.
    Http,
    /// CGI (RFC 3875): a process for each request.
    Cgi,
}

impl AgentProtocol {
    /// As written in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FastCgi => "fastcgi",
            Self::Http => "http",
            Self::Cgi => "cgi",
        }
    }
}

/// Where agents come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentSource {
    /// weir starts them.
    Start(Program),
    /// Somebody else does; weir connects.
    Connect(AgentAddress),
}

/// Where a manager of agents listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentAddress {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(SocketAddr),
}

impl std::fmt::Display for AgentAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(addr) => write!(f, "tcp:{addr}"),
        }
    }
}

/// A program that weir starts.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments; never empty for other protocols than CGI, where the script
    /// itself is started if it is. `{socket}` in an argument stands for the path of the agent's
    /// socket.
    pub command: Vec<String>,
    /// Working folder.
    pub folder: PathBuf,
    /// Environment, besides `PATH` and `LANG`.
    pub env: Vec<(String, String)>,
    /// Who it runs as; weir's own user without.
    pub user: Option<Account>,
    /// Neither it nor what it starts gains privileges by another program.
    pub no_new_privileges: bool,
    /// Limits on what it may use.
    pub limits: ProgramLimits,
    /// Time until it answers for the first time.
    pub start_timeout: Duration,
    /// Time from SIGTERM to SIGKILL.
    pub stop_timeout: Duration,
}

impl Program {
    /// Whether it makes its socket itself, at the path it is told.
    pub fn binds_itself(&self) -> bool {
        self.command.iter().any(|argument| argument.contains(SOCKET))
    }
}

impl std::fmt::Debug for Program {
    /// Never the values of its environment: there are secrets among them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let env: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Program")
            .field("command", &self.command)
            .field("folder", &self.folder)
            .field("env", &env)
            .field("user", &self.user)
            .field("limits", &self.limits)
            .field("start_timeout", &self.start_timeout)
            .field("stop_timeout", &self.stop_timeout)
            .finish()
    }
}

/// What stands for the path of an agent's socket.
pub const SOCKET: &str = "{socket}";

/// A user of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// As written.
    pub name: String,
    /// Number of the user.
    pub uid: u32,
    /// Number of its group.
    pub gid: u32,
}

/// Limits on what one agent may use; what is not said is not limited by weir.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramLimits {
    /// Bytes of address space.
    pub memory: Option<u64>,
    /// Open files.
    pub files: Option<u64>,
    /// Processes of its user.
    pub processes: Option<u64>,
    /// Processor time.
    pub cpu: Option<Duration>,
}

/// How many agents there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentCounts {
    /// Never fewer, if they can be started.
    pub min: usize,
    /// So many from the start (default `min`).
    pub initial: usize,
    /// Never more. Of agents that are connected to: most connections.
    pub max: usize,
    /// Most that are starting at once.
    pub starting: usize,
}

/// Requests that wait for an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolQueue {
    /// Most of them.
    pub max: usize,
    /// How long one waits at most.
    pub wait: Duration,
}

/// When an agent is replaced; what is not said never does it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recycle {
    /// After so many requests.
    pub requests: Option<u64>,
    /// When it holds so many bytes in memory.
    pub memory: Option<u64>,
    /// When it is so old.
    pub age: Option<Duration>,
    /// When it has had nothing to do for so long and there are more than `min`; it is not replaced
    /// then. Of a connection: when it is closed.
    pub idle: Option<Duration>,
}

/// What program of the agents answers a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentScript {
    /// The agent itself.
    None,
    /// This file.
    Fixed(PathBuf),
    /// The file that the path names.
    Below(ScriptRoot),
}

/// Where scripts are found by path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptRoot {
    /// The folder, without symbolic links.
    pub folder: PathBuf,
    /// Endings that scripts have; empty: any, if the file may be executed.
    pub extensions: Vec<String>,
    /// The file of a folder.
    pub index: Option<String>,
}
