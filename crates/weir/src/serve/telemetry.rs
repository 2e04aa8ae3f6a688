//! The thread that exports traced requests and all metrics to a collector, by OTLP over HTTP.
//!
//! It takes what workers have put down and never holds one of them up: a collector that is slow or
//! gone costs spans, which are counted, and nothing else.

mod attributes;
mod collector;
mod points;
mod spans;

use super::messages::Messages;
use super::post::Upstreams;
use super::tracker::report_panics;
use bytes::Bytes;
use collector::{Outcome, Signal};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use weir_admin::metrics::Family;
use weir_config::Config;
use weir_http_client::Connection;
use weir_server::Gateway;
use weir_telemetry::spans::TracedRequest;

/// Its name.
const THREAD: &str = "telemetry";
/// From one look at what there is to tell to the next.
const TICK: Duration = Duration::from_millis(200);
/// Most spans of one request to a collector.
const BATCH: usize = 512;
/// How long spans wait for more of them.
const LATEST: Duration = Duration::from_secs(5);
/// Most spans that wait; the oldest go.
const MAX_QUEUED_SPANS: usize = 8192;
/// How often spans are sent before they are given up.
const TRIES: u32 = 6;
/// Pause before the second time; it doubles.
const EXPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time for what is left when weir stops.
const LAST: Duration = Duration::from_secs(5);
/// How much nicer than a worker it is.
const NICE: i32 = 5;

/// All metrics at this moment.
pub(crate) type Families = Arc<dyn Fn() -> Vec<Family> + Send + Sync>;

/// Counters of the export.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Spans that a collector has taken.
    pub(crate) exported: AtomicU64,
    /// Spans that went for others.
    pub(crate) overtaken: AtomicU64,
    /// Spans that a collector refused.
    pub(crate) refused: AtomicU64,
    /// Spans given up after tries in vain.
    pub(crate) given_up: AtomicU64,
    /// Spans that wait.
    pub(crate) waiting: AtomicU64,
    /// Requests with traces and with metrics: taken, and in vain.
    pub(crate) posts: [[AtomicU64; 2]; 2],
}

/// The thread, as soon as there is something to tell, and what it needs.
pub(crate) struct Telemetry {
    shared: Arc<Shared>,
    gateway: Arc<Gateway>,
    families: Families,
    messages: Messages,
    /// Tells this process from others.
    instance: String,
    /// Since when counters count, since 1970.
    since: Duration,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    config: Mutex<Arc<Config>>,
    stop: AtomicBool,
    wake: Notify,
    counters: Arc<Counters>,
}

impl Shared {
    fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Telemetry {
    /// Starts the thread if the Config has something to tell.
    pub(crate) fn start(
        config: &Arc<Config>,
        counters: Arc<Counters>,
        (gateway, families): (Arc<Gateway>, Families),
        messages: Messages,
    ) -> Arc<Self> {
        let shared = Shared {
            config: Mutex::new(Arc::clone(config)),
            stop: AtomicBool::new(false),
            wake: Notify::new(),
            counters,
        };
        let shared = Arc::new(shared);
        let (instance, since) =
            (uuid::Builder::from_random_bytes(fastrand::u128(..).to_be_bytes()), unix_time());
        let instance = instance.into_uuid().to_string();
        let thread = Mutex::default();
        let telemetry = Self { shared, gateway, families, messages, instance, since, thread };
        telemetry.reload(config);
        Arc::new(telemetry)
    }

    /// Applies a new Config. Queued spans are exported to its collector.
    pub(crate) fn reload(&self, config: &Arc<Config>) {
        *self.shared.config.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(config);
        self.shared.wake.notify_one();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if config.telemetry.is_some() && thread.is_none() {
            match self.spawn() {
                Ok(spawned) => *thread = Some(spawned),
                Err(error) => self.messages.err(format!("weir: telemetry: {error}")),
            }
        }
    }

    fn spawn(&self) -> std::io::Result<JoinHandle<()>> {
        let mut exporter = Exporter {
            shared: Arc::clone(&self.shared),
            gateway: Arc::clone(&self.gateway),
            families: Arc::clone(&self.families),
            messages: self.messages.clone(),
            upstreams: Upstreams::new(self.shared.config()),
            instance: self.instance.clone(),
            since: self.since,
            waiting: VecDeque::new(),
            spans: 0,
            oldest: Instant::now(),
            batch: None,
            report: Report::default(),
            idle: Default::default(),
            turn: 0,
            failing: false,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        report_panics(self.messages.clone(), THREAD);
        let run = move || {
            // Without permission the priority stays.
            let _ = rustix::process::nice(NICE);
            loop {
                let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(exporter.run())));
                if ended.is_ok() || exporter.shared.stopped() {
                    return;
                }
                exporter.messages.err("weir: telemetry panicked; restarting".into());
                std::thread::sleep(EXPORT_INTERVAL);
                exporter.give_up_batch();
                exporter.report = Report::default();
            }
        };
        std::thread::Builder::new().name(THREAD.to_owned()).spawn(run)
    }

