//! Tokens of rates, leased from Redis.
//!
//! The [`RateLeaser`] answers the demands of this node's limiter, on a connection and in a thread of
//! its own: requests wait for it. While Redis fails, the [circuit breaker](breaker) is open, and the
//! limiter decides without it. Tokens are valid from before they were requested, so in no interval t
//! the fleet admits more than burst + rate·(t + lease).

mod breaker;

use crate::host::Host;
use crate::redis::{ConnectRedis, RedisConnection, RedisError, Take, Taken};
use crate::status::RedisStatus;
use breaker::{Breaker, PROBE_INTERVAL};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::timeout;
use weir_config::{FleetRateMode, FleetRates, RateOutage};
use weir_limit::{Fallback, Limiter, RateDemand, RateMode};

/// Time to connect while the breaker is open, including TLS and authentication.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Without a demand for so long, a request finds out that Redis is gone.
const IDLE: Duration = Duration::from_secs(1);
/// Most demands in one round: Redis takes a few milliseconds for them.
const MAX_ROUND: usize = 500;

/// How rates are enforced.
#[derive(Clone, Debug)]
pub(crate) struct RateSettings {
    /// Name of the fleet.
    pub(crate) fleet: String,
    pub(crate) rates: FleetRates,
    pub(crate) redis: Option<ConnectRedis>,
}

impl RateSettings {
    fn fallback(&self) -> Fallback {
        match self.rates.on_outage {
            RateOutage::Share => Fallback::Share,
            RateOutage::Deny => Fallback::Deny,
            RateOutage::Allow => Fallback::Allow,
        }
    }

    /// How rates are enforced without Redis; `None`: by it.
    fn mode(&self) -> Option<RateMode> {
        match self.rates.mode {
            FleetRateMode::Share => Some(RateMode::Shares),
            FleetRateMode::Local => Some(RateMode::Local),
            FleetRateMode::Redis => None,
        }
    }

    /// What happens to requests while Redis is down, for people.
    fn outage(&self) -> &'static str {
        match self.rates.on_outage {
            RateOutage::Share => "each node enforces its share of the rates",
            RateOutage::Deny => "requests with a rate are rejected",
            RateOutage::Allow => "rates are not enforced",
        }
    }
}

/// How rates are enforced, and whether Redis is in use; shared by the member and the leaser.
#[derive(Debug)]
pub(crate) struct Rates {
    limiter: Arc<Limiter>,
    settings: Mutex<RateSettings>,
    changed: Notify,
    /// `None` while tokens are not leased.
    status: Mutex<Option<RedisStatus>>,
    failures: AtomicU64,
}

impl Rates {
    pub(crate) fn new(settings: RateSettings, limiter: &Arc<Limiter>) -> Self {
        let rates = Self {
            limiter: Arc::clone(limiter),
            settings: Mutex::new(settings.clone()),
            changed: Notify::new(),
            status: Mutex::default(),
            failures: AtomicU64::new(0),
        };
        rates.configure(settings);
        rates
    }

    /// Sets how rates are enforced from now on.
    pub(crate) fn configure(&self, settings: RateSettings) {
        self.limiter.set_lease_timeout(settings.rates.timeout);
        // Where tokens can be leased, the leaser alone changes the mode.
        if let (Some(mode), None) = (settings.mode(), &settings.redis) {
            self.limiter.set_rate_mode(mode, self.limiter.now());
        }
        *self.settings.lock() = settings;
        self.wake();
    }

    /// Ends a pause of the leaser.
    pub(crate) fn wake(&self) {
        self.changed.notify_one();
    }

    /// The state of Redis; `None` while tokens are not leased.
    pub(crate) fn status(&self) -> Option<RedisStatus> {
        self.status.lock().clone()
    }

    /// Failed rounds and attempts to connect.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// What an outage of Redis means, if there is one.
    pub(crate) fn outage(&self) -> Option<String> {
        let error = self.status()?.error?;
        Some(format!("{}: {error}", self.settings.lock().outage()))
    }

