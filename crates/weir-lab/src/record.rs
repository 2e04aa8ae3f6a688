//! What is kept of samples: histograms and counts a second, memory that does not grow with the
//! number of samples.
//!
//! Every core has a [`Recorder`]. Once a second it hands an [`Interval`] over; those of all cores
//! of the same second are added, and the sum goes to whoever watches the run.

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
    /// First failed samples of each label and kind, a few.
    pub first_errors: Vec<FirstError>,
}

/// A failed sample that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstError {
    /// Its label.
    pub label: crate::program::Label,
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

    /// Response times: the service times in a closed model.
    pub fn response(&self) -> &Histogram<u64> {
        self.response.as_ref().unwrap_or(&self.service)
    }
}

/// An empty histogram of nanoseconds, which grows with the largest time in it.
pub fn histogram() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("three digits are possible")
}
