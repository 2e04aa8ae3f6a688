//! Numbers of hits: facets and a histogram over time.

mod merge;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use strum::VariantNames;
use utoipa::ToSchema;
use weir_journal::{Address, Outcome};
use weir_model::UnixMicros;

use crate::error::Error;
use crate::field::{Name, Number};
use crate::index::Index;
use crate::nodes::Nodes;
use crate::part::bitmap::Bitmap;
use crate::part::keys::{self, Keys};
use crate::part::row::Row;
use crate::query::Query;
use crate::search::check::Subject;
use crate::search::evaluate::{View, evaluate};
use crate::search::sift::{Addresses, Sift};

/// Fields with facets.
const FACETS: [Name; 5] =
    [Name::Api, Name::Operation, Name::Method, Name::Consumer, Name::Receiver];
/// Most values of a facet in the result.
const MAX_VALUES: usize = 20;
/// Most different values of a business key that are counted, and most keys.
const MAX_KEY_VALUES: usize = 1 << 16;
const MAX_KEYS: usize = 64;
/// Transactions that are read from the journal together.
const READ_BATCH: usize = 16;
/// Most buckets of a histogram.
const MAX_BUCKETS: u64 = 60;
/// Widths of a histogram's buckets in microseconds.
const WIDTHS: [u64; 14] = [
    100_000,
    1_000_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
    600_000_000,
    1_800_000_000,
    3_600_000_000,
    10_800_000_000,
    21_600_000_000,
    43_200_000_000,
    86_400_000_000,
];

/// Number of transactions of a query, facets and histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    /// Number of transactions.
    pub matched: u64,
    /// Facets.
    pub facets: Vec<Facet>,
    /// Width of a histogram bucket in milliseconds.
    pub bucket_ms: u64,
    /// Histogram, oldest first; empty buckets are omitted.
    pub histogram: Vec<Bucket>,
    /// The timeout was reached: only the newest transactions were counted.
    pub cut: bool,
    /// As in [`super::Page`].
    pub incomplete: bool,
    /// The query searched payloads, or business keys were requested.
    pub payload: bool,
    /// The nodes that the counts are from, in a query over nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Nodes>,
}

/// The values of a field, most frequent first, at most 20.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Facet {
    /// `status` (by class: `5xx`), `state`, `api`, `operation`, `method`, `consumer`, `receiver`,
    /// or `key.NAME`.
    pub field: String,
    /// Values.
    pub values: Vec<Counted>,
    /// There are more values.
    pub more: bool,
}

/// A value with its number of transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counted {
    /// Value.
    pub value: String,
    /// Number of transactions.
    pub count: u64,
}

/// A bucket of the histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Bucket {
    /// Start (RFC 3339, UTC).
    #[schema(value_type = String)]
    pub time: UnixMicros,
    /// Transactions received in it.
    pub count: u64,
}

/// The counters.
#[derive(Debug, Default)]
struct Counter {
    matched: u64,
    names: [HashMap<String, u64>; FACETS.len()],
    /// By business key, if requested.
    keys: Option<HashMap<String, HashMap<String, u64>>>,
    /// There were more keys or values than are counted.
    more_keys: bool,
    classes: [u64; 10],
    states: [u64; 3],
    /// By the smallest width; combined once the range is known.
    times: HashMap<u64, u64>,
}