    /// Whether the leaser has something to do.
    pub(crate) fn has_redis(&self) -> bool {
        self.settings.lock().redis.is_some()
    }
}

/// Leases tokens from Redis, to be run by a thread.
#[derive(Debug)]
pub struct RateLeaser {
    rates: Arc<Rates>,
    breaker: Breaker,
    connection: Option<RedisConnection>,
    /// Demands without an answer. New ones are taken once there are none, so each bucket is in it once.
    pending: Vec<RateDemand>,
    /// What the limiter does.
    mode: Option<RateMode>,
}

impl RateLeaser {
    pub(crate) fn new(rates: &Arc<Rates>) -> Self {
        Self {
            rates: Arc::clone(rates),
            breaker: Breaker::new(),
            connection: None,
            pending: Vec::new(),
            mode: None,
        }
    }

    /// Answers demands for tokens until it is to end.
    pub async fn run(&mut self, host: &mut impl Host) {
        while !host.stopped() {
            let settings = self.rates.settings.lock().clone();
            match (settings.mode(), &settings.redis) {
                (None, Some(redis)) => self.step(&settings, redis, host).await,
                (mode, _) => self.rest(mode.unwrap_or(RateMode::Shares)).await,
            }
        }
        // Requests that are still in flight do not wait for anybody.
        let fallback = self.rates.settings.lock().fallback();
        if let Some(RateMode::Leases(_)) = self.mode {
            self.set_mode(RateMode::Outage(fallback));
        }
    }

    /// Discards the connection, after a panic.
    pub fn recover(&mut self) {
        self.reset();
    }

