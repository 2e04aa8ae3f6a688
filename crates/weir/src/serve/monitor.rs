//! The thread that meters calls.

use super::burst::Burst;
use super::messages::Messages;
use super::thread::{Running, Thread, ThreadContext};
use crate::data_folder::metering_settings;
use anyhow::Context;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use weir_admin::Metering;
use weir_config::Config;
use weir_journal::Journal;
use weir_limit::{Limiter, QuotaCount, quota_span};
use weir_monitor::billing::Prices;
use weir_monitor::{Counter, CounterCommand, Monitor};

/// The thread.
const THREAD: Thread = Thread { name: "monitor", task: "monitor: metering", nice: 5 };
/// Transactions of one read, between checks for a stop.
const STEP_TRANSACTIONS: usize = 4096;
/// Pause without new records.
const IDLE_INTERVAL: Duration = Duration::from_millis(200);
/// Pause after a failure: a full disk takes time to clear.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
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
    let settings = metering_settings(config, &prices);
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
    /// Usage queries and metering rules.
    pub(super) monitor: Monitor,
    /// Prices of calls.
    pub(super) prices: Prices,
    commands: mpsc::SyncSender<CounterCommand>,
    _thread: Running,
}

impl Opened {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(self, messages: &Messages) -> anyhow::Result<Counting> {
        let Self { monitor, counter, burst, prices } = self;
        let context = ThreadContext::new(messages);
        let (commands, received) = mpsc::sync_channel(MAX_COMMANDS);
        let worker = Worker { counter, burst, commands: received, context: context.clone() };
        let sender = commands.clone();
        // If the queue is full, the thread is awake.
        let wake = move || drop(sender.try_send(CounterCommand::Wake));
        let thread = THREAD.start(&context, wake, worker, Worker::run, Worker::recover)?;
        Ok(Counting { monitor, prices, commands, _thread: thread })
    }
}

impl Counting {
    /// Usage and commands for the admin API.
    pub(super) fn metering(&self) -> Metering {
        Metering { monitor: self.monitor.clone(), commands: self.commands.clone() }
    }
}

/// State of the thread.
struct Worker {
    counter: Counter,
    burst: Burst,
    commands: mpsc::Receiver<CounterCommand>,
    context: ThreadContext,
}

impl Worker {
    fn recover(&mut self) {
        std::thread::sleep(IDLE_INTERVAL);
        while let Err(error) = self.counter.recover() {
            self.context.note(&format!("monitor: {error}"));
            if self.context.stopped() {
                return;
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
    }

    /// Meters calls.
    fn run(&mut self) {
        while !self.context.stopped() {
            let pause = match self.counter.step(STEP_TRANSACTIONS) {
                Ok(0) => IDLE_INTERVAL,
                Ok(read) => {
                    self.context.succeeded();
                    // Few records at a time are read in larger batches.
                    if read < STEP_TRANSACTIONS { IDLE_INTERVAL } else { Duration::ZERO }
                }
                Err(error) => {
                    self.context.failed(&format!("monitor: {error}"));
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
            self.context.note(&format!("monitor: {error}"));
        }
    }
}
