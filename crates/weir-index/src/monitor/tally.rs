//! What was read from the journal and is not written yet: sums in memory.

use super::sketch::Sketch;
use std::collections::{BTreeMap, HashMap};
use weir_config::Counts;
use weir_journal::{Outcome, Transaction, counted, stage};

/// Seconds of a minute.
pub(super) const MINUTE: u64 = 60;

/// What a bucket is of; what has no name is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Series {
    pub(super) consumer: String,
    pub(super) api: String,
    pub(super) operation: String,
    pub(super) plan: String,
    /// 1 to 5 for 1xx to 5xx, 0 if there was no answer.
    pub(super) status: u8,
}

/// A counted call, as a price sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Name of the consumer; empty if it is none.
    pub consumer: &'a str,
    /// Name of the API.
    pub api: &'a str,
    /// Name of the operation.
    pub operation: &'a str,
    /// Name of the plan; empty if there is none.
    pub plan: &'a str,
    /// Status, 0 if there was no answer.
    pub status: u16,
    /// Bytes of the request's body.
    pub request_bytes: u64,
    /// Bytes of the answer's body.
    pub response_bytes: u64,
    /// How long it took, in microseconds.
    pub micros: u32,
}

/// What a call costs by itself, in units of 10⁻¹⁸ of its plan's currency.
pub type Price = dyn Fn(&Call<'_>) -> i128 + Send + Sync;

/// Sums of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) calls: u64,
    pub(super) request_bytes: u64,
    pub(super) response_bytes: u64,
    /// Units of 10⁻¹⁸.
    pub(super) amount: i128,
    pub(super) latency: Sketch,
}

impl Sum {
    pub(super) fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.request_bytes = self.request_bytes.saturating_add(other.request_bytes);
        self.response_bytes = self.response_bytes.saturating_add(other.response_bytes);
        self.amount = self.amount.saturating_add(other.amount);
        self.latency.merge(&other.latency);
    }
}

/// A plan and a consumer.
pub(super) type Holder = (String, String);

/// What has been read since the last writing.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// By series, then by minute (seconds since 1970), so that a name is looked up without being
    /// copied.
    pub(super) sums: HashMap<Series, BTreeMap<u64, Sum>>,
    /// Calls that used up quotas, by second.
    pub(super) quotas: HashMap<Holder, BTreeMap<u64, u64>>,
    /// The last minute of what was counted of each lane's segments.
    pub(super) segments: BTreeMap<(u16, u32), u64>,
    /// Calls counted.
    pub(super) calls: u64,
    /// Kept to look series up with.
    wanted: Series,
    holder: Holder,
}

/// Whether a call counts.
fn counts(call: &Transaction, settings: Counts) -> bool {
    let is = |bit| call.counted & bit != 0;
    let wanted = is(counted::RULE | counted::PLAN);
    let rejected = !is(counted::REJECTED) || settings.rejected;
    let outcome = match call.outcome {
        Outcome::Completed => true,
        Outcome::Failed => settings.failed,
        Outcome::Interrupted => settings.interrupted,
    };
    let retried = call.retries == 0 || settings.retried;
    wanted && rejected && outcome && retried
}

impl Tally {
    /// Adds a call up, if it counts.
    pub(super) fn add(&mut self, call: &Transaction, settings: Counts, price: Option<&Price>) {
        if call.counted == 0 {
            return;
        }
        let second = call.received_us / 1_000_000;
        let minute = second - second % MINUTE;
        if call.counted & counted::QUOTA != 0 {
            set(&mut self.holder.0, &call.plan);
            set(&mut self.holder.1, &call.consumer);
            *entry(&mut self.quotas, &self.holder).entry(second).or_default() += 1;
        }
        if let Some(address) = call.address {
            let last = self.segments.entry((address.lane, address.position.segment())).or_default();
            *last = minute.max(*last);
        }
        if !counts(call, settings) {
            return;
        }
        self.calls += 1;
        let micros = duration(call);
        set(&mut self.wanted.consumer, &call.consumer);
        set(&mut self.wanted.api, &call.api);
        set(&mut self.wanted.operation, &call.operation);
        set(&mut self.wanted.plan, &call.plan);
        self.wanted.status = class(call.status);
        let sum = entry(&mut self.sums, &self.wanted).entry(minute).or_default();
        sum.calls += 1;
        sum.request_bytes = sum.request_bytes.saturating_add(call.request.length);
        sum.response_bytes = sum.response_bytes.saturating_add(call.response.length);
        sum.latency.add(micros);
        if let Some(price) = price {
            let told = price(&Call {
                consumer: &call.consumer,
                api: &call.api,
                operation: &call.operation,
                plan: &call.plan,
                status: call.status,
                request_bytes: call.request.length,
                response_bytes: call.response.length,
                micros,
            });
            sum.amount = sum.amount.saturating_add(told);
        }
    }

    /// Whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
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

/// How long a call took, in microseconds.
fn duration(call: &Transaction) -> u32 {
    call.stages.iter().find(|(code, _)| *code == stage::TOTAL).map_or(0, |(_, took)| *took)
}

fn set(name: &mut String, to: &str) {
    if name != to {
        name.clear();
        name.push_str(to);
    }
}

/// The entry of a key, which is copied only if it is new.
fn entry<'m, K: Clone + Eq + std::hash::Hash, V: Default>(
    map: &'m mut HashMap<K, V>,
    key: &K,
) -> &'m mut V {
    if !map.contains_key(key) {
        map.insert(key.clone(), V::default());
    }
    map.get_mut(key).expect("it is there now")
}
