//! The tally: sums of calls in memory, not written yet.

use crate::sketch::Sketch;
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, HashMap};
use weir_journal::{CallRecord, Outcome, counted};
use weir_model::Counts;

/// Seconds of a minute.
pub(crate) const MINUTE: u64 = 60;

/// The series of a bucket; absent names are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Series {
    pub(crate) consumer: String,
    pub(crate) api: String,
    pub(crate) operation: String,
    pub(crate) plan: String,
    /// 1 to 5 for 1xx to 5xx, 0 if there was no response.
    pub(crate) status: u8,
    /// Status of the problem for which weir does not bill its own response; 0 for all other calls.
    pub(crate) unbilled: u16,
}

/// What a single call costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// Units of 10⁻¹⁸ of the currency of its plan.
    pub units: i128,
    /// If the call is not billed: the status of weir's own response, and the units are what the call would
    /// have cost. Otherwise 0.
    pub unbilled: u16,
}

/// Price of a single call.
pub type Price = dyn Fn(&CallRecord<'_>) -> Charge + Send + Sync;

/// Sums of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) calls: u64,
    pub(crate) request_bytes: u64,
    pub(crate) response_bytes: u64,
    /// Units of 10⁻¹⁸.
    pub(crate) amount: i128,
    pub(crate) latency: Sketch,
}

impl Sum {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.request_bytes = self.request_bytes.saturating_add(other.request_bytes);
        self.response_bytes = self.response_bytes.saturating_add(other.response_bytes);
        self.amount = self.amount.saturating_add(other.amount);
        self.latency.merge(&other.latency);
    }

    /// Removes what `other` has added.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.calls = self.calls.saturating_sub(other.calls);
        self.request_bytes = self.request_bytes.saturating_sub(other.request_bytes);
        self.response_bytes = self.response_bytes.saturating_sub(other.response_bytes);
        self.amount = self.amount.saturating_sub(other.amount);
        self.latency.subtract(&other.latency);
    }
}

/// A plan and a consumer.
pub(crate) type Holder = (String, String);

/// Sums of a series, by minute (seconds since 1970).
#[derive(Debug)]
pub(crate) struct SeriesSums {
    pub(crate) series: Series,
    pub(crate) minutes: BTreeMap<u64, Sum>,
}

/// Sums since the last write.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// By the concatenated names of the series: a lookup needs no copies.
    pub(crate) sums: HashMap<Vec<u8>, SeriesSums, FixedState>,
    /// Calls that count against quotas, by second.
    pub(crate) quotas: HashMap<Holder, BTreeMap<u64, u64>, FixedState>,
    /// The last minute of each segment of each lane.
    pub(crate) segments: BTreeMap<(u16, u32), u64>,
    /// Calls counted.
    pub(crate) calls: u64,
    /// Buffers for lookups.
    key: Vec<u8>,
    holder: Holder,
}

/// Whether a call is counted.
fn is_counted(call: &CallRecord<'_>, settings: Counts) -> bool {
    let is = |bit| call.counted & bit != 0;
    let included = is(counted::RULE | counted::PLAN);
    let rejected = !is(counted::REJECTED) || settings.rejected;
    let outcome = match call.outcome {
        Outcome::Completed => true,
        Outcome::Failed => settings.failed,
        Outcome::Interrupted => settings.interrupted,
    };
    let retried = call.retries == 0 || settings.retried;
    let resubmitted = !call.resubmitted || is(counted::BILLED) || settings.resubmitted;
    included && rejected && outcome && retried && resubmitted
}

impl Tally {
    /// Adds a call, if it is counted.
    pub(crate) fn add(&mut self, call: &CallRecord<'_>, settings: Counts, price: Option<&Price>) {
        if call.counted == 0 {
            return;
        }
        let second = call.received_us / 1_000_000;
        let minute = second - second % MINUTE;
        if call.counted & counted::QUOTA != 0 {
            self.add_quota_use(call, second);
        }
        if let Some(address) = call.address {
            let last = self.segments.entry((address.lane, address.position.segment())).or_default();
            *last = minute.max(*last);
        }
        if !is_counted(call, settings) {
            return;
        }
        self.calls += 1;
        let Charge { units, unbilled } = price.map(|price| price(call)).unwrap_or_default();
        let sum = self.sum(call, minute, unbilled);
        sum.calls += 1;
        sum.request_bytes = sum.request_bytes.saturating_add(call.request_bytes);
        sum.response_bytes = sum.response_bytes.saturating_add(call.response_bytes);
        sum.latency.add(call.micros);
        sum.amount = sum.amount.saturating_add(units);
    }

    fn add_quota_use(&mut self, call: &CallRecord<'_>, second: u64) {
        for (name, to) in [(&mut self.holder.0, call.plan), (&mut self.holder.1, call.consumer)] {
            name.clear();
            name.push_str(to);
        }
        if let Some(seconds) = self.quotas.get_mut(&self.holder) {
            *seconds.entry(second).or_default() += 1;
        } else {
            self.quotas.insert(self.holder.clone(), BTreeMap::from([(second, 1)]));
        }
    }

    /// The sum to which a call is added.
    fn sum(&mut self, call: &CallRecord<'_>, minute: u64, unbilled: u16) -> &mut Sum {
        let status = class(call.status);
        self.key.clear();
        self.key.push(status);
        self.key.extend_from_slice(&unbilled.to_le_bytes());
        for name in [call.consumer, call.api, call.operation, call.plan] {
            // Names are shorter: a field of the journal has 24 bits for its length.
            self.key.extend_from_slice(&(name.len() as u32).to_le_bytes());
            self.key.extend_from_slice(name.as_bytes());
        }
        if !self.sums.contains_key(&self.key) {
            let series = Series {
                consumer: call.consumer.to_owned(),
                api: call.api.to_owned(),
                operation: call.operation.to_owned(),
                plan: call.plan.to_owned(),
                status,
                unbilled,
            };
            self.sums.insert(self.key.clone(), SeriesSums { series, minutes: BTreeMap::new() });
        }
        let of = self.sums.get_mut(&self.key).expect("it was inserted");
        of.minutes.entry(minute).or_default()
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
}

/// The class of a status.
fn class(status: u16) -> u8 {
    match status / 100 {
        class @ 1..=5 => class as u8,
        _ => 0,
    }
}
