//! Rate, outcomes and durations of the hits of a query over time.

mod durations;
mod merge;

pub use durations::Durations;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_journal::{Address, Transaction};
use weir_model::{TransactionId, UnixMicros, stage};
use weir_store::clock::now_us;

use crate::error::Error;
use crate::field::Number;
use crate::index::Index;
use crate::nodes::Nodes;
use crate::part::bitmap::Bitmap;
use crate::part::row;
use crate::query::Query;
use crate::search::check::Subject;
use crate::search::count::width;
use crate::search::evaluate::View;
use crate::search::profile::durations::Bins;
use crate::search::visit::{Visited, Visitor};

/// Most intervals.
const MAX_INTERVALS: u64 = 180;
/// Number of slowest transactions.
const SLOWEST: usize = 20;
/// Newest transactions whose stages are read.
const MAX_STAGED: usize = 2000;
/// Transactions that are read from the journal together.
const BATCH: usize = 128;
/// Classes of statuses: without a response, then `1xx` to `5xx`.
const CLASSES: usize = 6;

/// Rate, outcomes and durations of transactions over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Profile {
    /// Number of transactions.
    pub matched: u64,
    /// Transactions that failed or were interrupted.
    pub failed: u64,
    /// Durations of all.
    pub durations: Durations,
    /// Width of an interval in milliseconds.
    pub bucket_ms: u64,
    /// Intervals, oldest first; those without a transaction are omitted.
    pub intervals: Vec<Interval>,
    /// The slowest transactions, slowest first, at most 20.
    pub slowest: Vec<SlowTransaction>,
    /// Mean duration of each stage, over the newest transactions.
    pub stages: Vec<StageMean>,
    /// Number of transactions whose stages were read.
    pub staged: u64,
    /// The timeout was reached: only the newest transactions were read.
    pub cut: bool,
    /// As in [`super::Page`].
    pub incomplete: bool,
    /// The query searched payloads.
    pub payload: bool,
    /// The nodes that the figures are from, in a query over nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Nodes>,
}

/// A slow transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlowTransaction {
    /// Its id.
    #[schema(value_type = String)]
    pub id: TransactionId,
    /// Time of receipt (RFC 3339, UTC).
    #[schema(value_type = String)]
    pub time: UnixMicros,
    /// Microseconds until the end of the response.
    pub took_us: u64,
    /// Status of the response, 0 without a response.
    pub status: u16,
    /// Method of the request.
    pub method: String,
    /// Path of the request.
    pub path: String,
}

impl From<&Transaction> for SlowTransaction {
    fn from(transaction: &Transaction) -> Self {
        Self {
            id: TransactionId(u128::from_be_bytes(transaction.id)),
            time: UnixMicros(transaction.received_us),
            took_us: row::elapsed(&transaction.stages),
            status: transaction.status,
            method: transaction.method.clone(),
            path: row::path(transaction).to_owned(),
        }
    }
}

/// The mean duration of a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StageMean {
    /// `total` from the request head to the end of the response, or a part of it.
    pub name: String,
    /// Microseconds; a transaction without the stage counts as 0.
    pub mean_us: u64,
}

/// An interval of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Interval {
    /// Start (RFC 3339, UTC).
    #[schema(value_type = String)]
    pub time: UnixMicros,
    /// Transactions received in it, by class of status: without a response, then `1xx` to `5xx`.
    #[schema(value_type = Vec<u64>)]
    pub classes: [u64; CLASSES],
    /// Transactions that failed or were interrupted.
    pub failed: u64,
    /// Durations.
    pub durations: Durations,
}

/// An interval that is being counted.
#[derive(Default)]
struct OpenInterval {
    classes: [u64; CLASSES],
    failed: u64,
    durations: Bins,
}

/// The figures.
struct Profiler<'a> {
    index: &'a Index,
    width: u64,
    intervals: BTreeMap<u64, OpenInterval>,
    /// Duration, and address in the journal.
    slowest: BinaryHeap<Reverse<(u64, Address)>>,
    stages: [(u64, u64); 256],
    staged: u64,
    /// Rows of the part that is being visited, which are read when it is passed.
    unread: Vec<Address>,
}

impl Index {
    /// The figures of the hits of a query, for up to `budget`, newest parts first.
    ///
    /// # Errors
    /// As [`Index::search`].
    pub fn profile(&self, query: &Query, budget: Duration) -> Result<Profile, Error> {
        let (first, last) = self.times(query);
        let mut profiler = Profiler {
            index: self,
            width: width(last - first, MAX_INTERVALS),
            intervals: BTreeMap::new(),
            slowest: BinaryHeap::new(),
            stages: [(0, 0); 256],
            staged: 0,
            unread: Vec::new(),
        };
        let visited = self.visit(query, budget, &mut profiler)?;
        profiler.finish(visited)
    }