impl Index {
    /// Counts the hits of a query for up to `budget`, newest parts first; the values of business keys
    /// only if `keys`.
    ///
    /// # Errors
    /// As [`Index::search`].
    pub fn count(&self, query: &Query, budget: Duration, keys: bool) -> Result<Counts, Error> {
        let deadline = Instant::now() + budget;
        let keys = keys.then(HashMap::new);
        let mut counter = Counter { keys, ..Counter::default() };
        let mut sift = Sift::new(query);
        let mut pending = Vec::new();
        let snapshot = self.snapshot(query, |view| {
            let known = evaluate(&query.root, view)?;
            counter.rows(view, &known.definite)?;
            let View::Open(open) = view else { return Ok(()) };
            let by_key =
                sift.as_ref().map(|sift| sift.rows_by_key(view, &known.candidates)).transpose()?;
            let rows = known.candidates.rows().filter(|row| !known.definite.contains(*row));
            pending.extend(rows.map(|row| Pending {
                address: open.address(row),
                id: open.columns.ids[row],
                row,
                is_sifted: by_key.as_ref().is_some_and(|rows| !rows.contains(row)),
            }));
            Ok(())
        })?;
        let tail_ends = Instant::now() + budget / 2;
        let keys = query.uses_keys() || counter.keys.is_some();
        let unread = self.tail(query, &snapshot.indexed, keys, tail_ends, &mut |subject| {
            counter.row(&subject.row, &subject.transaction.keys);
        })?;
        let mut incomplete = snapshot.incomplete || unread;
        // The keys of the open part come from the same configuration, so they need not be merged.
        let mut count = Candidates { index: self, query, sift: &mut sift, deadline };
        let mut cut = !count.count(&pending, None, &mut counter)?;
        for part in snapshot.sealed.iter().rev() {
            if cut || Instant::now() >= deadline {
                cut = true;
                break;
            }
            let counted = View::sealed(part).and_then(|view| {
                let known = evaluate(&query.root, &view)?;
                counter.rows(&view, &known.definite)?;
                let mut candidates = known.candidates;
                let mut rest = known.definite;
                rest.invert();
                candidates.and(&rest);
                if candidates.is_empty() {
                    return Ok(true);
                }
                let ids = view.ids()?;
                let by_key = count
                    .sift
                    .as_ref()
                    .map(|sift| sift.rows_by_key(&view, &candidates))
                    .transpose()?;
                let rows: Vec<usize> = candidates.rows().collect();
                let addresses = view.addresses(&rows)?;
                let pending = rows.into_iter().zip(addresses).rev().map(|(row, address)| {
                    let is_sifted = by_key.as_ref().is_some_and(|rows| !rows.contains(row));
                    Pending { address, id: ids[row], row, is_sifted }
                });
                let pending: Vec<Pending> = pending.collect();
                let with_keys = query.uses_keys() || counter.keys.is_some();
                let stored_keys = with_keys.then(|| view.keys()).transpose()?;
                count.count(&pending, stored_keys.as_ref(), &mut counter)
            });
            match counted {
                Ok(complete) => cut = !complete,
                Err(error) if error.is_damage() => {
                    self.shared.report(part);
                    incomplete = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(counter.finish(cut, incomplete))
    }
}

/// A row that may be a hit.
struct Pending {
    address: Address,
    id: u128,
    row: usize,
    /// Without the words of the query in its recorded texts it is no hit.
    is_sifted: bool,
}

/// Reads the candidates of a query to count those that are hits.
struct Candidates<'a> {
    index: &'a Index,
    query: &'a Query,
    sift: &'a mut Option<Sift>,
    deadline: Instant,
}

impl Candidates<'_> {
    /// Counts the hits among candidates, with the stored keys of their part. Returns false if the budget
    /// ran out.
    fn count(
        &mut self,
        pending: &[Pending],
        stored_keys: Option<&Keys<'_>>,
        counter: &mut Counter,
    ) -> Result<bool, Error> {
        let mut rest = pending;
        while !rest.is_empty() {
            let batch = self.sift.as_ref().map_or(READ_BATCH, Sift::batch).min(rest.len());
            let (some, after) = rest.split_at(batch);
            rest = after;
            if Instant::now() >= self.deadline {
                return Ok(false);
            }
            let sifted = some.iter().filter(|candidate| candidate.is_sifted);
            let sifted = sifted.map(|candidate| candidate.address);
            let lacking = match &mut self.sift {
                Some(sift) => sift.lacking(&self.index.shared, sifted, self.deadline)?,
                None => Addresses::default(),
            };
            let may_match = |candidate: &&Pending| !lacking.contains(&candidate.address);
            let some: Vec<&Pending> = some.iter().filter(may_match).collect();
            for some in some.chunks(READ_BATCH) {
                if Instant::now() >= self.deadline {
                    return Ok(false);
                }
                self.read(some, stored_keys, counter)?;
            }
        }
        Ok(true)
    }

    fn read(
        &self,
        some: &[&Pending],
        stored_keys: Option<&Keys<'_>>,
        counter: &mut Counter,
    ) -> Result<(), Error> {
        let shared = &self.index.shared;
        let mut addresses: Vec<_> = some.iter().map(|candidate| candidate.address).collect();
        addresses.sort_unstable();
        let mut read = shared.transactions(&addresses, true)?;
        let by_address: HashMap<_, _> =
            some.iter().map(|candidate| (candidate.address, candidate)).collect();
        for transaction in &mut read {
            let found = transaction.address.and_then(|address| by_address.get(&address));
            let Some(Pending { id, row, .. }) = found else { continue };
            shared.read_keys(transaction);
            if let Some(stored_keys) = stored_keys {
                keys::merge(transaction, stored_keys.of_row(*row));
            }
            let subject = Subject::new(transaction, shared.ledger());
            if *id == subject.row.id && subject.matches(&self.query.root) {
                counter.row(&subject.row, &subject.transaction.keys);
            }
        }
        Ok(())
    }
}

impl Counter {
    fn row(&mut self, row: &Row, keys: &[(String, String)]) {
        self.matched += 1;
        keys.iter().for_each(|(name, value)| self.key(name, value));
        self.states[row.number(Number::State).min(2) as usize] += 1;
        for (counts, name) in self.names.iter_mut().zip(FACETS) {
            *counts.entry(row.name(name).to_owned()).or_default() += 1;
        }
        self.classes[usize::from(row.status / 100).min(9)] += 1;
        *self.times.entry(row.time / WIDTHS[0]).or_default() += 1;
    }