    /// Tells what is left, within a bounded time, and ends the thread.
    pub(crate) fn finish(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.wake.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic has been reported already.
            let _ = thread.join();
        }
    }
}

/// What the thread has.
struct Exporter {
    shared: Arc<Shared>,
    gateway: Arc<Gateway>,
    families: Families,
    messages: Messages,
    upstreams: Upstreams,
    /// Tells this process from others.
    instance: String,
    /// Since when counters count, since 1970.
    since: Duration,
    waiting: VecDeque<TracedRequest>,
    /// How many spans these have.
    spans: usize,
    /// Since when the first of them waits.
    oldest: Instant,
    batch: Option<Batch>,
    report: Report,
    /// Connections for traces and for metrics.
    idle: [Option<Connection>; 2],
    /// Index of the target in use.
    turn: usize,
    failing: bool,
}

/// Spans on their way.
struct Batch {
    body: Bytes,
    spans: u64,
    tries: u32,
    /// Not before then.
    due: Instant,
    busy: bool,
}

/// Reports of metrics.
#[derive(Default)]
struct Report {
    /// When the next one is due; at the end of its time the first one.
    due: Option<Instant>,
    busy: bool,
}

/// What a task that sends brings back.
type Sent = (Signal, Outcome, Option<Connection>);

