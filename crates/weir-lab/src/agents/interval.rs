//! Figures of a second on the wire. Histograms are sent whole, so that merging loses nothing.

use crate::program::{Label, Labels};
use crate::record::{DIGITS, Example, FailureGroup, Interval, Tally, histogram};
use crate::sample::ErrorKind;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// [`Interval`] on the wire.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireInterval {
    second: u64,
    labels: Vec<WireTally>,
    offered: u64,
    dropped: u64,
    interrupted: u64,
    is_partial: bool,
    send_lag: Option<String>,
    in_flight: u64,
    users: u64,
    generator_cpu: u64,
    busiest_loop: f64,
    stalled: u64,
    waited: u64,
    waits: u64,
    clock_step: u64,
    /// Their number is bounded by [`crate::record::Failures`].
    failures: Vec<WireFailures>,
    /// Failed samples beyond the limit of groups.
    ungrouped: u64,
}

/// A label: by its index if the plan has it, otherwise by its name.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum WireLabel {
    Known(u32),
    Request(String),
    Transaction(String),
}

/// [`Tally`] on the wire, of a label with samples.
#[derive(Debug, Serialize, Deserialize)]
struct WireTally {
    label: WireLabel,
    started: u64,
    ok: u64,
    expected: u64,
    /// By name; kinds without errors are left out.
    errors: BTreeMap<String, u64>,
    received: u64,
    body: u64,
    decoded: u64,
    sent: u64,
    service: String,
    response: Option<String>,
    /// Sums of nanoseconds, as texts: larger than a number of JSON.
    sums: [String; 3],
    connects: u64,
    first_start: u64,
    last_end: u64,
}

/// [`FailureGroup`] on the wire.
#[derive(Debug, Serialize, Deserialize)]
struct WireFailures {
    label: WireLabel,
    kind: String,
    message: String,
    count: u64,
    first: u64,
    last: u64,
    /// The example: status, URL, request and response.
    example: (u16, String, String, String),
}

impl WireInterval {
    /// The figures of a second of a program with these labels.
    pub(super) fn new(
        interval: &Interval,
        labels: &Labels,
        transactions: &BTreeSet<Label>,
    ) -> Result<Self, String> {
        let wire = |label: Label| {
            let name = || labels.name(label, str::to_owned);
            match labels.known(label) {
                Some(_) => WireLabel::Known(label.0),
                None if transactions.contains(&label) => WireLabel::Transaction(name()),
                None => WireLabel::Request(name()),
            }
        };
        let used = (0..).zip(&interval.labels);
        let used = used.filter(|(_, tally)| tally.started > 0 || tally.samples() > 0);
        let tallies = used.map(|(index, tally)| WireTally::new(wire(Label(index)), tally));
        let failures = |group: &FailureGroup| WireFailures::new(wire(group.label), group);
        Ok(Self {
            second: interval.second,
            labels: tallies.collect::<Result<_, _>>()?,
            offered: interval.offered,
            dropped: interval.dropped,
            interrupted: interval.interrupted,
            is_partial: interval.is_partial,
            send_lag: interval.send_lag.as_ref().map(encode).transpose()?,
            in_flight: interval.in_flight,
            users: interval.users,
            generator_cpu: interval.generator_cpu,
            busiest_loop: interval.busiest_loop,
            stalled: interval.stalled,
            waited: interval.waited,
            waits: interval.waits,
            clock_step: interval.clock_step,
            failures: interval.failures.groups().iter().map(failures).collect(),
            ungrouped: interval.failures.ungrouped,
        })
    }

    /// The figures, with the labels of this process. `open` as in [`Interval::new`].
    ///
    /// # Errors
    /// The message is damaged.
    pub(super) fn read(self, labels: &Labels, open: bool) -> Result<Interval, String> {
        let mut interval = Interval::new(self.second, labels.len(), open);
        for wire in self.labels {
            let at = find(&wire.label, labels)?.0 as usize;
            let tally = wire.read()?;
            if at >= interval.labels.len() {
                interval.labels.resize_with(at + 1, || Tally::new(open));
            }
            interval.labels[at].add(&tally);
        }
        for wire in self.failures {
            interval.failures.add_group(&wire.read(labels)?);
        }
        interval.failures.ungrouped += self.ungrouped;
        interval.offered = self.offered;
        (interval.dropped, interval.interrupted) = (self.dropped, self.interrupted);
        interval.is_partial = self.is_partial;
        interval.send_lag = self.send_lag.as_deref().map(decode).transpose()?;
        (interval.in_flight, interval.users) = (self.in_flight, self.users);
        (interval.generator_cpu, interval.busiest_loop) = (self.generator_cpu, self.busiest_loop);
        (interval.stalled, interval.clock_step) = (self.stalled, self.clock_step);
        (interval.waited, interval.waits) = (self.waited, self.waits);
        Ok(interval)
    }
}