    fn key(&mut self, name: &str, value: &str) {
        let Some(keys) = &mut self.keys else { return };
        if !keys.contains_key(name) && keys.len() < MAX_KEYS {
            keys.insert(name.to_owned(), HashMap::new());
        }
        let Some(values) = keys.get_mut(name) else { return self.more_keys = true };
        if let Some(count) = values.get_mut(value) {
            *count += 1;
        } else if values.len() < MAX_KEY_VALUES {
            values.insert(value.to_owned(), 1);
        } else {
            self.more_keys = true;
        }
    }

    fn rows(&mut self, view: &View<'_>, rows: &Bitmap) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        self.matched += rows.count();
        for (counts, name) in self.names.iter_mut().zip(FACETS) {
            let (codes, values) = (view.codes(name)?, view.values(name)?);
            let mut found = vec![0; values.len()];
            for row in rows.rows() {
                if let Some(count) = found.get_mut(codes[row] as usize) {
                    *count += 1;
                }
            }
            for (value, count) in values.iter().zip(found).filter(|(_, count)| *count > 0) {
                *counts.entry(value.clone()).or_default() += count;
            }
        }
        if self.keys.is_some() {
            let keys = view.keys()?;
            let of_hits = keys.iter().filter(|(row, ..)| rows.contains(*row));
            of_hits.for_each(|(_, name, value)| self.key(name, value));
        }
        let states = view.number(Number::State)?;
        rows.rows().for_each(|row| self.states[states[row].min(2) as usize] += 1);
        let statuses = view.number(Number::Status)?;
        let times = view.number(Number::Time)?;
        let (mut last, mut count) = (0, 0);
        for row in rows.rows() {
            self.classes[(statuses[row] / 100).min(9) as usize] += 1;
            // Consecutive rows share a bucket, which saves lookups.
            let bucket = times[row] / WIDTHS[0];
            if bucket != last && count > 0 {
                *self.times.entry(last).or_default() += count;
                count = 0;
            }
            last = bucket;
            count += 1;
        }
        *self.times.entry(last).or_default() += count;
        Ok(())
    }

    fn finish(self, cut: bool, incomplete: bool) -> Counts {
        let classes = self.classes.iter().enumerate().filter(|(_, count)| **count > 0);
        // No status: there was no response.
        let class = |class| if class == 0 { "none".to_owned() } else { format!("{class}xx") };
        let classes = classes.map(|(number, count)| (class(number), *count));
        let states = Outcome::VARIANTS.iter().map(|name| (*name).to_owned());
        let states = states.zip(self.states).filter(|(_, count)| *count > 0);
        let mut facets = vec![facet("status", classes), facet("state", states)];
        for (name, counts) in FACETS.iter().zip(self.names) {
            facets.push(facet(name.as_str(), counts.into_iter()));
        }
        let mut keys: Vec<_> = self.keys.into_iter().flatten().collect();
        keys.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        for (name, counts) in keys {
            let of_key = facet(&format!("key.{name}"), counts.into_iter());
            facets.push(Facet { more: of_key.more || self.more_keys, ..of_key });
        }
        let min = self.times.keys().min().copied().unwrap_or(0) * WIDTHS[0];
        let max = self.times.keys().max().copied().unwrap_or(0) * WIDTHS[0];
        let width = width(max - min);
        let mut histogram: HashMap<u64, u64> = HashMap::new();
        for (bucket, count) in self.times {
            *histogram.entry(bucket * WIDTHS[0] / width * width).or_default() += count;
        }
        let bucket = |(start, count)| Bucket { time: UnixMicros(start), count };
        let mut histogram: Vec<Bucket> = histogram.into_iter().map(bucket).collect();
        histogram.sort_unstable_by_key(|bucket| bucket.time);
        let (matched, bucket_ms) = (self.matched, width / 1000);
        Counts { matched, facets, bucket_ms, histogram, cut, incomplete, ..Counts::default() }
    }
}

/// The width of the buckets of a histogram over this time, both in microseconds.
fn width(time: u64) -> u64 {
    let fits = |width: &u64| time / width < MAX_BUCKETS;
    let day = WIDTHS[WIDTHS.len() - 1];
    // Beyond the listed widths: a number of whole days.
    let days = (time / day / MAX_BUCKETS + 1) * day;
    WIDTHS.into_iter().find(fits).unwrap_or(days)
}

fn facet(field: &str, counts: impl Iterator<Item = (String, u64)>) -> Facet {
    let mut counts: Vec<_> = counts.filter(|(value, _)| !value.is_empty()).collect();
    counts.sort_unstable_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    let more = counts.len() > MAX_VALUES;
    counts.truncate(MAX_VALUES);
    let values = counts.into_iter().map(|(value, count)| Counted { value, count });
    Facet { field: field.to_owned(), values: values.collect(), more }
}
