//! The thread that exports traced requests and all metrics to a collector, by OTLP over HTTP.
//!
//! Workers never wait for the thread: with a slow or unavailable collector, spans are dropped and
//! counted.

mod collector;
mod spans;

use super::messages::Messages;
use super::post::Upstreams;
use super::thread::{Running, Settings, Thread, ThreadContext};
use crate::otlp::{attributes, messages, points};
use bytes::Bytes;
use collector::{Outcome, Signal};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use weir_admin::metrics::Family;
use weir_http_client::Connection;
use weir_server::Gateway;
use weir_store::clock;
use weir_telemetry::spans::TracedRequest;

/// The thread.
const THREAD: Thread = Thread { name: "telemetry", task: "telemetry", nice: 5 };
/// Interval of checks for due work.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Largest number of spans of a request to a collector.
const MAX_BATCH_SPANS: usize = 512;
/// Longest wait of spans for a full batch.
const BATCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest number of queued spans; beyond it, the oldest are dropped.
const MAX_QUEUED_SPANS: usize = 8192;
/// Attempts to send a batch before its spans are dropped.
const MAX_ATTEMPTS: u32 = 6;
/// Delay before the first retry; it doubles with each further one.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Longest time of the last export when weir stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the current metrics.
pub(crate) type Families = Arc<dyn Fn() -> Vec<Family> + Send + Sync>;

/// Counters of the export.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Spans accepted by a collector.
    pub(crate) exported: AtomicU64,
    /// Spans dropped because the queue was full.
    pub(crate) overflowed: AtomicU64,
    /// Spans rejected by a collector.
    pub(crate) rejected: AtomicU64,
    /// Spans dropped after [`MAX_ATTEMPTS`].
    pub(crate) failed: AtomicU64,
    /// Queued spans.
    pub(crate) waiting: AtomicU64,
    /// Requests with traces and with metrics: accepted, and failed.
    pub(crate) posts: [[AtomicU64; 2]; 2],
}

/// The thread, once a collector is configured, and its inputs.
pub(crate) struct Telemetry {
    inputs: Arc<Inputs>,
    messages: Messages,
    /// On drop it exports the rest, within [`FLUSH_TIMEOUT`].
    thread: Option<Running>,
}

struct Inputs {
    settings: Settings,
    counters: Arc<Counters>,
    gateway: Arc<Gateway>,
    families: Families,
    /// `service.instance.id`: identifies this process.
    instance: String,
    /// Start of the counters, since 1970.
    since: Duration,
}

impl Telemetry {
    /// Starts the thread if the Config has a collector.
    pub(super) fn start(
        upstreams: &Upstreams,
        counters: Arc<Counters>,
        (gateway, families): (Arc<Gateway>, Families),
        messages: Messages,
    ) -> Self {
        let instance = uuid::Builder::from_random_bytes(fastrand::u128(..).to_be_bytes());
        let instance = instance.into_uuid().to_string();
        let (settings, since) = (Settings::new(upstreams), clock::now());
        let inputs = Arc::new(Inputs { settings, counters, gateway, families, instance, since });
        let mut telemetry = Self { inputs, messages, thread: None };
        telemetry.reload(upstreams);
        telemetry
    }

    /// Applies a new Config. Queued spans are exported to its collector.
    pub(super) fn reload(&mut self, upstreams: &Upstreams) {
        self.inputs.settings.reload(upstreams);
        if upstreams.config.telemetry.is_some() && self.thread.is_none() {
            match self.spawn() {
                Ok(spawned) => self.thread = Some(spawned),
                Err(error) => self.messages.err(format!("weir: telemetry: {error}")),
            }
        }
    }