impl Exporter {
    async fn run(&mut self) {
        let mut posts = JoinSet::new();
        while !self.shared.stopped() {
            self.work(&mut posts, false);
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                Some(sent) = posts.join_next() => self.joined(sent),
                () = shared.wake.notified() => {}
                () = tokio::time::sleep(TICK) => {}
            }
        }
        // What does not make it until then is lost with the process.
        let _ = tokio::time::timeout(LAST, self.finish(&mut posts)).await;
    }

    /// Tells what is left, once.
    async fn finish(&mut self, posts: &mut JoinSet<Sent>) {
        let reports = self.upstreams.config.telemetry.as_ref().is_some_and(|t| t.metrics.is_some());
        if reports && !self.report.busy {
            self.report.due = Some(Instant::now());
        }
        loop {
            self.work(posts, true);
            match posts.join_next().await {
                Some(sent) => self.joined(sent),
                None => return,
            }
            if self.batch.as_ref().is_some_and(|batch| !batch.busy && batch.tries > 0) {
                self.give_up_batch();
            }
            if self.failing {
                return;
            }
        }
    }

    /// Takes what has come, and begins to send what is due; `all` of it if weir stops.
    fn work(&mut self, posts: &mut JoinSet<Sent>, all: bool) {
        let config = self.shared.config();
        if !Arc::ptr_eq(&config, &self.upstreams.config) {
            self.upstreams = Upstreams::new(config);
            self.report.due = None;
            self.idle = Default::default();
        }
        self.collect();
        let now = Instant::now();
        let due = all || self.spans >= BATCH || now.duration_since(self.oldest) >= LATEST;
        if self.batch.is_none() && due && !self.waiting.is_empty() {
            self.batch = Some(self.next_batch());
        }
        if let Some(batch) = self.batch.as_mut().filter(|b| !b.busy && (all || b.due <= now)) {
            batch.busy = true;
            let from = (self.turn, std::mem::take(&mut self.idle[Signal::Traces as usize]));
            posts.spawn(send(self.upstreams.clone(), Signal::Traces, batch.body.clone(), from));
        }
        self.begin_report(posts, now);
    }

    /// Takes what workers have put down.
    fn collect(&mut self) {
        for traced in self.gateway.take_traced() {
            if self.waiting.is_empty() {
                self.oldest = Instant::now();
            }
            self.spans += traced.spans();
            self.waiting.push_back(traced);
        }
        let mut gone = 0;
        while self.spans > MAX_QUEUED_SPANS
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.spans -= oldest.spans();
            gone += oldest.spans();
        }
        let counters = &self.shared.counters;
        counters.overtaken.fetch_add(gone as u64, Ordering::Relaxed);
        let batch = self.batch.as_ref().map_or(0, |batch| batch.spans);
        counters.waiting.store(self.spans as u64 + batch, Ordering::Relaxed);
    }

    fn next_batch(&mut self) -> Batch {
        let (mut taken, mut spans) = (Vec::new(), 0);
        while let Some(next) = self.waiting.front()
            && (taken.is_empty() || spans + next.spans() <= BATCH)
        {
            spans += next.spans();
            taken.extend(self.waiting.pop_front());
        }
        self.spans -= spans;
        let body = Bytes::from(spans::encode(&taken, self.resource()));
        let due = Instant::now();
        Batch { body, spans: spans as u64, tries: 0, due, busy: false }
    }

    fn begin_report(&mut self, posts: &mut JoinSet<Sent>, now: Instant) {
        let every =
            self.upstreams.config.telemetry.as_ref().and_then(|telemetry| telemetry.metrics);
        let Some(every) = every.filter(|_| !self.report.busy) else { return };
        let due = *self.report.due.get_or_insert(now + every);
        if due > now {
            return;
        }
        self.report.due = Some((due + every).max(now));
        self.report.busy = true;
        let span = points::Span { since: self.since, until: unix_time() };
        let body = Bytes::from(points::encode(&(self.families)(), span, self.resource()));
        let from = (self.turn, std::mem::take(&mut self.idle[Signal::Metrics as usize]));
        posts.spawn(send(self.upstreams.clone(), Signal::Metrics, body, from));
    }

    fn resource(&self) -> opentelemetry_proto::tonic::resource::v1::Resource {
        let configured = self.upstreams.config.telemetry.as_ref().map_or(&[][..], |t| &t.resource);
        attributes::resource(configured, &self.instance)
    }

    fn joined(&mut self, sent: Result<Sent, tokio::task::JoinError>) {
        match sent {
            Ok((signal, outcome, idle)) => self.settle(signal, outcome, idle),
            // It was broken off; whose it was is not known.
            Err(_) => {
                self.give_up_batch();
                self.report.busy = false;
            }
        }
    }

    fn settle(&mut self, signal: Signal, outcome: Outcome, idle: Option<Connection>) {
        let taken = matches!(outcome, Outcome::Taken { .. });
        let posts = &self.shared.counters.posts[signal as usize];
        posts[usize::from(!taken)].fetch_add(1, Ordering::Relaxed);
        match &outcome {
            Outcome::Taken { .. } => {
                self.failing = false;
                self.idle[signal as usize] = idle;
            }
            Outcome::Again { why, .. } | Outcome::Refused { why } => {
                // Once, until it works again.
                if !std::mem::replace(&mut self.failing, true) {
                    self.messages.err(format!(
                        "weir: telemetry: export of {} failed: {why}",
                        signal.as_str()
                    ));
                }
                self.turn = self.turn.wrapping_add(1);
            }
        }
        match signal {
            Signal::Traces => self.settle_batch(outcome),
            Signal::Metrics => {
                self.report.busy = false;
                // The next report contains the counts again.
                if let Outcome::Again { after: Some(after), .. } = outcome {
                    let due = self.report.due.map(|due| due.max(Instant::now() + after));
                    self.report.due = due;
                }
            }
        }
    }

    fn settle_batch(&mut self, outcome: Outcome) {
        let Some(mut batch) = self.batch.take() else { return };
        let counters = &self.shared.counters;
        let add = |counter: &AtomicU64, spans| counter.fetch_add(spans, Ordering::Relaxed);
        match outcome {
            Outcome::Taken { rejected } => {
                let rejected = rejected.min(batch.spans);
                add(&counters.exported, batch.spans - rejected);
                add(&counters.refused, rejected);
            }
            Outcome::Refused { .. } => drop(add(&counters.refused, batch.spans)),
            Outcome::Again { .. } if batch.tries + 1 == TRIES => {
                add(&counters.given_up, batch.spans);
            }
            Outcome::Again { after, .. } => {
                let pause =
                    (EXPORT_INTERVAL * (1 << batch.tries)).mul_f64(0.5 + fastrand::f64() / 2.0);
                batch.tries += 1;
                batch.due = Instant::now() + after.unwrap_or(pause);
                batch.busy = false;
                self.batch = Some(batch);
            }
        }
    }

    fn give_up_batch(&mut self) {
        if let Some(batch) = self.batch.take() {
            self.shared.counters.given_up.fetch_add(batch.spans, Ordering::Relaxed);
        }
    }
}

async fn send(
    upstreams: Upstreams,
    signal: Signal,
    body: Bytes,
    from: (usize, Option<Connection>),
) -> Sent {
    let (outcome, idle) = collector::send(upstreams, signal, body, from).await;
    (signal, outcome, idle)
}

fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
