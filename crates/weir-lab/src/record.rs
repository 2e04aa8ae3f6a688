//! What is kept of samples: histograms and counts a second, memory that does not grow with the
//! number of samples.
//!
//! Every core has a [`Recorder`]. Once a second it hands an [`Interval`] over; those of all cores
//! of the same second are added, and the sum goes to whoever watches the run.

mod recorder;

pub use recorder::Recorder;

use crate::program::Label;
use crate::sample::{ErrorKind, Sample};
use hdrhistogram::Histogram;
use std::time::{Duration, SystemTime};

/// Highest time that histograms tell apart: an hour. Longer ones count as that.
pub const HIGHEST: Duration = Duration::from_secs(3_600);

/// Significant digits of histograms: values are right within 0.1 %.
pub const DIGITS: u8 = 3;

/// When the run started.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// In wall time.
    pub wall: SystemTime,
    /// The same moment on the clock that does not jump.
    pub steady: std::time::Instant,
}

impl Clock {
    /// Now.
    pub fn start() -> Self {
        Self { wall: SystemTime::now(), steady: std::time::Instant::now() }
    }

    /// Milliseconds since 1970 of a moment of a [`Sample`].
    pub fn epoch_millis(&self, nanoseconds: u64) -> u64 {
        let start = self.wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let moment = start + Duration::from_nanos(nanoseconds);
        u64::try_from(moment.as_millis()).unwrap_or(u64::MAX)
    }
}

/// Samples of one label, added up.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Samples begun.
    pub started: u64,
    /// Samples that ended with success.
    pub ok: u64,
    /// Samples whose status was declared as expected.
    pub expected: u64,
    /// Samples that failed, by kind ([`ErrorKind::index`]).
    pub errors: [u64; ErrorKind::ALL.len()],
    /// Bytes received.
    pub received: u64,
    /// Bytes of bodies as they came.
    pub body: u64,
    /// Bytes of bodies, decoded.
    pub decoded: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Service times, nanoseconds: of all samples that ended, failed ones included.
    pub service: Histogram<u64>,
    /// Response times, nanoseconds, likewise; `None` in a closed model, where they are the service
    /// times.
    pub response: Option<Histogram<u64>>,
    /// Sum of service times, nanoseconds.
    pub service_sum: u128,
    /// Sum of squares of service times, microseconds².
    pub service_squares: u128,
    /// Time to the first byte of the answer, sum, nanoseconds.
    pub latency_sum: u128,
    /// Connections opened.
    pub connects: u64,
    /// Time to open them, sum, nanoseconds.
    pub connect_sum: u128,
    /// Start of the first sample, nanoseconds since the run's start; [`u64::MAX`] if there is none.
    pub first_start: u64,
    /// End of the last sample.
    pub last_end: u64,
}

/// What happened in a second, or in several.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// Which second since the run's start.
    pub second: u64,
    /// By label ([`crate::program::Label`]), as long as the program's list of them.
    pub labels: Vec<Tally>,
    /// Iterations that the schedules of open models asked for.
    pub offered: u64,
    /// Iterations dropped.
    pub dropped: u64,
    /// How much later than it could have the generator sent, nanoseconds; open models only.
    pub send_lag: Option<Histogram<u64>>,
    /// Samples under way at its end.
    pub in_flight: u64,
    /// Users active at its end.
    pub users: u64,
    /// CPU time of the generator's loops, nanoseconds.
    pub generator_cpu: u64,
    /// Largest share of one loop's core, 0 to 1.
    pub busiest_loop: f64,
    /// How long a loop could not run though it had something to do, nanoseconds: the process was
    /// stopped, or had no core. That of the loop with the most.
    pub held_up: u64,
    /// First failed samples of each label and kind, a few.
    pub first_errors: Vec<FirstError>,
}

