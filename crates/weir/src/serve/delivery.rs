//! The thread that creates and delivers events.
//!
//! The thread uses only the database and sinks. Events for an unavailable or slow sink wait; other
//! sinks are not affected.

mod sender;

use super::messages::Messages;
use super::post::Upstreams;
use super::thread::{Running, Settings, Thread, ThreadContext};
use anyhow::Context;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use weir_events::delivery::{Deliveries, EventError, Outcome, SinkQueue, SinkQueues, retry_delay};
use weir_events::{Triggers, UsageEvents};
use weir_journal::{Journal, failpoint};
use weir_monitor::billing::record_prices;
use weir_store::clock::now_us;

/// The thread.
const THREAD: Thread = Thread { name: "delivery", task: "delivery", nice: 5 };
/// Interval of checks for due work.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Pause after a failure of the database or the journal.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Transactions evaluated by triggers between two checks for a stop.
const MAX_STEP_TRANSACTIONS: usize = 1024;
/// Delivered events of a sink before its progress is stored.
const MAX_BATCH_EVENTS: usize = 64;
/// Longest backoff of a failing sink.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);
/// Interval of dropping expired events, and of messages about dropped events.
const CLEANING_INTERVAL: Duration = Duration::from_secs(60);

/// Counters.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Delivered events.
    pub(super) delivered: AtomicU64,
    /// Failed attempts.
    pub(super) failed: AtomicU64,
    /// Waiting and dropped events of each sink.
    pub(super) sinks: SinkQueues,
}

/// The running thread.
pub(super) struct Delivery {
    pub(super) handle: Handle,
    _thread: Running,
}

/// Handle of the thread.
#[derive(Clone)]
pub(crate) struct Handle(Arc<Shared>);

struct Shared {
    settings: Settings,
    counters: Counters,
}

impl Handle {
    /// Applies a new Config.
    pub(super) fn reload(&self, upstreams: &Upstreams) {
        self.0.settings.reload(upstreams);
    }

    /// Counters and waiting events.
    pub(crate) fn counters(&self) -> &Counters {
        &self.0.counters
    }
}

/// Starts the thread for a recording journal.
pub(super) fn start(
    upstreams: &Upstreams,
    journal: &Arc<Journal>,
    messages: &Messages,
) -> anyhow::Result<Delivery> {
    let queue = Deliveries::open(&upstreams.config.data).context("cannot open the database")?;
    let shared = Shared { settings: Settings::new(upstreams), counters: Counters::default() };
    let handle = Handle(Arc::new(shared));
    let reported_drops = queue.queues().context("cannot read the database")?;
    let reported_drops =
        reported_drops.iter().map(|sink| (sink.sink.clone(), (lost(sink), None))).collect();
    let context = ThreadContext::new(messages);
    let mut worker = Worker {
        shared: Arc::clone(&handle.0),
        context: context.clone(),
        journal: Arc::clone(journal),
        queue,
        upstreams: upstreams.clone(),
        triggers: None,
        usage: UsageEvents::default(),
        sinks: HashMap::new(),
        reported_drops,
        cleaned: None,
    };
    // Before requests are recorded: triggers evaluate all transactions that end from now on.
    worker.apply_config(upstreams.clone()).context("cannot follow the journal")?;
    let shared = Arc::clone(&handle.0);
    let wake = move || shared.settings.changed.notify_one();
    let run = async |worker: &mut Worker| worker.run().await;
    let thread = THREAD.start_async(&context, wake, worker, run, Worker::recover)?;
    Ok(Delivery { handle, _thread: thread })
}

/// State of the thread.
struct Worker {
    shared: Arc<Shared>,
    context: ThreadContext,
    journal: Arc<Journal>,
    queue: Deliveries,
    upstreams: Upstreams,
    triggers: Option<Triggers>,
    usage: UsageEvents,
    sinks: HashMap<String, SinkState>,
    /// Dropped events of each sink that were already reported, and the time of the report.
    reported_drops: HashMap<String, (u64, Option<Instant>)>,
    cleaned: Option<Instant>,
}

/// State of a sink.
#[derive(Default)]
struct SinkState {
    /// A batch is in flight.
    busy: bool,
    /// Consecutive failed attempts.
    failures: u32,
    /// Time of the next attempt.
    until: Option<Instant>,
}

