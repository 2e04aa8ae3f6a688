use super::history::Past;
use super::rates::Totals;
use super::*;
use weir_gateway::limit::{PlanStanding, RateStanding};
use weir_gateway::stats::{BUCKETS, Distribution, RequestSeries, Snapshot};

/// A snapshot of requests: API, status, how many, and in which bucket all of them are.
fn snapshot(all: &[(&str, u16, u64, usize)]) -> Snapshot {
    let series = all.iter().map(|(api, status, count, bucket)| {
        let mut buckets = [0; BUCKETS.len()];
        buckets.iter_mut().skip(*bucket).for_each(|upto| *upto = *count);
        RequestSeries {
            api: (*api).to_owned(),
            operation: String::new(),
            path: String::new(),
            method: "GET",
            status: *status,
            durations: Distribution { buckets, count: *count, ..Distribution::default() },
        }
    });
    Snapshot { requests: series.collect(), ..Snapshot::default() }
}

#[test]
fn a_second_is_what_came_in_it() {
    let before = Totals::of(&snapshot(&[("a", 200, 10, 0), ("b", 503, 1, 5)]));
    let now = snapshot(&[("a", 200, 30, 0), ("a", 404, 5, 0), ("b", 503, 3, 5)]);
    let pulse = Totals::of(&now).since(&before);
    assert_eq!((pulse.requests, pulse.client_errors, pulse.server_errors), (27, 5, 2));
    let apis: Vec<_> = pulse.apis.iter().map(|a| (a.api.as_str(), a.requests)).collect();
    assert_eq!(apis, [("a", 25), ("b", 2)]);
    assert_eq!(pulse.apis[1].server_errors, 2);
    // 13.5 of the 25 in the first bucket, which ends at 500 µs.
    assert_eq!(pulse.p50_us, Some(270));
    assert!((10_000..=25_000).contains(&pulse.p99_us.unwrap()), "{pulse:?}");
    assert_eq!(Totals::of(&now).since(&Totals::of(&now)).p50_us, None);
}

#[test]
fn what_is_above_the_last_bound_is_that_bound() {
    let slow = Totals::of(&snapshot(&[("a", 200, 4, BUCKETS.len())]));
    assert_eq!(slow.since(&Totals::default()).p50_us, Some(10_000_000));
}

#[test]
fn the_past_is_finer_the_younger_it_is() {
    let mut past = Past::default();
    let begin = 1_000_000;
    for second in 0..=5000 {
        let totals = Totals::of(&snapshot(&[("a", 200, second * 3, 0)]));
        past.add(begin + second, &totals, second % 7);
    }
    let now = begin + 5000;
    let near = past.between(now - 299, now);
    assert_eq!((near.step_seconds, near.at.len()), (1, 300));
    assert!(near.requests.iter().all(|requests| *requests == 3));
    let far = past.between(now - 3600, now);
    assert_eq!(far.step_seconds, 10);
    assert!((359..=361).contains(&far.at.len()), "{}", far.at.len());
    assert!(far.requests.iter().all(|requests| *requests == 30));
    assert!(far.in_flight.iter().all(|most| *most == 6));
    let all = past.between(0, now);
    assert_eq!(all.step_seconds, 60);
    assert_eq!(all.requests.iter().sum::<u64>(), 83 * 180);
}

#[test]
fn only_so_many_points_are_told_and_kept() {
    let mut past = Past::default();
    for second in 0..20_000 {
        past.add(second, &Totals::default(), 0);
    }
    for from in [0, 10_000, 19_000, 19_500] {
        let told = past.between(from, 20_000);
        assert!(!told.at.is_empty() && told.at.len() <= 900, "{from}: {}", told.at.len());
        assert_eq!(told.at.len(), told.p99_us.len());
    }
}

#[test]
fn a_clock_that_is_set_back_breaks_nothing() {
    let mut past = Past::default();
    for second in [100, 101, 50, 51, 52] {
        past.add(second, &Totals::default(), 0);
    }
    assert_eq!(past.between(0, 200).at, [101, 50, 51, 52]);
}

#[test]
fn who_is_refused_within_a_second_is_throttled_though_something_is_left_again() {
    let standing = |consumer: &str, remaining, refused| PlanStanding {
        consumer: consumer.to_owned(),
        plan: "gold".to_owned(),
        rate: Some(RateStanding { burst: 10, remaining, reset: 1 }),
        quota: None,
        refused_by_rate: refused,
        refused_by_quota: 0,
    };
    let standings = |plans: Vec<PlanStanding>| LimitStandings { plans, limits: Vec::new() };
    let mut refused = HashMap::new();
    let first = standings(vec![standing("a", 3, 7), standing("b", 0, 1), standing("c", 3, 0)]);
    let names = |found: Vec<Throttled>| -> Vec<(String, u64)> {
        found.into_iter().map(|one| (one.consumer, one.refused)).collect()
    };
    assert_eq!(names(throttled(&first, &mut refused)), [("b".to_owned(), 0)]);
    let next = standings(vec![standing("a", 3, 9), standing("b", 2, 1), standing("c", 3, 0)]);
    assert_eq!(names(throttled(&next, &mut refused)), [("a".to_owned(), 2)]);
}
