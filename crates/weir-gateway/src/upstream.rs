//! Upstreams as one worker sees them: targets, their connections, and the choice between them.
//!
//! Every worker has its own connections; what it learns about a target's health is shared.

mod budget;
mod call;
mod connection;
mod handshake;
pub(crate) mod hash;
mod health;
mod names;
mod service;
mod sessions;
mod upgraded;
mod weights;

pub(crate) use call::Call;
pub(crate) use connection::{Connection, Failed, TakeError};
pub(crate) use handshake::failed_check;
pub(crate) use health::{Health, Healths};
pub(crate) use sessions::Seat;
pub(crate) use upgraded::Upgraded;

use crate::stats::{CallKey, Durations, TargetKey, TargetStats, WorkerStats};
use budget::Budget;
use connection::Idle;
use names::Names;
use rustls_pki_types::ServerName;
use service::Service;
use sessions::Sessions;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use weights::Weights;
use weir_config::{Balance, Protocol, RetriedMethods, Retries, Scheme};

/// Longest pause between two tries, in pauses before the second one.
const LONGEST_PAUSE: u32 = 10;

/// One upstream, as resolved for one worker.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) targets: Vec<Rc<Target>>,
    balance: Balance,
    next: Cell<usize>,
    /// There if the targets weigh differently.
    weights: Option<Weights>,
    /// Hash and weight of each target, there if requests are kept together.
    hashes: Vec<(u64, u32)>,
    /// There if requests that failed are sent again.
    pub(crate) retrying: Option<Retrying>,
    /// Copies of requests that are being made or under way.
    pub(crate) mirrored: Rc<Cell<usize>>,
}

/// How much is sent again.
#[derive(Debug)]
pub(crate) struct Retrying {
    settings: Retries,
    budget: Rc<Budget>,
    /// What this worker may send again in a window whatever the share.
    minimum: f64,
}

/// One target and the connections this worker has to it.
#[derive(Debug)]
pub(crate) struct Target {
    /// Name of its upstream.
    upstream: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What people know it by.
    pub(crate) name: String,
    /// As it goes into the Host header.
    pub(crate) authority: String,
    /// The host, when it is an address and needs no look-up.
    address: Option<SocketAddr>,
    /// There when it is a name, or a service.
    names: Option<Names>,
    tls: Option<Tls>,
    connect_timeout: Duration,
    keep_alive_time: Duration,
    /// Sweeps so far, a second apart: the clock that idle connections age by.
    sweeps: Cell<u64>,
    /// Most connections, and most idle ones, of this worker.
    most: usize,
    most_idle: usize,
    idle: RefCell<VecDeque<Idle>>,
    /// There if it speaks HTTP/2.
    sessions: Option<Sessions>,
    open: Cell<usize>,
    waiting: Cell<usize>,
    retired: Cell<bool>,
    freed: Notify,
    pub(crate) health: Arc<Health>,
    pub(crate) stats: Arc<TargetStats>,
    /// Durations by what tells requests apart.
    series: RefCell<Vec<(CallKey, Arc<Durations>)>>,
}

#[derive(Clone, Debug)]
struct Tls {
    connector: Arc<rustls::ClientConfig>,
    name: ServerName<'static>,
}

