//! Rejections: local replies with 401, 403, 429 and 503, by reason and consumer. Responses of
//! upstreams with such a status are not counted.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use weir_http::problem::Problem;

/// Most consumers of one worker; further ones count as the empty name.
const MAX_CONSUMERS: usize = 1024;

/// One count for each problem, in their order.
type Counts = [u64; Problem::ALL.len()];

/// Rejections of one worker, by consumer; empty without one.
#[derive(Debug, Default)]
pub struct Rejections(Mutex<HashMap<String, Box<Counts>>>);

/// Sums over workers.
pub(crate) type RejectionSums = BTreeMap<(String, usize), u64>;

/// Rejected requests of a consumer, for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectionSeries {
    /// Name of the consumer; empty without one.
    pub consumer: String,
    /// The reason.
    pub problem: Problem,
    /// Requests.
    pub requests: u64,
}

impl Rejections {
    /// Counts one, if the problem is a rejection.
    pub fn record(&self, problem: Problem, consumer: &str) {
        if !problem.is_rejection() {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let full = all.len() >= MAX_CONSUMERS && !all.contains_key(consumer);
        let consumer = if full { "" } else { consumer };
        if let Some(counts) = all.get_mut(consumer) {
            counts[problem as usize] += 1;
            return;
        }
        let mut counts: Box<Counts> = Box::new([0; Problem::ALL.len()]);
        counts[problem as usize] += 1;
        all.insert(consumer.to_owned(), counts);
    }

    /// Adds the counts to sums over all workers.
    pub fn add_to(&self, sums: &mut RejectionSums) {
        for (consumer, counts) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            for (number, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                *sums.entry((consumer.clone(), number)).or_default() += count;
            }
        }
    }
}

/// The sums as series, in a stable order.
pub fn series(sums: RejectionSums) -> Vec<RejectionSeries> {
    let series = sums.into_iter().filter_map(|((consumer, number), requests)| {
        let problem = *Problem::ALL.get(number)?;
        Some(RejectionSeries { consumer, problem, requests })
    });
    series.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rejections_count_and_consumers_are_bounded() {
        let rejections = Rejections::default();
        for problem in Problem::ALL {
            rejections.record(*problem, "acme");
        }
        for number in 0..2 * MAX_CONSUMERS {
            rejections.record(Problem::RateLimited, &number.to_string());
        }
        let mut sums = RejectionSums::default();
        rejections.add_to(&mut sums);
        let all = series(sums);
        let of_acme = all.iter().filter(|one| one.consumer == "acme");
        assert!(of_acme.clone().all(|one| [401, 403, 429, 503].contains(&one.problem.status())));
        assert!(of_acme.clone().any(|one| one.problem == Problem::TokenExpired));
        assert!(!of_acme.clone().any(|one| one.problem == Problem::NoRoute));
        let limited = all.iter().filter(|one| one.problem == Problem::RateLimited);
        assert_eq!(limited.map(|one| one.requests).sum::<u64>(), 1 + 2 * MAX_CONSUMERS as u64);
        assert!(all.iter().any(|one| one.consumer.is_empty() && one.requests > 1));
        assert!(Problem::ALL.iter().enumerate().all(|(at, one)| *one as usize == at));
    }
}
