//! Upstreams of a worker: targets, their connections, and sending of requests.
//!
//! ```text
//! pick a target → check out a connection → attempt → retry or hedge → response
//! ```
//!
//! Every worker has its own connections. The health of targets is shared between workers.

mod address;
mod agent;
pub mod agent_connections;
mod attempt;
mod budget;
pub mod check;
mod connection;
mod fastcgi;
mod handshake;
pub mod hash;
mod health;
mod http1;
mod http2;
mod open_attempt;
mod pick;
mod request;
mod resolver;
mod response;
mod retry;
mod send;
mod service;
mod target_upload;
mod upgraded;
mod weights;

pub use agent::Agents;
pub use attempt::{Scope, Timeouts};
use connection::CheckOutError;
pub use connection::Connection;
pub use fastcgi::{AgentOutcome, FastCgiUpload};
use handshake::failed_check;
pub use health::{Health, HealthSeries, Healths};
pub use http1::{Http1Response, Http1Upload};
use http2::Http2Response;
pub use http2::{Http2Upload, TrailerFilter};
pub use open_attempt::{EndedAttempt, OpenAttempt};
pub use request::OutboundRequest;
pub use response::UpstreamBody;
pub use send::{Outcome, Plan, SendReport, send};
pub use target_upload::Finished;
pub use upgraded::Upgraded;

use address::{Address, server_address};
use connection::Idle;
use http2::Http2Connections;
use resolver::Resolver;
use retry::RetryPolicy;
use rustls_pki_types::ServerName;
use service::Service;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use weights::Weights;
use weir_config::{Balance, Credential, Protocol, Scheme};
use weir_telemetry::stats::{CallKey, Durations, TargetKey, TargetStats, WorkerStats};

/// An upstream, resolved for one worker.
#[derive(Debug)]
pub struct Upstream {
    /// Targets with a weight, in the order of the configuration.
    pub targets: Vec<Rc<Target>>,
    /// Timeouts of the response.
    pub timeouts: Timeouts,
    /// weir's own credential, added to every request.
    pub credential: Option<Credential>,
    balance: Balance,
    next: Cell<usize>,
    /// Some if the targets have different weights.
    weights: Option<Weights>,
    /// Hash and weight of each target, for `balance: hash`.
    hashes: Vec<(u64, u32)>,
    /// Some if failed requests are retried.
    retries: Option<RetryPolicy>,
    /// Number of mirrored requests that are being read or sent.
    pub mirrored: Rc<Cell<usize>>,
}

/// A target and the connections of this worker to it.
#[derive(Debug)]
pub struct Target {
    /// Name of its upstream.
    upstream: String,
    /// Host name or address.
    pub host: String,
    /// The host in spans.
    server_address: String,
    /// Port; 0 of a service and of a Unix domain socket.
    pub port: u16,
    /// Display name.
    pub name: String,
    /// Value of the `Host` header.
    pub authority: String,
    /// The address, unless the host is a name or a service.
    address: Option<Address>,
    /// Some if the host is a name or a service.
    resolver: Option<Resolver>,
    tls: Option<Tls>,
    connect_timeout: Duration,
    keep_alive_time: Duration,
    /// Seconds since creation: the clock of idle times.
    ticks: Cell<u64>,
    /// Maximum numbers of connections and of idle connections of this worker.
    max_connections: usize,
    max_idle: usize,
    idle: RefCell<VecDeque<Idle>>,
    /// Some for HTTP/2.
    http2: Option<Http2Connections>,
    open: Cell<usize>,
    /// Number of pending requests, which wait for a connection.
    pending: Cell<usize>,
    /// Whether a reload has removed the target.
    draining: Cell<bool>,
    /// Notifies that a connection or a stream was released.
    released: Notify,
    /// Health, shared by all workers.
    pub health: Arc<Health>,
    /// Counters of this worker.
    pub stats: Arc<TargetStats>,
    /// Durations by labels.
    series: RefCell<Vec<(CallKey, Arc<Durations>)>>,
}

#[derive(Clone, Debug)]
struct Tls {
    connector: Arc<rustls::ClientConfig>,
    name: ServerName<'static>,
}