    /// Ends a pause.
    pub fn waker(&self) -> impl Fn() + Send + Sync + 'static {
        let rates = Arc::clone(&self.rates);
        move || rates.wake()
    }

    fn reset(&mut self) {
        (self.breaker, self.connection, self.mode) = (Breaker::new(), None, None);
        self.pending.clear();
    }

    fn set_mode(&mut self, mode: RateMode) {
        if self.mode.replace(mode) != Some(mode) {
            self.rates.limiter.set_rate_mode(mode, self.rates.limiter.now());
        }
    }

    /// Waits for other settings; tokens are not leased.
    async fn rest(&mut self, mode: RateMode) {
        self.reset();
        *self.rates.status.lock() = None;
        self.set_mode(mode);
        self.rates.changed.notified().await;
    }

    async fn step(&mut self, settings: &RateSettings, redis: &ConnectRedis, host: &mut impl Host) {
        if self.breaker.is_open() {
            self.set_mode(RateMode::Outage(settings.fallback()));
            let result = self.probe(settings, redis, CONNECT_TIMEOUT).await;
            self.note(result, settings, redis, host);
            if self.breaker.is_open() {
                self.pause(PROBE_INTERVAL).await;
            }
            return;
        }
        self.set_mode(RateMode::Leases(settings.fallback()));
        let limit = settings.rates.timeout;
        if self.pending.is_empty() {
            let is_idle = tokio::select! {
                () = self.rates.limiter.tokens_demanded() => false,
                () = tokio::time::sleep(IDLE) => true,
                () = self.rates.changed.notified() => return,
            };
            self.pending = self.rates.limiter.rate_demands(self.rates.limiter.now());
            if self.pending.is_empty() {
                if is_idle {
                    let result = self.probe(settings, redis, limit).await;
                    self.note(result, settings, redis, host);
                }
                return;
            }
        }
        let result = self.answer(settings, redis).await;
        self.note(result, settings, redis, host);
    }

    async fn pause(&self, time: Duration) {
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = self.rates.changed.notified() => {}
        }
    }

    /// Counts the result of a request to Redis.
    fn note(
        &mut self,
        result: Result<(), RedisError>,
        settings: &RateSettings,
        redis: &ConnectRedis,
        host: &mut impl Host,
    ) {
        let at = redis.redis.shown();
        let Err(error) = result else {
            self.breaker.succeeded(Instant::now());
            if !self.breaker.is_open() {
                host.succeeded();
                *self.rates.status.lock() = Some(RedisStatus { up: true, at, error: None });
            }
            return;
        };
        self.connection = None;
        self.breaker.failed(Instant::now());
        self.rates.failures.fetch_add(1, Ordering::Relaxed);
        if self.breaker.is_open() {
            self.pending.clear();
            // Requests do not wait from now on.
            self.set_mode(RateMode::Outage(settings.fallback()));
            host.failed(&format!("fleet: {error} ({at}); {}", settings.outage()));
            let error = Some(error.to_string());
            *self.rates.status.lock() = Some(RedisStatus { up: false, at, error });
        }
    }

    /// A request for a token of a bucket that no limit has.
    async fn probe(
        &mut self,
        settings: &RateSettings,
        redis: &ConnectRedis,
        connect_timeout: Duration,
    ) -> Result<(), RedisError> {
        let key = format!("weir:{}:probe", settings.fleet);
        let probe = Take { key: &key, interval: Duration::from_millis(1), burst: 1000, tokens: 1 };
        let limit = settings.rates.timeout;
        self.take(redis, &[probe], (connect_timeout, limit)).await.map(drop)
    }

    /// Answers pending demands, in rounds.
    async fn answer(
        &mut self,
        settings: &RateSettings,
        redis: &ConnectRedis,
    ) -> Result<(), RedisError> {
        let FleetRates { lease, timeout, .. } = settings.rates;
        while !self.pending.is_empty() {
            let mut round = std::mem::take(&mut self.pending);
            self.pending = round.split_off(round.len().min(MAX_ROUND));
            let key = |demand: &RateDemand| format!("weir:{}:rate:{}", settings.fleet, demand.name);
            let keys: Vec<String> = round.iter().map(key).collect();
            let take = |(demand, key): (&RateDemand, _)| {
                let RateDemand { interval, burst, tokens, .. } = *demand;
                Take { key, interval, burst, tokens }
            };
            let requests: Vec<Take<'_>> =
                round.iter().zip(keys.iter().map(String::as_str)).map(take).collect();
            let sent = Instant::now();
            match self.take(redis, &requests, (timeout, timeout)).await {
                Ok(taken) => self.grant(&round, taken, lease, sent),
                Err(error) => {
                    // They are tried again, unless the breaker opens.
                    self.pending.append(&mut round);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Gives the limiter what Redis has granted for a round.
    fn grant(&self, round: &[RateDemand], taken: Vec<Taken>, lease: Duration, sent: Instant) {
        let limiter = &self.rates.limiter;
        let now = limiter.now();
        // Redis may have granted them right after the request was sent.
        let valid = lease.saturating_sub(sent.elapsed());
        for (demand, taken) in round.iter().zip(taken) {
            match taken {
                // A late one is counted: the bucket was evicted.
                Taken::Granted(tokens) => drop(limiter.grant_tokens(demand, tokens, valid, now)),
                Taken::Denied(wait) => limiter.deny_tokens(demand, wait, now),
            }
        }
    }

    /// Takes tokens, each step within its time: to connect, and to respond.
    async fn take(
        &mut self,
        redis: &ConnectRedis,
        requests: &[Take<'_>],
        (connect_timeout, limit): (Duration, Duration),
    ) -> Result<Vec<Taken>, RedisError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => RedisConnection::open(redis, connect_timeout).await?,
        };
        let taken = timeout(limit, connection.take(requests)).await;
        let taken = taken.unwrap_or(Err(RedisError::Timeout(limit)))?;
        // One that has failed or timed out is not used again.
        self.connection = Some(connection);
        Ok(taken)
    }
}