    /// The range of time of a query. Without a start it begins with the oldest transaction.
    fn times(&self, query: &Query) -> (u64, u64) {
        let (low, high) = query.times();
        let last = high.min(now_us());
        let oldest = || {
            let state = self.shared.state.read();
            let open = &state.open.columns.numbers[Number::Time as usize];
            let of_parts = state.sealed.iter().map(|part| part.times().0);
            of_parts.chain(open.iter().copied()).min().unwrap_or(last)
        };
        let first = if low > 0 { low } else { oldest() };
        (first.min(last), last)
    }
}

impl Profiler<'_> {
    fn count(&mut self, (time, took, status): (u64, u64, u64), is_failed: bool) {
        let start = time / self.width * self.width;
        let interval = self.intervals.entry(start).or_default();
        interval.classes[((status / 100) as usize).min(CLASSES - 1)] += 1;
        interval.failed += u64::from(is_failed);
        interval.durations.add(took);
    }

    /// Whether a duration belongs to the slowest.
    fn is_slow(&self, took: u64) -> bool {
        self.slowest.len() < SLOWEST
            || self.slowest.peek().is_some_and(|Reverse((least, _))| took > *least)
    }

    fn add_slow(&mut self, took: u64, address: Address) {
        self.slowest.push(Reverse((took, address)));
        if self.slowest.len() > SLOWEST {
            self.slowest.pop();
        }
    }

    fn add_stages(&mut self, transaction: &Transaction) {
        self.staged += 1;
        for (code, took) in &transaction.stages {
            let (count, sum) = &mut self.stages[usize::from(*code)];
            *count += 1;
            *sum += u64::from(*took);
        }
    }

    fn finish(self, Visited { cut, incomplete }: Visited) -> Result<Profile, Error> {
        let slowest: BTreeMap<Address, u64> =
            self.slowest.into_iter().map(|Reverse((took, address))| (address, took)).collect();
        let addresses: Vec<Address> = slowest.keys().copied().collect();
        let read = self.index.shared.transactions(&addresses, false)?;
        let mut slowest: Vec<_> = read.iter().map(SlowTransaction::from).collect();
        slowest.sort_by_key(|one| Reverse(one.took_us));
        let staged = self.staged.max(1);
        let stages = stage::codes().filter_map(|(code, name)| {
            let (count, sum) = self.stages[usize::from(code)];
            (count > 0).then(|| StageMean { name: name.to_owned(), mean_us: sum / staged })
        });
        let mut profile = Profile {
            bucket_ms: self.width / 1000,
            slowest,
            stages: stages.collect(),
            staged: self.staged,
            cut,
            incomplete,
            ..Profile::default()
        };
        let mut all = Bins::default();
        for (start, OpenInterval { classes, failed, durations }) in self.intervals {
            let durations = durations.finish();
            all.merge(&durations);
            profile.matched += classes.iter().sum::<u64>();
            profile.failed += failed;
            profile.intervals.push(Interval {
                time: UnixMicros(start),
                classes,
                failed,
                durations,
            });
        }
        profile.durations = all.finish();
        Ok(profile)
    }
}

impl Visitor for Profiler<'_> {
    fn uses_keys(&self) -> bool {
        false
    }

    fn rows(&mut self, view: &View<'_>, rows: &Bitmap) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let (times, durations) = (view.number(Number::Time)?, view.number(Number::Elapsed)?);
        let (statuses, states) = (view.number(Number::Status)?, view.number(Number::State)?);
        let mut slow = Vec::new();
        for row in rows.rows() {
            self.count((times[row], durations[row], statuses[row]), states[row] > 0);
            if self.is_slow(durations[row]) {
                slow.push(row);
            }
        }
        for (row, address) in slow.iter().zip(view.addresses(&slow)?) {
            self.add_slow(durations[*row], address);
        }
        let room = MAX_STAGED.saturating_sub(self.staged as usize);
        let rows: Vec<usize> = rows.rows().collect();
        self.unread = view.addresses(&rows[rows.len().saturating_sub(room)..])?;
        Ok(())
    }

    fn hit(&mut self, subject: &Subject<'_>) {
        let row = &subject.row;
        let is_failed = row.number(Number::State) > 0;
        self.count((row.time, row.elapsed, row.status.into()), is_failed);
        if let Some(address) = row.address.filter(|_| self.is_slow(row.elapsed)) {
            self.add_slow(row.elapsed, address);
        }
        if (self.staged as usize) < MAX_STAGED {
            self.add_stages(subject.transaction);
        }
    }

    fn part_ends(&mut self, deadline: Instant) -> Result<bool, Error> {
        let mut addresses = std::mem::take(&mut self.unread);
        addresses.sort_unstable();
        // What is left out are examples of stages only.
        for addresses in addresses.rchunks(BATCH) {
            if Instant::now() >= deadline {
                break;
            }
            for transaction in self.index.shared.transactions(addresses, false)? {
                self.add_stages(&transaction);
            }
        }
        Ok(true)
    }
}
