//! A core's recorder.

use super::{FIRST_ERRORS, FirstError, HIGHEST, Interval, Sink};
use crate::program::Label;
use crate::sample::{ErrorKind, Outcome, Sample};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::mem;
use std::time::Duration;

/// Adds samples of one loop up. It belongs to the loop's thread.
pub struct Recorder {
    interval: Interval,
    open: bool,
    sink: Option<Sink>,
    /// Failed samples shown so far.
    shown: HashMap<(Label, ErrorKind), usize>,
    /// CPU time of the thread, and the moment, both at the last hand-over, nanoseconds.
    handed_over: (u64, u64),
}

impl Recorder {
    /// Begins at `now`, in nanoseconds since the run's start, on the thread that will record.
    /// `open` keeps response times apart from service times.
    pub fn new(labels: usize, open: bool, now: u64, sink: Option<Sink>) -> Self {
        Self {
            interval: Interval::new(now / NANOS, labels, open),
            open,
            sink,
            shown: HashMap::new(),
            handed_over: (thread_time(), now),
        }
    }

    /// Whether samples go somewhere else besides.
    pub fn has_sink(&self) -> bool {
        self.sink.is_some()
    }

    /// A sample begins.
    #[inline]
    pub fn begin(&mut self, label: Label) {
        if let Some(tally) = self.interval.labels.get_mut(label.0 as usize) {
            tally.started += 1;
        }
    }

    /// A sample that will never end is no sample: it was not sent after all.
    pub fn withdraw(&mut self, label: Label) {
        if let Some(tally) = self.interval.labels.get_mut(label.0 as usize) {
            tally.started = tally.started.saturating_sub(1);
        }
    }

    /// An open model's schedule asked for iterations, and some of them were dropped.
    pub fn offer(&mut self, offered: u64, dropped: u64) {
        self.interval.offered += offered;
        self.interval.dropped += dropped;
    }

    /// The loop could not run for so long.
    pub fn held_up(&mut self, time: Duration) {
        self.interval.held_up += u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    }

    /// How late the generator sent, nanoseconds.
    pub fn lag(&mut self, lag: u64) {
        if let Some(histogram) = &mut self.interval.send_lag {
            record(histogram, lag);
        }
    }

    /// A sample ended. `body` is the beginning of its answer, looked at if it failed.
    #[inline]
    pub fn add(&mut self, sample: &Sample<'_>, body: &[u8]) {
        if let Some(sink) = &mut self.sink {
            sink(sample);
        }
        let Some(tally) = self.interval.labels.get_mut(sample.label.0 as usize) else { return };
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
        let micros = u128::from(service / 1_000);
        tally.service_sum += u128::from(service);
        tally.service_squares += micros * micros;
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
            self.show(sample, kind, body);
        }
    }

    #[cold]
    fn show(&mut self, sample: &Sample<'_>, kind: ErrorKind, body: &[u8]) {
        let shown = self.shown.entry((sample.label, kind)).or_default();
        if *shown >= FIRST_ERRORS {
            return;
        }
        *shown += 1;
        let message = if sample.check.is_empty() { sample.message } else { sample.check };
        self.interval.first_errors.push(FirstError {
            label: sample.label,
            kind,
            at: sample.end,
            status: sample.status,
            message: message.chars().take(LONGEST_SHOWN).collect(),
            url: sample.url.chars().take(LONGEST_SHOWN).collect(),
            body: String::from_utf8_lossy(&body[..body.len().min(LONGEST_SHOWN)]).into_owned(),
        });
    }

    /// Hands over what happened since the last time, and begins anew at `now`.
    pub fn hand_over(&mut self, now: u64, in_flight: u64, users: u64) -> Interval {
        // It belongs to the second that ends: `now` is a little behind that.
        let next = Interval::new(now / NANOS, self.interval.labels.len(), self.open);
        let mut interval = mem::replace(&mut self.interval, next);
        let cpu = thread_time();
        let (cpu_before, then) = mem::replace(&mut self.handed_over, (cpu, now));
        interval.in_flight = in_flight;
        interval.users = users;
        interval.generator_cpu = cpu.saturating_sub(cpu_before);
        let wall = now.saturating_sub(then).max(1);
        interval.busiest_loop = interval.generator_cpu as f64 / wall as f64;
        interval
    }
}

/// Characters of a failed sample's texts that are kept.
const LONGEST_SHOWN: usize = 500;

/// Nanoseconds in a second.
const NANOS: u64 = 1_000_000_000;

#[inline]
fn record(histogram: &mut hdrhistogram::Histogram<u64>, nanoseconds: u64) {
    // An hour fits; the histogram grows until then.
    let _ = histogram.record(nanoseconds.min(HIGHEST.as_nanos() as u64));
}

/// CPU time of this thread, nanoseconds.
fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds * NANOS + u64::try_from(time.tv_nsec).unwrap_or_default()
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("second", &self.interval.second).finish_non_exhaustive()
    }
}