    fn spawn(&self) -> std::io::Result<Running> {
        let (inputs, context) = (Arc::clone(&self.inputs), ThreadContext::new(&self.messages));
        let exporter = Exporter {
            upstreams: inputs.settings.upstreams(),
            inputs: Arc::clone(&inputs),
            context: context.clone(),
            waiting: VecDeque::new(),
            spans: 0,
            oldest: Instant::now(),
            batch: None,
            report: Report::default(),
            idle: Default::default(),
            target: 0,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let wake = move || inputs.settings.changed.notify_one();
        let run = |(exporter, runtime): &mut (Exporter, Runtime)| runtime.block_on(exporter.run());
        let recover = |(exporter, _): &mut (Exporter, Runtime)| exporter.recover();
        THREAD.start(&context, wake, (exporter, runtime), run, recover)
    }
}

/// State of the thread.
struct Exporter {
    inputs: Arc<Inputs>,
    context: ThreadContext,
    upstreams: Upstreams,
    waiting: VecDeque<TracedRequest>,
    /// Number of spans in `waiting`.
    spans: usize,
    /// Arrival of the first of them.
    oldest: Instant,
    batch: Option<Batch>,
    report: Report,
    /// Connections for traces and for metrics.
    idle: [Option<Connection>; 2],
    /// Index of the target in use.
    target: usize,
}

/// Spans of one request.
struct Batch {
    body: Bytes,
    spans: u64,
    attempts: u32,
    /// Time of the next attempt.
    due: Instant,
    busy: bool,
}

/// Reports of metrics.
#[derive(Default)]
struct Report {
    /// Time of the next one; the first is due after one interval.
    due: Option<Instant>,
    busy: bool,
}

/// Result of a task that sends.
type Sent = (Signal, Outcome, Option<Connection>);

impl Exporter {
    fn recover(&mut self) {
        std::thread::sleep(RETRY_DELAY);
        self.drop_batch();
        self.report = Report::default();
    }

    async fn run(&mut self) {
        let mut posts = JoinSet::new();
        while !self.context.stopped() {
            self.work(&mut posts, false);
            let inputs = Arc::clone(&self.inputs);
            tokio::select! {
                Some(sent) = posts.join_next() => self.joined(sent),
                () = inputs.settings.changed.notified() => {}
                () = tokio::time::sleep(CHECK_INTERVAL) => {}
            }
        }
        // The rest is lost.
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, self.finish(&mut posts)).await;
    }