impl Worker {
    async fn run(&mut self) {
        let mut sending = JoinSet::new();
        while !self.context.stopped() {
            let pause = match self.work(&mut sending) {
                Ok(()) => {
                    self.context.succeeded();
                    CHECK_INTERVAL
                }
                Err(error) => {
                    self.context.failed(&format!("delivery: {error}"));
                    RETRY_INTERVAL
                }
            };
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                Some(sent) = sending.join_next() => match sent {
                    Ok(sent) => self.settle_or_report(&sent),
                    // The sink of the aborted task is unknown: all are retried.
                    Err(_) => self.sinks.clear(),
                },
                () = shared.settings.changed.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// After a panic, unstored progress is read again.
    fn recover(&mut self) {
        std::thread::sleep(CHECK_INTERVAL);
        self.sinks.clear();
        self.triggers = None;
        // Without its triggers the journal would keep everything for them.
        while let Err(error) = self.apply_config(self.upstreams.clone()) {
            self.context.note(&format!("delivery: {error}"));
            if self.context.stopped() {
                return;
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
    }

    /// Creates events and starts due deliveries.
    fn work(&mut self, sending: &mut JoinSet<sender::Sent>) -> Result<(), EventError> {
        let upstreams = self.shared.settings.upstreams();
        if !Arc::ptr_eq(&upstreams.config, &self.upstreams.config) {
            self.apply_config(upstreams)?;
        }
        self.create_events()?;
        if self.cleaned.is_none_or(|cleaned| cleaned.elapsed() >= CLEANING_INTERVAL) {
            self.queue.drop_expired(now_us())?;
            self.cleaned = Some(Instant::now());
        }
        let now = now_us();
        for sink in self.queue.sinks(now)? {
            let state = self.sinks.entry(sink.clone()).or_default();
            let wait = state.until.is_some_and(|until| Instant::now() < until);
            // A sink that is no upstream any more may become one again.
            let known =
                self.upstreams.config.upstreams.iter().position(|upstream| upstream.name == sink);
            let Some(index) = known.filter(|_| !state.busy && !wait) else { continue };
            let batch = self.queue.due(&sink, now, MAX_BATCH_EVENTS)?;
            if !batch.is_empty() {
                state.busy = true;
                let id = weir_model::UpstreamId(index);
                sending.spawn(sender::send(self.upstreams.clone(), id, batch));
            }
        }
        let sinks = self.queue.queues()?;
        sinks.iter().for_each(|sink| self.report_dropped(sink));
        *self.shared.counters.sinks.lock().unwrap_or_else(PoisonError::into_inner) = sinks;
        Ok(())
    }

    /// Reports dropped events: at once, then with a limited rate.
    fn report_dropped(&mut self, sink: &SinkQueue) {
        let lost = lost(sink);
        let (reported, when) = self.reported_drops.entry(sink.sink.clone()).or_default();
        if lost <= *reported || when.is_some_and(|when| when.elapsed() < CLEANING_INTERVAL) {
            return;
        }
        let (new, name, waiting) = (lost - *reported, &sink.sink, sink.waiting);
        (*reported, *when) = (lost, Some(Instant::now()));
        let dropped = format!("{new} events for {name} were dropped; {waiting} queued");
        self.context.note(&format!("delivery: {dropped}"));
    }

    /// Queues events of triggers and usage.
    fn create_events(&mut self) -> Result<(), EventError> {
        if let Some(triggers) = &mut self.triggers {
            while triggers.step(&mut self.queue, now_us(), MAX_STEP_TRANSACTIONS)?
                && !self.context.stopped()
            {}
        }
        while self.usage.step(&mut self.queue, now_us())? && !self.context.stopped() {}
        Ok(())
    }

    fn apply_config(&mut self, upstreams: Upstreams) -> Result<(), EventError> {
        let config = &upstreams.config;
        let rules = &config.tracker.triggers;
        if rules.is_empty() {
            // There may have been some at an earlier start.
            self.triggers = None;
            Triggers::remove_checkpoint(&self.journal, &mut self.queue)?;
        } else {
            let triggers = match self.triggers.take() {
                Some(triggers) => triggers,
                None => Triggers::open(&self.journal, &mut self.queue)?,
            };
            self.triggers.insert(triggers).configure(rules, &config.tracker.keys);
        }
        let monitor = &config.monitor;
        let (events, now) = (monitor.events.as_ref(), now_us() / 1_000_000);
        // In a fleet one node evaluates alerts, for all.
        let alerts = if config.fleet.is_some() { &[][..] } else { &monitor.alerts };
        self.usage.configure(events, alerts, &mut self.queue, now)?;
        record_prices(self.queue.database(), config.prices(), now)?;
        self.upstreams = upstreams;
        Ok(())
    }

    /// Deliveries with unstored progress are repeated.
    fn settle_or_report(&mut self, sent: &sender::Sent) {
        if let Err(error) = self.settle(sent) {
            self.context.note(&format!("delivery: {error}"));
            // Not at once: storing the outcomes would fail again.
            let state = self.sinks.entry(sent.sink.clone()).or_default();
            state.until = Some(Instant::now() + RETRY_INTERVAL);
        }
    }

    fn settle(&mut self, sent: &sender::Sent) -> Result<(), EventError> {
        let state = self.sinks.entry(sent.sink.clone()).or_default();
        state.busy = false;
        let delivered =
            sent.outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Delivered).count();
        if let Some(failure) = &sent.failure {
            state.failures = if delivered > 0 { 1 } else { state.failures.saturating_add(1) };
            state.until = Some(Instant::now() + retry_delay(state.failures).min(MAX_RETRY_DELAY));
            self.shared.counters.failed.fetch_add(1, Ordering::Relaxed);
            if state.failures == 1 {
                let sink = &sent.sink;
                self.context.note(&format!("event delivery to {sink} failed: {failure}"));
            }
        } else {
            (state.failures, state.until) = (0, None);
        }
        failpoint::pass("delivery.sent");
        self.queue.record_outcomes(&sent.outcomes, now_us())?;
        failpoint::pass("delivery.settled");
        self.shared.counters.delivered.fetch_add(delivered as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Dropped events of a sink.
fn lost(sink: &SinkQueue) -> u64 {
    sink.overflowed.saturating_add(sink.expired)
}