impl Upstream {
    /// Resolves an upstream; plain targets that `before` has, too, keep their connections.
    pub(crate) fn new(
        config: &weir_config::Upstream,
        workers: usize,
        stats: &WorkerStats,
        healths: &Healths,
        before: Option<&Self>,
    ) -> Self {
        let share = |limit: usize| limit.div_ceil(workers).max(1);
        let found = healths.configure(config);
        // One without any weight gets nothing, not even checks.
        let chosen = config.targets.iter().zip(found).filter(|(target, _)| target.weight > 0);
        let weights = Weights::new(chosen.clone().map(|(target, _)| target.weight).collect());
        let hash =
            |target: &weir_config::Target| (hash::of(target.name().as_bytes()), target.weight);
        let hashes = match config.balance {
            Balance::Hash => chosen.clone().map(|(target, _)| hash(target)).collect(),
            Balance::RoundRobin | Balance::LeastBusy => Vec::new(),
        };
        let targets = chosen.map(|(target, health)| {
            let address = target.host.parse::<IpAddr>().ok();
            let service = target.service.as_ref().map(|name| Service {
                name: name.clone(),
                resolver: config.resolver,
                patience: config.connect_timeout,
            });
            let tls = config.tls.as_ref().and_then(|tls| {
                let own = || ServerName::try_from(target.host.clone()).ok();
                let name = tls.server_name.clone().or_else(own)?;
                Some(Tls { connector: Arc::clone(&tls.client), name })
            });
            let fresh = Target {
                upstream: config.name.clone(),
                host: target.host.clone(),
                port: target.port,
                name: target.name().to_owned(),
                authority: target.authority.clone(),
                address: address.map(|ip| SocketAddr::new(ip, target.port)),
                names: address.is_none().then(|| Names::new(config.resolve, service)),
                tls: tls.filter(|_| target.scheme == Scheme::Https),
                connect_timeout: config.connect_timeout,
                keep_alive_time: config.keep_alive_time,
                sweeps: Cell::new(0),
                most: share(config.connections),
                most_idle: share(config.keep_alive),
                idle: RefCell::default(),
                sessions: (config.protocol == Protocol::Http2).then(Sessions::default),
                open: Cell::new(0),
                waiting: Cell::new(0),
                retired: Cell::new(false),
                freed: Notify::new(),
                health,
                stats: stats.target(TargetKey {
                    upstream: config.name.clone(),
                    host: target.service.as_ref().unwrap_or(&target.host).clone(),
                    port: target.port,
                    name: target.name().to_owned(),
                }),
                series: RefCell::default(),
            };
            let same = before.and_then(|b| b.targets.iter().find(|old| old.is_same(&fresh)));
            same.map_or_else(|| Rc::new(fresh), Rc::clone)
        });
        let retrying = config.retries.as_ref().map(|retries| {
            let same = before.and_then(|b| b.retrying.as_ref()).map(|r| Rc::clone(&r.budget));
            Retrying {
                budget: same.unwrap_or_else(|| Rc::new(Budget::new(Instant::now()))),
                settings: retries.clone(),
                minimum: budget::minimum_of_worker(retries.minimum, workers),
            }
        });
        Self {
            targets: targets.collect(),
            balance: config.balance,
            next: Cell::new(0),
            weights,
            hashes,
            retrying,
            mirrored: before.map(|before| Rc::clone(&before.mirrored)).unwrap_or_default(),
        }
    }

    /// Chooses a target, passing over those in `tried`; by `key` if there is one. When every target is out of service the
    /// choice is made as if none were: a wrong guess about health must not make an outage.
    pub(crate) fn choose(&self, tried: &[usize], key: Option<u64>) -> Option<usize> {
        let count = self.targets.len();
        if count == 1 {
            return tried.is_empty().then_some(0);
        }
        let now = Instant::now();
        let untried = |index: &usize| !tried.contains(index);
        let open = |index| untried(&index) && self.targets[index].health.may_admit(now);
        let by_key = key.filter(|_| self.balance == Balance::Hash).and_then(|key| {
            self.best(key, open).or_else(|| self.best(key, |index| untried(&index)))
        });
        let first = match (self.balance, &self.weights) {
            _ if by_key.is_some() => by_key?,
            (Balance::RoundRobin | Balance::Hash, Some(weights)) => {
                // As below: one that takes over for another takes no turn.
                let first = tried.is_empty();
                weights.turn(first, open).or_else(|| weights.turn(first, |at| untried(&at)))?
            }
            (Balance::LeastBusy, Some(weights)) => {
                let (one, other) = weights.two();
                let load = |index: usize| (index, self.targets[index].busy());
                if weights.is_less(load(other), load(one)) { other } else { one }
            }
            (Balance::RoundRobin | Balance::Hash, None) => {
                let next = self.next.get();
                // One that takes over for another has its own turn all the same: else those
                // behind one that fails would be asked by all.
                if tried.is_empty() {
                    self.next.set((next + 1) % count);
                }
                next
            }
            (Balance::LeastBusy, None) => {
                let one = fastrand::usize(..count);
                let other = (one + fastrand::usize(1..count)) % count;
                let busy = |index: usize| self.targets[index].busy();
                if busy(other) < busy(one) { other } else { one }
            }
        };
        let order = || (0..count).map(|step| (first + step) % count).filter(untried);
        order().find(|&index| self.targets[index].health.admits(now)).or_else(|| order().next())
    }
}

