//! Agents of a pool: leases, connections, and the requests sent to agents.
//!
//! An agent serves one request at a time. A request without a byte of a response is repeated only
//! if the agent had closed a keep-alive connection, or exited normally.

use super::attempt::{Failed, Failure, Reached, Scope, Upload, attempt};
use super::{Connection, SendReport};
use crate::address::connect_unix;
use crate::agent_connections::{AgentConnections, LeaseGuard};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use weir_broker::{Lease, Outcome, Pool, Refused};
use weir_http::clock;
use weir_http::deadline::{Deadline, Expired, Wait};
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_http::socket::Socket;
use weir_http::stream::Stream;
use weir_model::pool::AgentAddress;
use weir_model::stage;
use weir_net::descriptors::is_exhausted;
use weir_telemetry::stage_times::StageTimes;
use weir_wire::ResponseHead;

/// Limit on connecting to an agent, which is on the same machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of agents to connect to for a request.
const MAX_CONNECTS: usize = 3;
/// Maximum number of repeats of a lost request. Agents that exit after a number of requests do so
/// at the same time if they have served equal shares.
const MAX_REPEATS: usize = 4;

/// Agents of a pool, for one request.
pub struct Agents<'p> {
    /// The pool.
    pub pool: &'p Arc<Pool>,
    /// Index of this worker.
    pub worker: usize,
    /// This worker's connections to agents.
    pub connections: &'static AgentConnections,
    /// Deadline of the request.
    pub deadline: &'p Deadline,
    /// Some if durations are recorded.
    pub times: Option<&'p mut StageTimes>,
    /// The report of the attempts.
    pub report: &'p SendReport,
}

impl Agents<'_> {
    /// Leases an agent. Waits in the queue of the pool if all are busy.
    pub async fn lease(&mut self) -> Result<Lease, Rejection> {
        let mut pending = match self.pool.lease(self.worker) {
            Ok(Ok(lease)) => return Ok(lease),
            Ok(Err(pending)) => pending,
            Err(refused) => return Err(rejected(refused)),
        };
        let (deadline, limit) = (self.deadline, pending.limit());
        let granted = poll_fn(|cx| pending.poll(cx));
        let lease = match deadline.within(Wait::Agent, limit, granted).await {
            Ok(Ok(lease)) => lease,
            Ok(Err(refused)) => return Err(rejected(refused)),
            Err(Expired::Request) => return Err(Rejection::from(Expired::Request)),
            Err(Expired::Wait(_)) => return Err(rejected(pending.expire())),
        };
        deadline.progress();
        self.record(stage::QUEUE, || lease.waited());
        Ok(lease)
    }

    /// Leases an agent and checks out the connection to it, if any, or connects; if that fails, to
    /// another agent.
    pub async fn check_out(&mut self) -> Result<Box<Connection>, Rejection> {
        self.connection(true).await
    }

    async fn connection(&mut self, may_be_reused: bool) -> Result<Box<Connection>, Rejection> {
        let (mut connects, since) = (0, Instant::now());
        loop {
            let lease = self.lease().await?;
            connects += 1;
            let idle = self.connections.check_out(lease.agent());
            if let Some(stream) = idle.filter(|_| may_be_reused) {
                return Ok(self.leased(lease, stream, true));
            }
            let connecting = clock::now();
            let error = match self.connect(&lease).await {
                Ok(stream) => {
                    self.record(stage::CONNECT, || {
                        clock::now().saturating_duration_since(connecting)
                    });
                    return Ok(self.leased(lease, stream, false));
                }
                Err(error) => error,
            };
            // The agent has exited, or its manager is not running.
            let _ = lease.release(Outcome::Check);
            if error.problem == Problem::DescriptorsExhausted {
                return Err(error);
            }
            // Other agents may be running or starting: the request may wait as long as in the queue.
            let waits = self.pool.keeps_processes() && since.elapsed() < self.pool.queue_wait();
            if connects >= MAX_CONNECTS && !waits {
                let refused = rejected(Refused::Unavailable { retry: Duration::from_secs(1) });
                return Err(match &error.details().detail {
                    Some(detail) => refused.detail(detail.clone()),
                    None => refused,
                });
            }
        }
    }

    fn leased(&self, mut lease: Lease, stream: Stream, reused: bool) -> Box<Connection> {
        lease.mark_sent();
        let guard = LeaseGuard::new(self.connections, lease, None);
        Connection::to_agent(stream, reused, guard)
    }

    /// Connects to a leased agent.
    async fn connect(&self, lease: &Lease) -> Result<Stream, Rejection> {
        let connecting = open(lease.address());
        let connected = self.deadline.within(Wait::Connect, CONNECT_TIMEOUT, connecting).await?;
        connected.map_err(|error| match is_exhausted(&error) {
            true => Problem::DescriptorsExhausted.into(),
            // Only the kind is shown: the message could contain paths.
            false => Rejection::new(Problem::UpstreamUnreachable).detail(error.kind().to_string()),
        })
    }

    /// Sends a request to the agent of `connection`, or to another agent if the request is lost.
    /// The head of the response is then in `response`.
    pub async fn send<U: Upload<Channel = Box<Connection>>>(
        &mut self,
        mut connection: Box<Connection>,
        upload: &mut U,
        response: &mut ResponseHead,
        scope: &Scope<'_>,
    ) -> Result<(Box<Connection>, U::Arrived), Rejection> {
        let mut repeats = 0;
        loop {
            let failure = match attempt(&mut connection, upload, response, scope).await {
                Ok(arrived) => {
                    responds(&mut connection);
                    return Ok((connection, arrived));
                }
                Err(failure) => failure,
            };
            let repeat = matches!(failure, Failure::Closed(Reached::NoResponse))
                && upload.may_repeat(scope.method)
                && may_repeat(&mut connection, repeats).await;
            if !repeat {
                upload.abort(&connection);
                return Err(abandon(failure, *connection));
            }
            repeats += 1;
            connection = self.replace(connection).await?;
            upload.rewind();
        }
    }

    /// A connection for a lost request: a new one to the same agent if `connection` was reused; to
    /// another agent if that one has exited.
    async fn replace(
        &mut self,
        mut connection: Box<Connection>,
    ) -> Result<Box<Connection>, Rejection> {
        self.report.count_retry();
        if connection.reused
            && let Some(lease) = connection.lease().and_then(LeaseGuard::lease)
            && let Ok(stream) = self.connect(lease).await
        {
            connection.replace_stream(stream);
            return Ok(connection);
        }
        connection.failed(Failed::Closed);
        self.connection(false).await
    }

    fn record(&mut self, code: u8, duration: impl FnOnce() -> Duration) {
        if let Some(times) = &mut self.times {
            times.add(code, duration());
        }
    }
}

