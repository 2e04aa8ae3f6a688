//! Sums of counts of several nodes.

use super::{Bucket, Counted, Counts, MAX_BUCKETS, facet, width};
use std::collections::{BTreeMap, HashMap};
use weir_model::UnixMicros;

impl Counts {
    /// The sum of counts of several nodes. Facets are those of the most frequent values of each node: if
    /// a facet has more values, the numbers of its values may be too low. The buckets of the histogram
    /// are as wide as the widest, and wider if there are too many; a bucket of days that overlaps two
    /// of the sum counts in the first.
    #[must_use]
    pub fn merge(all: Vec<Self>) -> Self {
        let mut sum = Self::default();
        let mut facets: Vec<(String, HashMap<String, u64>, bool)> = Vec::new();
        let mut buckets: Vec<Bucket> = Vec::new();
        for counts in all {
            sum.matched += counts.matched;
            sum.cut |= counts.cut;
            sum.incomplete |= counts.incomplete;
            sum.payload |= counts.payload;
            sum.bucket_ms = sum.bucket_ms.max(counts.bucket_ms);
            buckets.extend(counts.histogram);
            for one in counts.facets {
                let found = facets.iter().position(|(field, ..)| *field == one.field);
                let at = found.unwrap_or_else(|| {
                    facets.push((one.field.clone(), HashMap::new(), false));
                    facets.len() - 1
                });
                let (_, values, more) = &mut facets[at];
                *more |= one.more;
                for Counted { value, count } in one.values {
                    *values.entry(value).or_default() += count;
                }
            }
        }
        for (field, values, more) in facets {
            let mut merged = facet(&field, values.into_iter());
            merged.more |= more;
            sum.facets.push(merged);
        }
        sum.add_histogram(&buckets);
        sum
    }

    fn add_histogram(&mut self, buckets: &[Bucket]) {
        let times = || buckets.iter().map(|bucket| bucket.time.0);
        let (Some(first), Some(last)) = (times().min(), times().max()) else { return };
        let width = width(last - first, MAX_BUCKETS).max(self.bucket_ms * 1000);
        let mut histogram: BTreeMap<u64, u64> = BTreeMap::new();
        for Bucket { time, count } in buckets {
            *histogram.entry(time.0 / width * width).or_default() += count;
        }
        self.bucket_ms = width / 1000;
        let bucket = |(start, count)| Bucket { time: UnixMicros(start), count };
        self.histogram = histogram.into_iter().map(bucket).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Facet, MAX_BUCKETS, MAX_VALUES};
    use super::*;

    fn counts(values: &[(&str, u64)], bucket_ms: u64, times: &[u64]) -> Counts {
        let value =
            |(value, count): &(&str, u64)| Counted { value: (*value).to_owned(), count: *count };
        let values: Vec<Counted> = values.iter().map(value).collect();
        let bucket = |time: &u64| Bucket { time: UnixMicros(*time * 1_000_000), count: 1 };
        Counts {
            matched: times.len() as u64,
            facets: vec![Facet { field: "api".to_owned(), values, more: false }],
            bucket_ms,
            histogram: times.iter().map(bucket).collect(),
            ..Counts::default()
        }
    }

    #[test]
    fn numbers_are_added_and_the_most_frequent_values_come_first() {
        let one = counts(&[("a", 3), ("b", 2)], 1000, &[60, 61]);
        let other = Counts { cut: true, ..counts(&[("b", 2), ("c", 1)], 60_000, &[120]) };
        let sum = Counts::merge(vec![one, other]);
        assert_eq!((sum.matched, sum.cut, sum.bucket_ms), (3, true, 60_000));
        let values: Vec<_> =
            sum.facets[0].values.iter().map(|one| (one.value.as_str(), one.count)).collect();
        assert_eq!(values, [("b", 4), ("a", 3), ("c", 1)]);
        let buckets: Vec<_> =
            sum.histogram.iter().map(|one| (one.time.0 / 1_000_000, one.count)).collect();
        assert_eq!(buckets, [(60, 2), (120, 1)]);
        assert_eq!(Counts::merge(Vec::new()), Counts::default());
    }

    #[test]
    fn values_and_buckets_are_bounded() {
        let names: Vec<String> = (0..50).map(|number| format!("{number:02}")).collect();
        let values: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        let times: Vec<u64> = (0..60).map(|hour| hour * 3600).collect();
        let far: Vec<u64> = (0..60).map(|hour| 86_400 * 400 + hour * 3600).collect();
        let sum = Counts::merge(vec![
            counts(&values[..25], 3_600_000, &times),
            counts(&values[25..], 3_600_000, &far),
        ]);
        assert_eq!((sum.facets[0].values.len(), sum.facets[0].more), (MAX_VALUES, true));
        assert!(sum.histogram.len() as u64 <= MAX_BUCKETS, "{}", sum.histogram.len());
        assert_eq!(sum.histogram.iter().map(|bucket| bucket.count).sum::<u64>(), 120);
    }
}