    /// Exports the rest, with one attempt.
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
            if self.batch.as_ref().is_some_and(|batch| !batch.busy && batch.attempts > 0) {
                self.drop_batch();
            }
            if self.context.failing {
                return;
            }
        }
    }

    /// Collects new spans and starts due requests; `all` of them if weir stops.
    fn work(&mut self, posts: &mut JoinSet<Sent>, all: bool) {
        let upstreams = self.inputs.settings.upstreams();
        if !Arc::ptr_eq(&upstreams.config, &self.upstreams.config) {
            self.upstreams = upstreams;
            self.report.due = None;
            self.idle = Default::default();
        }
        self.collect();
        let now = Instant::now();
        let due = all
            || self.spans >= MAX_BATCH_SPANS
            || now.duration_since(self.oldest) >= BATCH_TIMEOUT;
        if self.batch.is_none() && due && !self.waiting.is_empty() {
            self.batch = Some(self.next_batch());
        }
        if let Some(batch) = self.batch.as_mut().filter(|b| !b.busy && (all || b.due <= now)) {
            batch.busy = true;
            let from = (self.target, std::mem::take(&mut self.idle[Signal::Traces as usize]));
            posts.spawn(send(self.upstreams.clone(), Signal::Traces, batch.body.clone(), from));
        }
        self.start_report(posts, now);
    }

    /// Collects the traced requests of the workers.
    fn collect(&mut self) {
        for traced in self.inputs.gateway.take_traced() {
            if self.waiting.is_empty() {
                self.oldest = Instant::now();
            }
            self.spans += traced.spans();
            self.waiting.push_back(traced);
        }
        let mut dropped = 0;
        while self.spans > MAX_QUEUED_SPANS
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.spans -= oldest.spans();
            dropped += oldest.spans();
        }
        let counters = &self.inputs.counters;
        counters.overflowed.fetch_add(dropped as u64, Ordering::Relaxed);
        let batch = self.batch.as_ref().map_or(0, |batch| batch.spans);
        counters.waiting.store(self.spans as u64 + batch, Ordering::Relaxed);
    }

    fn next_batch(&mut self) -> Batch {
        let (mut traced, mut spans) = (Vec::new(), 0);
        while let Some(next) = self.waiting.front()
            && (traced.is_empty() || spans + next.spans() <= MAX_BATCH_SPANS)
        {
            spans += next.spans();
            traced.extend(self.waiting.pop_front());
        }
        self.spans -= spans;
        let body = Bytes::from(spans::encode(&traced, self.resource()));
        let due = Instant::now();
        Batch { body, spans: spans as u64, attempts: 0, due, busy: false }
    }

    fn start_report(&mut self, posts: &mut JoinSet<Sent>, now: Instant) {
        let every =
            self.upstreams.config.telemetry.as_ref().and_then(|telemetry| telemetry.metrics);
        let Some(every) = every.filter(|_| !self.report.busy) else { return };
        let due = *self.report.due.get_or_insert(now + every);
        if due > now {
            return;
        }
        self.report.due = Some((due + every).max(now));
        self.report.busy = true;
        let span = points::Span { since: self.inputs.since, until: clock::now() };
        let body = Bytes::from(points::encode(&(self.inputs.families)(), span, self.resource()));
        let from = (self.target, std::mem::take(&mut self.idle[Signal::Metrics as usize]));
        posts.spawn(send(self.upstreams.clone(), Signal::Metrics, body, from));
    }

    fn resource(&self) -> messages::Resource {
        let configured = self.upstreams.config.telemetry.as_ref().map_or(&[][..], |t| &t.resource);
        attributes::resource(configured, &self.inputs.instance)
    }

    fn joined(&mut self, sent: Result<Sent, tokio::task::JoinError>) {
        match sent {
            Ok((signal, outcome, idle)) => self.settle(signal, outcome, idle),
            // The signal of the aborted task is unknown.
            Err(_) => {
                self.drop_batch();
                self.report.busy = false;
            }
        }
    }

    fn settle(&mut self, signal: Signal, outcome: Outcome, idle: Option<Connection>) {
        let accepted = matches!(outcome, Outcome::Accepted { .. });
        let posts = &self.inputs.counters.posts[signal as usize];
        posts[usize::from(!accepted)].fetch_add(1, Ordering::Relaxed);
        match &outcome {
            Outcome::Accepted { .. } => {
                self.context.succeeded();
                self.idle[signal as usize] = idle;
            }
            Outcome::Retry { reason, .. } | Outcome::Rejected { reason } => {
                let signal = signal.as_str();
                self.context.failed(&format!("telemetry: export of {signal} failed: {reason}"));
                self.target = self.target.wrapping_add(1);
            }
        }
        match signal {
            Signal::Traces => self.settle_batch(outcome),
            Signal::Metrics => {
                self.report.busy = false;
                // The next report contains the counts again.
                if let Outcome::Retry { after: Some(after), .. } = outcome {
                    let due = self.report.due.map(|due| due.max(Instant::now() + after));
                    self.report.due = due;
                }
            }
        }
    }

    fn settle_batch(&mut self, outcome: Outcome) {
        let Some(mut batch) = self.batch.take() else { return };
        let counters = &self.inputs.counters;
        let add = |counter: &AtomicU64, spans| counter.fetch_add(spans, Ordering::Relaxed);
        match outcome {
            Outcome::Accepted { rejected } => {
                let rejected = rejected.min(batch.spans);
                add(&counters.exported, batch.spans - rejected);
                add(&counters.rejected, rejected);
            }
            Outcome::Rejected { .. } => drop(add(&counters.rejected, batch.spans)),
            Outcome::Retry { .. } if batch.attempts + 1 == MAX_ATTEMPTS => {
                add(&counters.failed, batch.spans);
            }
            Outcome::Retry { after, .. } => {
                let delay =
                    (RETRY_DELAY * (1 << batch.attempts)).mul_f64(0.5 + fastrand::f64() / 2.0);
                batch.attempts += 1;
                batch.due = Instant::now() + after.unwrap_or(delay);
                batch.busy = false;
                self.batch = Some(batch);
            }
        }
    }

    fn drop_batch(&mut self) {
        if let Some(batch) = self.batch.take() {
            self.inputs.counters.failed.fetch_add(batch.spans, Ordering::Relaxed);
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