impl WireFailures {
    fn new(label: WireLabel, group: &FailureGroup) -> Self {
        let Example { status, url, request, response } = group.example.clone();
        Self {
            label,
            kind: group.kind.name().to_owned(),
            message: group.message.clone(),
            count: group.count,
            first: group.first,
            last: group.last,
            example: (status, url, request, response),
        }
    }

    fn read(self, labels: &Labels) -> Result<FailureGroup, String> {
        let (status, url, request, response) = self.example;
        Ok(FailureGroup {
            label: find(&self.label, labels)?,
            kind: kind(&self.kind)?,
            message: self.message,
            count: self.count,
            first: self.first,
            last: self.last,
            example: Example { status, url, request, response },
        })
    }
}

impl WireTally {
    fn new(label: WireLabel, tally: &Tally) -> Result<Self, String> {
        let errors = ErrorKind::ALL.iter().zip(tally.errors).filter(|(_, count)| *count > 0);
        Ok(Self {
            label,
            started: tally.started,
            ok: tally.ok,
            expected: tally.expected,
            errors: errors.map(|(kind, count)| (kind.name().to_owned(), count)).collect(),
            received: tally.received,
            body: tally.body,
            decoded: tally.decoded,
            sent: tally.sent,
            service: encode(&tally.service)?,
            response: tally.response.as_ref().map(encode).transpose()?,
            sums: [tally.service_sum, tally.latency_sum, tally.connect_sum].map(|n| n.to_string()),
            connects: tally.connects,
            first_start: tally.first_start,
            last_end: tally.last_end,
        })
    }

    fn read(self) -> Result<Tally, String> {
        let mut tally = Tally::new(false);
        for (name, count) in &self.errors {
            tally.errors[kind(name)?.index()] = *count;
        }
        let sum = |at: usize| self.sums[at].parse::<u128>().map_err(|error| error.to_string());
        (tally.service_sum, tally.latency_sum, tally.connect_sum) = (sum(0)?, sum(1)?, sum(2)?);
        (tally.started, tally.ok, tally.expected) = (self.started, self.ok, self.expected);
        (tally.received, tally.sent) = (self.received, self.sent);
        (tally.body, tally.decoded) = (self.body, self.decoded);
        tally.service = decode(&self.service)?;
        tally.response = self.response.as_deref().map(decode).transpose()?;
        tally.connects = self.connects;
        (tally.first_start, tally.last_end) = (self.first_start, self.last_end);
        Ok(tally)
    }
}

fn find(label: &WireLabel, labels: &Labels) -> Result<Label, String> {
    match label {
        WireLabel::Known(index) if (*index as usize) < labels.len() => Ok(Label(*index)),
        WireLabel::Known(index) => Err(format!("label {index} is not part of the plan")),
        WireLabel::Request(name) => Ok(labels.intern(name, false)),
        WireLabel::Transaction(name) => Ok(labels.intern(name, true)),
    }
}

fn kind(name: &str) -> Result<ErrorKind, String> {
    let known = ErrorKind::ALL.iter().find(|kind| kind.name() == name);
    known.copied().ok_or_else(|| format!("unknown kind of error {name:?}"))
}

fn encode(histogram: &Histogram<u64>) -> Result<String, String> {
    let mut bytes = Vec::new();
    let written = V2Serializer::new().serialize(histogram, &mut bytes);
    written.map_err(|error| format!("a histogram cannot be sent: {error}"))?;
    Ok(STANDARD.encode(bytes))
}

