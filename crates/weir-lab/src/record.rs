//! Recording of samples: histograms and counts per second. Memory does not grow with the number of
//! samples.
//!
//! Every core has a [`Recorder`], which reports an [`Interval`] once per second. The intervals of
//! all cores of the same second are added up.

mod failures;
mod machine;
mod recorder;

pub use failures::{Example, Exchange, FailureGroup, Failures};
pub use recorder::Recorder;

use crate::program::Label;
use crate::sample::{ErrorKind, Sample};
use hdrhistogram::Histogram;
use std::time::{Duration, SystemTime};

/// Largest time of histograms: an hour. Longer times count as an hour.
pub const MAX_TIME: Duration = Duration::from_secs(3_600);

/// Significant digits of histograms: values are accurate to 0.1 %.
pub const DIGITS: u8 = 3;

/// Start of the run.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Wall time.
    pub wall: SystemTime,
    /// The same moment of the monotonic clock.
    pub steady: std::time::Instant,
}

impl Clock {
    /// Now.
    pub fn start() -> Self {
        Self { wall: SystemTime::now(), steady: std::time::Instant::now() }
    }

    /// Milliseconds since 1970 of a time of a [`Sample`].
    pub fn epoch_millis(&self, nanoseconds: u64) -> u64 {
        let start = self.wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let moment = start + Duration::from_nanos(nanoseconds);
        u64::try_from(moment.as_millis()).unwrap_or(u64::MAX)
    }
}

/// Sums of the samples of one label.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Started samples.
    pub started: u64,
    /// Successful samples.
    pub ok: u64,
    /// Samples with a status declared as expected.
    pub expected: u64,
    /// Failed samples by kind ([`ErrorKind::index`]).
    pub errors: [u64; ErrorKind::ALL.len()],
    /// Bytes received.
    pub received: u64,
    /// Bytes of bodies, encoded.
    pub body: u64,
    /// Bytes of bodies, decoded.
    pub decoded: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Service times of all completed samples, including failed ones, in nanoseconds.
    pub service: Histogram<u64>,
    /// Response times, likewise; `None` in a closed model, where they equal the service times.
    pub response: Option<Histogram<u64>>,
    /// Sum of service times, nanoseconds.
    pub service_sum: u128,
    /// Sum of the times to the first byte of the response, in nanoseconds.
    pub latency_sum: u128,
    /// Connections opened.
    pub connects: u64,
    /// Sum of the times to open them, in nanoseconds.
    pub connect_sum: u128,
    /// Start of the first sample, in nanoseconds since the start of the run; [`u64::MAX`] without
    /// samples.
    pub first_start: u64,
    /// End of the last sample.
    pub last_end: u64,
}

/// Figures of one or several seconds.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// Number of the second since the start of the run.
    pub second: u64,
    /// By label ([`crate::program::Label`]), one entry for each label of the program.
    pub labels: Vec<Tally>,
    /// Iterations offered by the schedules of open models.
    pub offered: u64,
    /// Iterations dropped.
    pub dropped: u64,
    /// Requests that were still without a response when their time after the end of the load was over.
    pub interrupted: u64,
    /// Send lag of the generator in nanoseconds; open models only.
    pub send_lag: Option<Histogram<u64>>,
    /// Samples in flight at the end.
    pub in_flight: u64,
    /// Active users at the end.
    pub users: u64,
    /// CPU time of the generator's loops, nanoseconds.
    pub generator_cpu: u64,
    /// CPU of the busiest loop, as a share of a core.
    pub busiest_loop: f64,
    /// Largest stalled time of a loop in nanoseconds: the process was stopped, or had no core.
    pub stalled: u64,
    /// Largest time in nanoseconds that a loop could have run, and waited for a core.
    pub waited: u64,
    /// How often the loop that waited longest got a core.
    pub waits: u64,
    /// Largest step of the wall clock, in nanoseconds: the clock was set, or the machine suspended.
    pub clock_step: u64,
    /// The load ended or paused within the second: its counts are those of a part of it.
    pub is_partial: bool,
    /// Failed samples by message.
    pub failures: Failures,
}