impl Upstream {
    /// Resolves an upstream. Targets without TLS that are in `before`, too, keep their connections.
    pub fn new(
        config: &weir_config::Upstream,
        client: Option<&Arc<rustls::ClientConfig>>,
        workers: usize,
        stats: &WorkerStats,
        healths: &Healths,
        before: Option<&Self>,
    ) -> Self {
        let share = |limit: usize| limit.div_ceil(workers).max(1);
        let found = healths.configure(config);
        // A target with weight 0 gets no requests and no health checks.
        let chosen = config.targets.iter().zip(found).filter(|(target, _)| target.weight > 0);
        let weights = Weights::new(chosen.clone().map(|(target, _)| target.weight).collect());
        let hash =
            |target: &weir_config::Target| (hash::of(target.name().as_bytes()), target.weight);
        let hashes = match config.balance {
            Balance::Hash => chosen.clone().map(|(target, _)| hash(target)).collect(),
            Balance::RoundRobin | Balance::LeastBusy => Vec::new(),
        };
        let targets = chosen.map(|(target, health)| {
            let address = Address::of(target);
            let service = target.service.as_ref().map(|name| Service {
                name: name.clone(),
                resolver: config.resolver,
                timeout: config.connect_timeout,
            });
            let tls = config.tls.as_ref().and_then(|tls| {
                let own = || ServerName::try_from(target.host.clone()).ok();
                let name = tls.server_name.clone().or_else(own)?;
                Some(Tls { connector: Arc::clone(client?), name })
            });
            let fresh = Target {
                upstream: config.name.clone(),
                host: target.host.clone(),
                server_address: server_address(target).to_owned(),
                port: target.port,
                name: target.name().to_owned(),
                authority: target.authority.clone(),
                resolver: address.is_none().then(|| Resolver::new(config.resolve, service)),
                address,
                tls: tls.filter(|_| target.scheme == Scheme::Https),
                connect_timeout: config.connect_timeout,
                keep_alive_time: config.keep_alive_time,
                ticks: Cell::new(0),
                max_connections: share(config.connections),
                max_idle: share(config.keep_alive),
                idle: RefCell::default(),
                http2: (config.protocol == Protocol::Http2).then(Http2Connections::default),
                open: Cell::new(0),
                pending: Cell::new(0),
                draining: Cell::new(false),
                released: Notify::new(),
                health,
                stats: stats.target(TargetKey {
                    upstream: config.name.clone(),
                    host: target.service.as_deref().unwrap_or(server_address(target)).to_owned(),
                    port: target.port,
                    name: target.name().to_owned(),
                }),
                series: RefCell::default(),
            };
            let same = before.and_then(|b| b.targets.iter().find(|old| old.is_same(&fresh)));
            same.map_or_else(|| Rc::new(fresh), Rc::clone)
        });
        let retries = config.retries.as_ref().map(|retries| {
            RetryPolicy::new(retries, workers, before.and_then(|before| before.retries.as_ref()))
        });
        Self {
            targets: targets.collect(),
            balance: config.balance,
            next: Cell::new(0),
            weights,
            hashes,
            retries,
            timeouts: Timeouts { first_byte: config.timeout, idle: config.idle_timeout },
            credential: config.credential.clone(),
            mirrored: before.map(|before| Rc::clone(&before.mirrored)).unwrap_or_default(),
        }
    }
}

impl Upstream {
    /// Whether requests to its targets use HTTP/2.
    pub fn speaks_http2(&self) -> bool {
        self.targets.first().is_some_and(|target| target.speaks_http2())
    }
}

impl Target {
    /// Name of its upstream.
    pub fn upstream(&self) -> &str {
        &self.upstream
    }

    /// The scheme of its URLs.
    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    fn speaks_http2(&self) -> bool {
        self.http2.is_some()
    }

    /// Requests in flight on this worker.
    fn busy(&self) -> usize {
        if let Some(http2) = &self.http2 {
            return http2.busy();
        }
        self.open.get().saturating_sub(self.idle.borrow().len())
    }

    /// Whether connections to `other` can be used for this target. TLS connections cannot:
    /// certificates and roots may have changed.
    fn is_same(&self, other: &Self) -> bool {
        self.tls.is_none()
            && other.tls.is_none()
            && self.http2.is_some() == other.http2.is_some()
            && self.resolver.as_ref().map(Resolver::source)
                == other.resolver.as_ref().map(Resolver::source)
            && self.address == other.address
            && (&self.host, self.port) == (&other.host, other.port)
            && (self.connect_timeout, self.keep_alive_time)
                == (other.connect_timeout, other.keep_alive_time)
            && (self.max_connections, self.max_idle) == (other.max_connections, other.max_idle)
    }
}