/// A failed sample that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstError {
    /// Its label.
    pub label: Label,
    /// Its kind.
    pub kind: ErrorKind,
    /// When it ended, nanoseconds since the run's start.
    pub at: u64,
    /// Its status; 0 if no answer came.
    pub status: u16,
    /// What was wrong.
    pub message: String,
    /// The URL.
    pub url: String,
    /// The beginning of the answer's body, as text.
    pub body: String,
}

/// Where each sample of one core goes besides: a JTL writer, for instance.
pub type Sink = Box<dyn FnMut(&Sample<'_>) + Send>;

impl Interval {
    /// Nothing yet, with so many labels.
    pub fn new(second: u64, labels: usize, open: bool) -> Self {
        Self {
            second,
            labels: (0..labels).map(|_| Tally::new(open)).collect(),
            send_lag: open.then(histogram),
            ..Self::default()
        }
    }

    /// Adds what other loops did in the same second, or what happened in another one. What is
    /// under way is added with `same_second` and replaced without.
    pub fn add(&mut self, other: &Self, same_second: bool) {
        while self.labels.len() < other.labels.len() {
            self.labels.push(Tally::new(false));
        }
        for (mine, others) in self.labels.iter_mut().zip(&other.labels) {
            mine.add(others);
        }
        self.offered += other.offered;
        self.dropped += other.dropped;
        add_optional(&mut self.send_lag, other.send_lag.as_ref());
        if same_second {
            self.in_flight += other.in_flight;
            self.users += other.users;
        } else {
            self.in_flight = other.in_flight;
            self.users = other.users;
        }
        self.generator_cpu += other.generator_cpu;
        self.busiest_loop = self.busiest_loop.max(other.busiest_loop);
        self.held_up = if same_second {
            self.held_up.max(other.held_up)
        } else {
            self.held_up + other.held_up
        };
        for error in &other.first_errors {
            let same = |known: &&FirstError| (known.label, known.kind) == (error.label, error.kind);
            if self.first_errors.iter().filter(same).count() < FIRST_ERRORS {
                self.first_errors.push(error.clone());
            }
        }
    }

    /// All labels but `leave_out` in one; transactions are among those to leave out, as their
    /// requests have labels of their own.
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
    /// Nothing yet; `open` keeps response times apart.
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
            service_squares: 0,
            latency_sum: 0,
            connects: 0,
            connect_sum: 0,
            first_start: u64::MAX,
            last_end: 0,
        }
    }

    /// Samples that ended.
    pub fn samples(&self) -> u64 {
        self.ok + self.expected + self.failed()
    }

    /// Samples that failed.
    pub fn failed(&self) -> u64 {
        self.errors.iter().sum()
    }

    /// Adds another one.
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
            // What was added before had no other response times than these.
            self.response = Some(self.service.clone());
        }
        if let Some(mine) = &mut self.response {
            add(mine, other.response());
        }
        add(&mut self.service, &other.service);
        self.service_sum += other.service_sum;
        self.service_squares += other.service_squares;
        self.latency_sum += other.latency_sum;
        self.connects += other.connects;
        self.connect_sum += other.connect_sum;
        self.first_start = self.first_start.min(other.first_start);
        self.last_end = self.last_end.max(other.last_end);
    }

    /// Response times: the service times in a closed model.
    pub fn response(&self) -> &Histogram<u64> {
        self.response.as_ref().unwrap_or(&self.service)
    }
}

/// Failed samples of each label and kind that are shown.
pub const FIRST_ERRORS: usize = 3;

fn add(mine: &mut Histogram<u64>, other: &Histogram<u64>) {
    // Both have the same digits, and mine grows: nothing can be out of its range.
    let added = mine.add(other);
    debug_assert!(added.is_ok(), "histograms of the same kind");
}

fn add_optional(mine: &mut Option<Histogram<u64>>, other: Option<&Histogram<u64>>) {
    if let Some(other) = other {
        add(mine.get_or_insert_with(histogram), other);
    }
}

/// An empty histogram of nanoseconds, which grows with the largest time in it.
pub fn histogram() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("three digits are possible")
}
