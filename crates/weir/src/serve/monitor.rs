//! The thread that meters calls.
//!
//! If the thread stops, the journal keeps all unread records until it is full. Therefore messages
//! must not block the thread, and a panic does not end it.

use super::burst::Burst;
use super::messages::Messages;
use super::tracker::report_panics;
use anyhow::Context;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_admin::Metering;
use weir_config::Config;
use weir_journal::Journal;
use weir_limit::{Limiter, QuotaCount, quota_span};
use weir_monitor::billing::Prices;
use weir_monitor::{Counter, CounterCommand, Monitor};

/// Name of the thread.
const THREAD: &str = "monitor";
/// Transactions of one read, between checks for a stop.
const STEP_TRANSACTIONS: usize = 4096;
/// Pause without new records.
const IDLE_INTERVAL: Duration = Duration::from_millis(200);
/// Pause after a failure: a full disk takes time to clear.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Nice value relative to a worker.
const NICE: i32 = 5;
/// Largest number of queued commands.
const MAX_COMMANDS: usize = 4;

/// Complete usage before the start of serving.
pub(super) struct Opened {
    monitor: Monitor,
    counter: Counter,
    burst: Burst,
    prices: Prices,
}

/// Opens the usage, if metering is enabled. Quotas, events and alerts include records that were not
/// metered before the last end of weir.
pub(super) fn open(
    config: &Config,
    journal: &Arc<Journal>,
    limiter: &Limiter,
) -> anyhow::Result<Option<Opened>> {
    if !config.counts_calls() {
        Monitor::remove_checkpoints(journal)?;
        return Ok(None);
    }
    let prices = Prices::default();
    let settings = prices.settings(config);
    let (monitor, mut counter) = Monitor::open(&config.data, Arc::clone(journal), settings)
        .with_context(|| format!("cannot open the metering data in {}", config.data.display()))?;
    let quotas_are_kept = config.plans.iter().any(|plan| plan.quota.is_some());
    let are_reported = config.monitor.events.is_some() || !config.monitor.alerts.is_empty();
    if quotas_are_kept || are_reported {
        counter.catch_up().context("cannot update the metering data")?;
    }
    if quotas_are_kept {
        limiter.restore_quota_counts(&quotas(config, &counter, limiter.now().unix)?);
    }
    let burst = Burst::new(Arc::clone(journal), IDLE_INTERVAL);
    Ok(Some(Opened { monitor, counter, burst, prices }))
}

/// Current use of quotas.
fn quotas(config: &Config, counter: &Counter, now: u64) -> anyhow::Result<Vec<QuotaCount>> {
    let mut counts: Vec<QuotaCount> = Vec::new();
    for plan in &config.plans {
        let Some(quota) = &plan.quota else { continue };
        let span = quota_span(quota, now);
        for used in counter.quota_used(&plan.name, &span)? {
            let rolling = quota.rolling.then_some(quota.per);
            // The time is known to a second or a minute; its end is assumed.
            let begin = if quota.rolling { (used.at.end - 1).min(now) } else { span.start };
            match counts.last_mut() {
                Some(last)
                    if !quota.rolling
                        && (&last.plan, &last.consumer) == (&plan.name, &used.consumer) =>
                {
                    last.calls += used.calls;
                }
                _ => counts.push(QuotaCount {
                    plan: plan.name.clone(),
                    consumer: used.consumer,
                    window_start: begin,
                    calls: used.calls,
                    rolling,
                }),
            }
        }
    }
    Ok(counts)
}

/// The usage of a running server, and the thread that writes it.
pub(super) struct Counting {
    monitor: Monitor,
    prices: Prices,
    commands: mpsc::SyncSender<CounterCommand>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Opened {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(self, messages: &Messages) -> anyhow::Result<Counting> {
        let Self { monitor, counter, burst, prices } = self;
        let stop = Arc::new(AtomicBool::new(false));
        let (commands, received) = mpsc::sync_channel(MAX_COMMANDS);
        let mut worker = Worker {
            counter,
            burst,
            stop: Arc::clone(&stop),
            commands: received,
            messages: messages.clone(),
        };
        report_panics(messages.clone(), THREAD);
        let run = move || worker.run();
        let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(run)?;
        Ok(Counting { monitor, prices, commands, thread: Some(thread), stop })
    }
}

impl Counting {
    /// Usage queries and metering rules.
    pub(super) fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// Prices of calls.
    pub(super) fn prices(&self) -> &Prices {
        &self.prices
    }

    /// Usage and commands for the admin API.
    pub(super) fn metering(&self) -> Metering {
        Metering { monitor: self.monitor.clone(), commands: self.commands.clone() }
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // If the queue is full, the thread is awake.
        let _ = self.commands.try_send(CounterCommand::Wake);
        if let Some(thread) = self.thread.take() {
            // A panic has been reported already.
            let _ = thread.join();
        }
    }
}

/// State of the thread.
struct Worker {
    counter: Counter,
    burst: Burst,
    stop: Arc<AtomicBool>,
    commands: mpsc::Receiver<CounterCommand>,
    messages: Messages,
}

impl Worker {
    /// Meters, also after each panic.
    fn run(&mut self) {
        // Without permission the priority stays.
        let _ = rustix::process::nice(NICE);
        loop {
            let ended = catch_unwind(AssertUnwindSafe(|| self.follow()));
            if ended.is_ok() || self.stop.load(Ordering::Relaxed) {
                return;
            }
            self.messages.err("weir: monitor: metering panicked; restarting".into());
            std::thread::sleep(IDLE_INTERVAL);
            while let Err(error) = self.counter.recover() {
                self.messages.err(format!("weir: monitor: {error}"));
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(RETRY_INTERVAL);
            }
        }
    }

    fn follow(&mut self) {
        let mut failing = false;
        while !self.stop.load(Ordering::Relaxed) {
            let pause = match self.counter.step(STEP_TRANSACTIONS) {
                Ok(0) => IDLE_INTERVAL,
                Ok(read) => {
                    failing = false;
                    // Few records at a time are read in larger batches.
                    if read < STEP_TRANSACTIONS { IDLE_INTERVAL } else { Duration::ZERO }
                }
                Err(error) => {
                    // Once, until the next success.
                    if !std::mem::replace(&mut failing, true) {
                        self.messages.err(format!("weir: monitor: {error}"));
                    }
                    RETRY_INTERVAL
                }
            };
            let mut command = self.commands.recv_timeout(pause);
            while pause == IDLE_INTERVAL && command.is_err() && self.burst.goes_on() {
                command = self.commands.recv_timeout(IDLE_INTERVAL);
            }
            match command {
                Ok(CounterCommand::Rebuild(report)) => {
                    // The client may have disconnected.
                    let _ = report.send(self.counter.rebuild().into());
                }
                // The sender outlives this thread.
                Ok(CounterCommand::Wake) | Err(_) => {}
            }
        }
        // The last records do not wait for the next start.
        if let Err(error) = self.counter.catch_up() {
            self.messages.err(format!("weir: monitor: {error}"));
        }
    }
}
