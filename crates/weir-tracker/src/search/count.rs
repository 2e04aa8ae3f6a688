//! Numbers of hits: facets and a histogram over time.

mod merge;

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::VariantNames;
use utoipa::ToSchema;
use weir_journal::Outcome;
use weir_model::UnixMicros;

use crate::error::Error;
use crate::field::{Name, Number};
use crate::index::Index;
use crate::nodes::Nodes;
use crate::part::bitmap::Bitmap;
use crate::query::Query;
use crate::search::check::Subject;
use crate::search::evaluate::View;
use crate::search::visit::{Visited, Visitor};

/// Fields with facets.
const FACETS: [Name; 7] = [
    Name::Api,
    Name::Operation,
    Name::Method,
    Name::Consumer,
    Name::Receiver,
    Name::UpstreamTarget,
    Name::Problem,
];
/// Most values of a facet in the result.
const MAX_VALUES: usize = 20;
/// Most different values of a business key that are counted, and most keys.
const MAX_KEY_VALUES: usize = 1 << 16;
const MAX_KEYS: usize = 64;
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
    /// `upstream_target`, `problem`, or `key.NAME`.
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
        let keys = keys.then(HashMap::new);
        let mut counter = Counter { keys, ..Counter::default() };
        let Visited { cut, incomplete } = self.visit(query, budget, &mut counter)?;
        Ok(counter.finish(cut, incomplete))
    }
}

impl Visitor for Counter {
    fn uses_keys(&self) -> bool {
        self.keys.is_some()
    }

    fn hit(&mut self, subject: &Subject<'_>) {
        let Subject { row, transaction, .. } = subject;
        self.matched += 1;
        transaction.keys.iter().for_each(|(name, value)| self.key(name, value));
        self.states[row.number(Number::State).min(2) as usize] += 1;
        for (counts, name) in self.names.iter_mut().zip(FACETS) {
            *counts.entry(row.name(name).to_owned()).or_default() += 1;
        }
        self.classes[usize::from(row.status / 100).min(9)] += 1;
        *self.times.entry(row.time / WIDTHS[0]).or_default() += 1;
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
}

impl Counter {
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
        let width = width(max - min, MAX_BUCKETS);
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

/// The width of at most `buckets` of a histogram over this time, both in microseconds.
pub(crate) fn width(time: u64, buckets: u64) -> u64 {
    let fits = |width: &u64| time / width < buckets;
    let day = WIDTHS[WIDTHS.len() - 1];
    // Beyond the listed widths: a number of whole days.
    let days = (time / day / buckets + 1) * day;
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
