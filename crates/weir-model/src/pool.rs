//! Process pools: sets of agents (processes) for `pool`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A named set of equivalent agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Name, the key under `pools`.
    pub name: String,
    /// Protocol of the agents.
    pub protocol: AgentProtocol,
    /// How agents are started.
    pub source: AgentSource,
    /// Number of agents.
    pub agents: AgentCounts,
    /// Queue of requests.
    pub queue: PoolQueue,
    /// Replacement of agents.
    pub recycle: Recycle,
    /// Time from the last byte of the request to the first byte of the response; after a timeout
    /// the agent is killed.
    pub timeout: Duration,
    /// Time without progress of a body in either direction.
    pub idle_timeout: Duration,
    /// Selection of the script.
    pub script: AgentScript,
    /// Request headers to pass although they contain credentials or have an underscore or a dot in
    /// the name; lower case.
    pub headers: Vec<String>,
    /// Variables of every request, in addition to those of CGI.
    pub params: Vec<(String, String)>,
}

/// Protocol of agents.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::EnumString, strum::VariantNames,
)]
#[strum(serialize_all = "lowercase")]
pub enum AgentProtocol {
    /// FastCGI 1.0.
    FastCgi,
    /// HTTP/1.1.
    Http,
    /// CGI (RFC 3875): one process per request.
    Cgi,
}

/// How agents are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentSource {
    /// By weir.
    Start(Program),
    /// Externally; weir connects.
    Connect(AgentAddress),
}

/// Address of an external manager of agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentAddress {
    /// A Unix socket.
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
    /// The program and its arguments; empty only for CGI, if the script itself is started.
    /// `{socket}` in an argument is replaced by the path of the agent's socket.
    pub command: Vec<String>,
    /// Working folder.
    pub folder: PathBuf,
    /// Environment variables, in addition to `PATH` and `LANG`.
    pub env: Vec<(String, String)>,
    /// User of the process; by default that of weir.
    pub user: Option<Account>,
    /// Whether the program and its children cannot gain privileges (`PR_SET_NO_NEW_PRIVS`).
    pub no_new_privileges: bool,
    /// Resource limits.
    pub limits: ProgramLimits,
    /// Time until its first response.
    pub start_timeout: Duration,
    /// Time from SIGTERM to SIGKILL.
    pub stop_timeout: Duration,
}

impl Program {
    /// Whether the program creates its socket itself, at a given path.
    pub fn binds_itself(&self) -> bool {
        self.command.iter().any(|argument| argument.contains(SOCKET))
    }
}

impl std::fmt::Debug for Program {
    /// Does not print the values of the environment, which may contain secrets.
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

/// Placeholder for the path of an agent's socket.
pub const SOCKET: &str = "{socket}";

/// A user of the operating system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// As written.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// Resource limits of an agent; `None`: no limit of weir.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramLimits {
    /// Bytes of address space.
    pub memory: Option<u64>,
    /// Open files.
    pub files: Option<u64>,
    /// Processes of its user.
    pub processes: Option<u64>,
    /// CPU time.
    pub cpu: Option<Duration>,
}

/// Number of agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentCounts {
    /// Minimum, if they can be started.
    pub min: usize,
    /// At the start (default `min`).
    pub initial: usize,
    /// Maximum; of external agents, of connections.
    pub max: usize,
    /// Maximum number of agents that start at the same time.
    pub starting: usize,
}

/// Requests that wait for an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolQueue {
    /// Maximum length.
    pub max: usize,
    /// Maximum time in the queue.
    pub wait: Duration,
}

/// When an agent is replaced; `None`: never for this reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recycle {
    /// Number of requests.
    pub requests: Option<u64>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// Age.
    pub age: Option<Duration>,
    /// Idle time of an agent above `min`; the agent is stopped without a replacement. Of a
    /// connection: idle time until it is closed.
    pub idle: Option<Duration>,
}

/// Selection of the script of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentScript {
    /// None: the agent itself.
    None,
    /// This file.
    Fixed(PathBuf),
    /// The file named by the path.
    Below(ScriptRoot),
}

/// Scripts selected by path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptRoot {
    /// The folder, without symbolic links.
    pub folder: PathBuf,
    /// File extensions of scripts; empty: any executable file.
    pub extensions: Vec<String>,
    /// Index script of a folder.
    pub index: Option<String>,
}