/// Whether a request that was lost on this connection may be sent again: servers close idle
/// connections, and programs may exit after any request. A crashed agent may have crashed because
/// of this request.
async fn may_repeat(connection: &mut Connection, repeats: usize) -> bool {
    if connection.reused || repeats >= MAX_REPEATS {
        return connection.reused;
    }
    match connection.lease() {
        Some(lease) => lease.has_exited().await,
        None => false,
    }
}

/// The agent of a new connection responds: its start succeeded.
fn responds(connection: &mut Connection) {
    if !connection.reused
        && let Some(lease) = connection.lease().and_then(LeaseGuard::lease)
    {
        lease.mark_responding();
    }
}

/// Ends the lease after a failure. Dropping the connection probes the agent.
fn abandon(failure: Failure, connection: Connection) -> Rejection {
    match failure.peer_failure() {
        Some(failure) => connection.failed(failure),
        None if matches!(failure, Failure::Overloaded) => connection.close(),
        None => drop(connection),
    }
    failure.into()
}

/// 503, with `Retry-After`.
fn rejected(refused: Refused) -> Rejection {
    let (problem, retry, detail) = match refused {
        Refused::Full { retry } => (Problem::PoolBusy, retry, "the pool's queue is full"),
        Refused::Expired { retry } => (Problem::PoolBusy, retry, "no agent was available in time"),
        Refused::Unavailable { retry } => {
            (Problem::PoolUnavailable, retry, "no agent can be started")
        }
    };
    let seconds = retry.max(Duration::from_secs(1)).as_secs();
    Rejection::new(problem).detail(detail).header("retry-after", seconds.to_string())
}

async fn open(address: Option<&AgentAddress>) -> io::Result<Stream> {
    match address {
        Some(AgentAddress::Unix(path)) => {
            Ok(Stream::plain(Socket::unix(connect_unix(path).await?)?))
        }
        Some(AgentAddress::Tcp(addr)) => {
            let tcp = TcpStream::connect(addr).await?;
            tcp.set_nodelay(true)?;
            Ok(Stream::plain(Socket::tcp(tcp)?))
        }
        None => Err(io::ErrorKind::AddrNotAvailable.into()),
    }
}