/// Additional destination of each sample of a core, for instance a JTL writer.
pub type Sink = Box<dyn FnMut(&Sample<'_>) + Send>;

impl Interval {
    /// An empty interval with this number of labels.
    pub fn new(second: u64, labels: usize, open: bool) -> Self {
        Self {
            second,
            labels: (0..labels).map(|_| Tally::new(open)).collect(),
            send_lag: open.then(histogram),
            ..Self::default()
        }
    }

    /// Adds the figures of other loops in the same second, or of another second. Gauges such as
    /// samples in flight are added with `same_second` and replaced otherwise.
    pub fn add(&mut self, other: &Self, same_second: bool) {
        let labels = self.labels.len().max(other.labels.len());
        self.labels.resize_with(labels, || Tally::new(false));
        for (mine, others) in self.labels.iter_mut().zip(&other.labels) {
            mine.add(others);
        }
        self.offered += other.offered;
        self.dropped += other.dropped;
        self.interrupted += other.interrupted;
        self.is_partial |= other.is_partial;
        if let Some(lag) = &other.send_lag {
            add(self.send_lag.get_or_insert_with(histogram), lag);
        }
        if same_second {
            self.in_flight += other.in_flight;
            self.users += other.users;
            self.stalled = self.stalled.max(other.stalled);
            if other.waited > self.waited {
                (self.waited, self.waits) = (other.waited, other.waits);
            }
        } else {
            self.in_flight = other.in_flight;
            self.users = other.users;
            self.stalled += other.stalled;
            self.waited += other.waited;
            self.waits += other.waits;
        }
        self.clock_step = self.clock_step.max(other.clock_step);
        self.generator_cpu += other.generator_cpu;
        self.busiest_loop = self.busiest_loop.max(other.busiest_loop);
        self.failures.merge(&other.failures);
    }

    /// The sum of all labels except `leave_out`, which includes transactions: their requests have
    /// labels of their own.
    pub fn all(&self, leave_out: &[Label]) -> Tally {
        let mut all = Tally::new(false);
        for (index, tally) in self.labels.iter().enumerate() {
            if !leave_out.iter().any(|label| label.0 as usize == index) {
                all.add(tally);
            }
        }
        all
    }
}

impl Tally {
    /// An empty tally; with `open`, response times are recorded separately.
    pub fn new(open: bool) -> Self {
        Self {
            started: 0,
            ok: 0,
            expected: 0,
            errors: [0; ErrorKind::ALL.len()],
            received: 0,
            body: 0,
            decoded: 0,
            sent: 0,
            service: histogram(),
            response: open.then(histogram),
            service_sum: 0,
            latency_sum: 0,
            connects: 0,
            connect_sum: 0,
            first_start: u64::MAX,
            last_end: 0,
        }
    }

    /// Completed samples.
    pub fn samples(&self) -> u64 {
        self.ok + self.expected + self.failed()
    }

    /// Failed samples.
    pub fn failed(&self) -> u64 {
        self.errors.iter().sum()
    }

    /// Adds another tally.
    pub fn add(&mut self, other: &Self) {
        self.started += other.started;
        self.ok += other.ok;
        self.expected += other.expected;
        for (mine, others) in self.errors.iter_mut().zip(&other.errors) {
            *mine += others;
        }
        self.received += other.received;
        self.body += other.body;
        self.decoded += other.decoded;
        self.sent += other.sent;
        if other.response.is_some() && self.response.is_none() {
            // Up to now response times equal the service times.
            self.response = Some(self.service.clone());
        }
        if let Some(mine) = &mut self.response {
            add(mine, other.response());
        }
        add(&mut self.service, &other.service);
        self.service_sum += other.service_sum;
        self.latency_sum += other.latency_sum;
        self.connects += other.connects;
        self.connect_sum += other.connect_sum;
        self.first_start = self.first_start.min(other.first_start);
        self.last_end = self.last_end.max(other.last_end);
    }

    /// Response times; in a closed model the service times.
    pub fn response(&self) -> &Histogram<u64> {
        self.response.as_ref().unwrap_or(&self.service)
    }
}

fn add(mine: &mut Histogram<u64>, other: &Histogram<u64>) {
    // Both have the same digits, and the target grows: no value is out of range.
    let added = mine.add(other);
    debug_assert!(added.is_ok(), "histograms of the same kind");
}

/// An empty histogram of nanoseconds, which grows with its largest time.
pub fn histogram() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("three digits are possible")
}