fn decode(text: &str) -> Result<Histogram<u64>, String> {
    let damaged = |error: String| format!("a histogram is damaged: {error}");
    let bytes = STANDARD.decode(text).map_err(|error| damaged(error.to_string()))?;
    let found: Histogram<u64> = Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| damaged(error.to_string()))?;
    if found.sigfig() != DIGITS || found.low() != 1 {
        return Err(damaged("another precision".to_owned()));
    }
    let mut same = histogram();
    same.add(found).map_err(|error| damaged(error.to_string()))?;
    Ok(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(times: &[u64]) -> Interval {
        let mut interval = Interval::new(3, 2, true);
        let tally = &mut interval.labels[1];
        for time in times {
            tally.service.record(*time).expect("it grows");
            tally.response.as_mut().expect("open").record(2 * time).expect("it grows");
            tally.service_sum += u128::from(*time);
            (tally.started, tally.ok) = (tally.started + 1, tally.ok + 1);
        }
        (tally.first_start, tally.last_end) = (7, 9);
        interval.send_lag.as_mut().expect("open").record(5).expect("it grows");
        interval.failures.add_group(&FailureGroup {
            label: Label(1),
            kind: ErrorKind::Http503,
            message: "busy".to_owned(),
            count: 2,
            first: 5,
            last: 6,
            example: Example {
                status: 503,
                url: "http://h/".to_owned(),
                request: "GET / HTTP/1.1".to_owned(),
                response: "later".to_owned(),
            },
        });
        interval.failures.ungrouped = 1;
        (interval.offered, interval.users, interval.busiest_loop) = (10, 2, 0.5);
        interval.interrupted = 4;
        interval
    }

    fn sent(interval: &Interval, labels: &Labels) -> Interval {
        let wire = WireInterval::new(interval, labels, &BTreeSet::new()).expect("encoded");
        let text = serde_json::to_string(&wire).expect("JSON");
        let wire: WireInterval = serde_json::from_str(&text).expect("the same");
        wire.read(labels, true).expect("decoded")
    }

    #[test]
    fn merged_percentiles_equal_those_of_one_process() {
        let labels: Labels = ["a", "b"].into_iter().collect();
        let mut random = fastrand::Rng::with_seed(1);
        let times: Vec<u64> = (0..4_000).map(|_| random.u64(1_000..9_000_000_000)).collect();
        let (one, other) = times.split_at(1_234);
        let mut merged = sent(&sample(one), &labels);
        merged.add(&sent(&sample(other), &labels), true);
        assert_eq!(merged.failures.groups()[0].count, 4);
        assert_eq!((merged.failures.ungrouped, merged.interrupted), (2, 8));
        assert_eq!(sent(&sample(one), &labels).failures, sample(one).failures);
        let mut whole = sample(&[]);
        whole.add(&sample(&times), true);
        let (merged, whole) = (&merged.labels[1], &whole.labels[1]);
        for percent in [0.0, 1.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0] {
            let at = |tally: &Tally| {
                let response = tally.response().value_at_percentile(percent);
                (tally.service.value_at_percentile(percent), response)
            };
            assert_eq!(at(merged), at(whole), "p{percent}");
        }
        assert_eq!(merged.service_sum, whole.service_sum);
        assert_eq!((merged.ok, merged.first_start, merged.last_end), (4_000, 7, 9));
    }

    #[test]
    fn names_of_a_run_get_the_indexes_of_this_process() {
        let mut theirs: Labels = ["a", "b"].into_iter().collect();
        theirs.allow_runtime(false);
        let mine = {
            let mut labels: Labels = ["a", "b"].into_iter().collect();
            labels.allow_runtime(false);
            labels
        };
        mine.intern("first here", false);
        let label = theirs.intern("late", false);
        let mut interval = sample(&[5]);
        interval.labels.resize_with(label.0 as usize + 1, || Tally::new(true));
        interval.labels[label.0 as usize].ok = 3;
        let wire = WireInterval::new(&interval, &theirs, &BTreeSet::new()).expect("encoded");
        let read = wire.read(&mine, true).expect("decoded");
        let at = mine.intern("late", false);
        assert_ne!(at, label);
        assert_eq!(read.labels[at.0 as usize].ok, 3);
    }

    #[test]
    fn damaged_messages_are_errors() {
        let labels: Labels = ["a", "b"].into_iter().collect();
        let wire = || WireInterval::new(&sample(&[5]), &labels, &BTreeSet::new()).expect("encoded");
        let mut wrong = wire();
        wrong.labels[0].label = WireLabel::Known(9);
        assert!(wrong.read(&labels, true).is_err());
        let mut wrong = wire();
        wrong.labels[0].service.truncate(8);
        assert!(wrong.read(&labels, true).is_err_and(|why| why.contains("damaged")));
        let mut wrong = wire();
        wrong.labels[0].errors.insert("other".to_owned(), 1);
        assert!(wrong.read(&labels, true).is_err());
    }
}
