//! Recorder of a core.

use super::machine::{RunQueue, WallClock};
use super::{Exchange, Interval, MAX_TIME, Sink, Tally};
use crate::program::Label;
use crate::sample::{Outcome, Sample};
use rustix::time::{ClockId, clock_gettime};
use std::mem;
use std::time::Duration;

/// Adds up the samples of one loop, on the loop's thread.
pub struct Recorder {
    interval: Interval,
    /// Number of labels that are known before the run.
    labels: usize,
    open: bool,
    sink: Option<Sink>,
    /// CPU time of the thread and time of the last report, in nanoseconds.
    last_interval: (u64, u64),
    run_queue: RunQueue,
    wall_clock: WallClock,
}

impl Recorder {
    /// Starts at `now`, in nanoseconds since the start of the run, on the recording thread. With
    /// `open`, response times are recorded separately.
    pub fn new(labels: usize, open: bool, now: u64, sink: Option<Sink>) -> Self {
        Self {
            interval: Interval::new(now / NANOS, labels, open),
            labels,
            open,
            sink,
            last_interval: (thread_time(), now),
            run_queue: RunQueue::new(),
            wall_clock: WallClock::new(),
        }
    }

    /// Whether samples have an additional destination.
    pub fn has_sink(&self) -> bool {
        self.sink.is_some()
    }

    /// A sample starts.
    #[inline]
    pub fn start_sample(&mut self, label: Label) {
        self.tally(label).started += 1;
    }

    /// The sums of a label, which may be new.
    #[inline]
    fn tally(&mut self, label: Label) -> &mut Tally {
        let at = label.0 as usize;
        if at >= self.interval.labels.len() {
            let open = self.open;
            self.interval.labels.resize_with(at + 1, || Tally::new(open));
        }
        &mut self.interval.labels[at]
    }

    /// Adds offered and dropped iterations of an open model.
    pub fn add_offered(&mut self, offered: u64, dropped: u64) {
        self.interval.offered += offered;
        self.interval.dropped += dropped;
    }

    /// Adds a request that got no response in the time for it after the end of the load.
    pub fn interrupted(&mut self) {
        self.interval.interrupted += 1;
    }

    /// Adds time in which the loop was stalled.
    pub fn stalled(&mut self, time: Duration) {
        self.interval.stalled += u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    }

    /// Adds a send lag in nanoseconds.
    pub fn add_send_lag(&mut self, lag: u64) {
        if let Some(histogram) = &mut self.interval.send_lag {
            record(histogram, lag);
        }
    }

    /// Adds a completed sample. Of a failed one, `exchange` may become an example.
    #[inline]
    pub fn add<'e>(&mut self, sample: &Sample<'_>, exchange: impl FnOnce() -> Exchange<'e>) {
        if let Some(sink) = &mut self.sink {
            sink(sample);
        }
        let tally = self.tally(sample.label);
        match sample.outcome {
            Outcome::Ok => tally.ok += 1,
            Outcome::Expected => tally.expected += 1,
            Outcome::Error(kind) => tally.errors[kind.index()] += 1,
        }
        let service = sample.service();
        record(&mut tally.service, service);
        if let Some(response) = &mut tally.response {
            record(response, sample.response());
        }
        tally.service_sum += u128::from(service);
        tally.latency_sum += u128::from(sample.first_byte.saturating_sub(sample.start));
        tally.received += sample.received;
        tally.body += sample.body;
        tally.decoded += sample.decoded;
        tally.sent += sample.sent;
        if sample.connect > 0 {
            tally.connects += 1;
            tally.connect_sum += u128::from(sample.connect);
        }
        tally.first_start = tally.first_start.min(sample.start);
        tally.last_end = tally.last_end.max(sample.end);
        if let Outcome::Error(kind) = sample.outcome {
            self.interval.failures.add(sample, kind, exchange);
        }
    }

    /// Returns the figures since the last report and restarts at `now`.
    pub fn take_interval(&mut self, now: u64, in_flight: u64, users: u64) -> Interval {
        // The report belongs to the second that ends slightly before `now`.
        let next = Interval::new(now / NANOS, self.labels, self.open);
        let mut interval = mem::replace(&mut self.interval, next);
        let cpu = thread_time();
        let (cpu_before, then) = mem::replace(&mut self.last_interval, (cpu, now));
        interval.in_flight = in_flight;
        interval.users = users;
        let waits = self.run_queue.waits();
        (interval.waited, interval.waits) = (waits.nanos, waits.count);
        interval.clock_step = self.wall_clock.step();
        interval.generator_cpu = cpu.saturating_sub(cpu_before);
        let wall = now.saturating_sub(then).max(1);
        interval.busiest_loop = interval.generator_cpu as f64 / wall as f64;
        interval
    }
}

/// Nanoseconds in a second.
const NANOS: u64 = 1_000_000_000;

#[inline]
fn record(histogram: &mut hdrhistogram::Histogram<u64>, nanoseconds: u64) {
    // The histogram grows up to an hour.
    let _ = histogram.record(nanoseconds.min(MAX_TIME.as_nanos() as u64));
}

/// CPU time of this thread, nanoseconds.
fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds * NANOS + u64::try_from(time.tv_nsec).unwrap_or_default()
}
