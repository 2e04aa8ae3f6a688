//! Connections to agents.

use super::{AGENTS_TRIED, lease, turned_away};
use crate::agent_connections::LeaseGuard;
use crate::clock;
use crate::deadline::{Expired, Wait};
use crate::descriptors::is_exhausted;
use crate::exchange::Exchange;
use crate::problem::Problem;
use crate::refusal::Refusal;
use crate::stream::Stream;
use crate::upstream::{Connection, Failed};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::net::{TcpStream, UnixStream};
use weir_broker::{Lease, Outcome, Pool, Refused};
use weir_config::AgentAddress;

/// How long connecting may take. Agents are near.
const CONNECT: Duration = Duration::from_secs(2);

/// How often a request is sent again that an agent has lost without a word. Agents that end after
/// so many requests do so together when they have had the same share of them.
const REPEATS: usize = 4;

/// Whether a request that was lost with this connection may be sent again, as far as its agent is
/// concerned: servers close connections that were kept for long, and programs may end after any
/// request. One that has crashed may have done so because of this request.
pub(super) async fn may_repeat(connection: &mut Connection, repeats: usize) -> bool {
    if connection.reused || repeats >= REPEATS {
        return connection.reused;
    }
    match connection.hold() {
        Some(hold) => hold.has_ended().await,
        None => false,
    }
}

/// Says that the agent at the other end of a new connection answers: it has begun well.
pub(super) fn answers(connection: &mut Connection) {
    if !connection.reused
        && let Some(lease) = connection.hold().and_then(LeaseGuard::lease)
    {
        lease.answers();
    }
}

/// A connection for a request that was lost: a new one to the same agent if this one had been kept;
/// to another one if that has ended.
pub(super) async fn again(
    exchange: &mut Exchange,
    pool: &Arc<Pool>,
    mut connection: Box<Connection>,
) -> Result<Box<Connection>, Refusal> {
    exchange.recording.sent_again();
    if connection.reused
        && let Some(lease) = connection.hold().and_then(LeaseGuard::lease)
        && let Ok(stream) = fresh(exchange, lease).await
    {
        connection.replace_stream(stream);
        return Ok(connection);
    }
    connection.failed(Failed::Closed);
    agent(exchange, pool, false).await
}

/// Leases an agent and connects to it, by a connection that was kept if there may be one; to
/// another agent if that fails.
pub(super) async fn agent(
    exchange: &mut Exchange,
    pool: &Arc<Pool>,
    kept: bool,
) -> Result<Box<Connection>, Refusal> {
    let (mut tried, since) = (0, Instant::now());
    loop {
        let mut lease = lease(exchange, pool).await?;
        tried += 1;
        let worker = exchange.worker;
        if let Some(stream) = worker.agents.take(lease.agent()).filter(|_| kept) {
            lease.sending();
            let hold = LeaseGuard::new(&worker.agents, lease, None);
            return Ok(Connection::to_agent(stream, true, hold));
        }
        let connecting = clock::now();
        match fresh(exchange, &lease).await {
            Ok(stream) => {
                exchange.recording.connected(connecting);
                lease.sending();
                return Ok(Connection::to_agent(
                    stream,
                    false,
                    LeaseGuard::new(&worker.agents, lease, None),
                ));
            }
            Err(error) if error.problem == Problem::DescriptorsExhausted => {
                let _ = lease.settle(Outcome::Check);
                return Err(error);
            }
            Err(error) => {
                // It has ended, or its manager is not there.
                let _ = lease.settle(Outcome::Check);
                // Others may live, or be starting: this one may wait as long as in the queue.
                let waits = pool.starts_agents() && since.elapsed() < pool.queue_wait();
                if tried >= AGENTS_TRIED && !waits {
                    let refused = Refused::Unavailable { retry: Duration::from_secs(1) };
                    return Err(Refusal { detail: error.detail, ..turned_away(refused) });
                }
            }
        }
    }
}

/// A new connection to a leased agent.
pub(super) async fn fresh(exchange: &Exchange, lease: &Lease) -> Result<Stream, Refusal> {
    let deadline = Rc::clone(&exchange.deadline);
    deadline.progress();
    let mut connecting = pin!(open(lease.address()));
    let connected = poll_fn(|cx| {
        if let Poll::Ready(connected) = connecting.as_mut().poll(cx) {
            return Poll::Ready(Ok(connected));
        }
        deadline.poll(cx, Wait::Connect, CONNECT).map(Err)
    });
    match connected.await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) if is_exhausted(&error) => Err(Problem::DescriptorsExhausted.into()),
        // The kind says enough; the text could name paths.
        Ok(Err(error)) => {
            Err(Refusal::new(Problem::UpstreamUnreachable).detail(error.kind().to_string()))
        }
        Err(expired @ (Expired::Request | Expired::Wait(_))) => Err(Refusal::from(expired)),
    }
}

async fn open(address: Option<&AgentAddress>) -> io::Result<Stream> {
    match address {
        Some(AgentAddress::Unix(path)) => Ok(Stream::unix(UnixStream::connect(path).await?)),
        Some(AgentAddress::Tcp(addr)) => {
            let tcp = TcpStream::connect(addr).await?;
            tcp.set_nodelay(true)?;
            Ok(Stream::tcp(tcp))
        }
        None => Err(io::ErrorKind::AddrNotAvailable.into()),
    }
}