impl Upstream {
    /// The best target for a key among those that `may`.
    fn best(&self, key: u64, may: impl Fn(usize) -> bool) -> Option<usize> {
        let score = |index: usize| {
            let (target, weight) = self.hashes[index];
            hash::score(target, weight, key)
        };
        let may = (0..self.hashes.len()).filter(|index| may(*index));
        may.map(|index| (score(index), index)).max_by(|a, b| a.0.total_cmp(&b.0)).map(|best| best.1)
    }
}

impl Retrying {
    /// A request is sent for the first time.
    pub(crate) fn request(&self, now: Instant) {
        self.budget.request(now);
    }

    /// Whether a request may be sent again, which is then counted.
    pub(crate) fn spend(&self, now: Instant) -> bool {
        self.budget.spend(self.settings.budget, self.minimum, now)
    }

    /// Whether an answer with this status is not good enough.
    pub(crate) fn wants_another(&self, status: u16) -> bool {
        self.settings.statuses.contains(&status)
    }

    /// The time of one try to the first byte of its answer.
    pub(crate) fn try_time(&self, of_request: Duration) -> Duration {
        self.settings.timeout.map_or(of_request, |timeout| timeout.min(of_request))
    }

    /// Whether requests are sent again that may have been dealt with, whatever their method.
    pub(crate) fn any_method(&self) -> bool {
        self.settings.methods == RetriedMethods::Any
    }

    /// Tries in all, the first among them.
    pub(crate) fn tries(&self) -> u32 {
        self.settings.tries
    }

    /// After how long without an answer there is a second try beside the first one.
    pub(crate) fn hedge(&self) -> Option<Duration> {
        self.settings.hedge
    }

    /// The pause after so many tries: random, up to a bound that doubles with each.
    pub(crate) fn pause(&self, tries: u32) -> Duration {
        let longest = self.settings.backoff * 2u32.saturating_pow(tries - 1).min(LONGEST_PAUSE);
        longest.mul_f64(fastrand::f64())
    }
}

impl Target {
    /// Name of its upstream.
    pub(crate) fn upstream(&self) -> &str {
        &self.upstream
    }

    /// Requests in flight on this worker.
    fn busy(&self) -> usize {
        if let Some(sessions) = &self.sessions {
            return sessions.busy();
        }
        self.open.get().saturating_sub(self.idle.borrow().len())
    }

    /// Whether connections to the one serve the other. Those over TLS do not: certificates and
    /// roots may have changed.
    fn is_same(&self, other: &Self) -> bool {
        self.tls.is_none()
            && other.tls.is_none()
            && self.sessions.is_some() == other.sessions.is_some()
            && self.names.as_ref().map(Names::source) == other.names.as_ref().map(Names::source)
            && (&self.host, self.port) == (&other.host, other.port)
            && (self.connect_timeout, self.keep_alive_time, self.most, self.most_idle)
                == (other.connect_timeout, other.keep_alive_time, other.most, other.most_idle)
    }
}
