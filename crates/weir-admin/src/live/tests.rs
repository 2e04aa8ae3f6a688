use super::history::HistoryRings;
use super::rates::Totals;
use super::*;
use weir_http::problem::Problem;
use weir_limit::{PlanStatus, RateStatus};
use weir_server::snapshot::{Distribution, Snapshot};
use weir_telemetry::stats::{RejectionSeries, SeriesKey, Sketch};

/// A snapshot of requests: API, status, how many, and what each took in microseconds.
fn snapshot(all: &[(&str, u16, u64, u32)]) -> Snapshot {
    let series = all.iter().enumerate().map(|(number, (api, status, count, micros))| {
        let mut sketch = Sketch::default();
        sketch.add(*micros, *count);
        let key = SeriesKey {
            api: (*api).to_owned(),
            operation: number.to_string(),
            path: String::new(),
            method: "GET",
            status: *status,
        };
        (key, Distribution { sketch, count: *count, ..Distribution::default() })
    });
    Snapshot { requests: series.collect(), ..Snapshot::default() }
}

#[test]
fn a_second_is_what_came_in_it() {
    let before = Totals::of(&snapshot(&[("a", 200, 10, 40), ("b", 503, 1, 20_000)]));
    let now = snapshot(&[("a", 200, 30, 33), ("a", 404, 5, 35), ("b", 503, 3, 20_000)]);
    let snapshot = Totals::of(&now).since(&before);
    assert_eq!((snapshot.requests, snapshot.client_errors, snapshot.server_errors), (27, 5, 2));
    let apis: Vec<_> = snapshot.apis.iter().map(|a| (a.api.as_str(), a.requests)).collect();
    assert_eq!(apis, [("a", 25), ("b", 2)]);
    assert_eq!(snapshot.apis[1].server_errors, 2);
    // Those of the second before took longer.
    assert_eq!(snapshot.p50_us, Some(33));
    let p99 = snapshot.p99_us.unwrap();
    assert!(p99.abs_diff(20_000) <= 200, "{snapshot:?}");
    assert_eq!(Totals::of(&now).since(&Totals::of(&now)).p50_us, None);
}

#[test]
fn rejections_are_told_by_reason() {
    let rejected = |problem, consumer: &str, requests| RejectionSeries {
        consumer: consumer.to_owned(),
        problem,
        requests,
    };
    let of = |rejections: Vec<RejectionSeries>| Snapshot { rejections, ..Snapshot::default() };
    let before = of(vec![rejected(Problem::RateLimited, "a", 5)]);
    let now = of(vec![
        rejected(Problem::TokenExpired, "", 2),
        rejected(Problem::RateLimited, "a", 9),
        rejected(Problem::RateLimited, "b", 3),
    ]);
    let snapshot = Totals::of(&now).since(&Totals::of(&before));
    assert_eq!((snapshot.rejected, snapshot.client_errors), (9, 0));
    let result: Vec<_> = snapshot
        .rejections
        .iter()
        .map(|one| (one.reason.as_str(), one.status, one.requests))
        .collect();
    assert_eq!(result, [("rate-limited", 429, 7), ("token-expired", 401, 2)]);
    let all = Rejections::of(&now);
    assert_eq!((all.requests, all.consumers[0].consumer.as_str()), (14, "a"));
    assert_eq!(all.consumers[2].reasons[0].reason, "token-expired");
}

#[test]
fn points_that_are_told_together_have_the_quantiles_of_all_their_requests() {
    let mut history = HistoryRings::default();
    let begin = 1_000_000;
    for minute in 0..=3000_u64 {
        // Many quick ones in one minute, a slow one in the next.
        let all = [("a", 200, minute.div_ceil(2) * 100, 100), ("a", 200, minute / 2, 90_000)];
        history.add(begin + minute * 60, &Totals::of(&snapshot(&all)), 0);
    }
    let result = history.between(0, begin + 3000 * 60);
    assert_eq!(result.step_seconds, 240);
    assert!(result.p50_us.iter().all(|p50| *p50 == Some(100)), "{:?}", result.p50_us);
    let slow = |p99: &Option<u64>| p99.is_some_and(|p99| p99 == 100 || p99.abs_diff(90_000) < 900);
    assert!(result.p99_us.iter().all(slow), "{:?}", result.p99_us);
}

#[test]
fn the_past_is_finer_the_younger_it_is() {
    let mut history = HistoryRings::default();
    let begin = 1_000_000;
    for second in 0..=5000 {
        let totals = Totals::of(&snapshot(&[("a", 200, second * 3, 0)]));
        history.add(begin + second, &totals, second % 7);
    }
    let now = begin + 5000;
    let near = history.between(now - 299, now);
    assert_eq!((near.step_seconds, near.at.len()), (1, 300));
    assert!(near.requests.iter().all(|requests| *requests == 3));
    let far = history.between(now - 3600, now);
    assert_eq!(far.step_seconds, 10);
    assert!((359..=361).contains(&far.at.len()), "{}", far.at.len());
    assert!(far.requests.iter().all(|requests| *requests == 30));
    assert!(far.in_flight.iter().all(|most| *most == 6));
    let all = history.between(0, now);
    assert_eq!(all.step_seconds, 60);
    assert_eq!(all.requests.iter().sum::<u64>(), 83 * 180);
}

#[test]
fn only_so_many_points_are_told_and_kept() {
    let mut history = HistoryRings::default();
    for second in 0..20_000 {
        history.add(second, &Totals::default(), 0);
    }
    for from in [0, 10_000, 19_000, 19_500] {
        let result = history.between(from, 20_000);
        assert!(!result.at.is_empty() && result.at.len() <= 900, "{from}: {}", result.at.len());
        assert_eq!(result.at.len(), result.p99_us.len());
    }
}

#[test]
fn a_clock_that_is_set_back_breaks_nothing() {
    let mut history = HistoryRings::default();
    for second in [100, 101, 50, 51, 52] {
        history.add(second, &Totals::default(), 0);
    }
    assert_eq!(history.between(0, 200).at, [101, 50, 51, 52]);
}

#[test]
fn rejections_within_the_second_count_as_throttled() {
    let status = |consumer: &str, remaining, refused| PlanStatus {
        consumer: consumer.to_owned(),
        plan: "gold".to_owned(),
        throttled: (remaining == 0).then(|| "rate".to_owned()),
        rate: Some(RateStatus { burst: 10, remaining, reset_seconds: 1, nodes: 1 }),
        refused_by_rate: refused,
        ..PlanStatus::default()
    };
    let statuses = |consumers| LimitStatuses { consumers, limits: Vec::new() };
    let mut refused = HashMap::new();
    let first = statuses(vec![status("a", 3, 7), status("b", 0, 1), status("c", 3, 0)]);
    let names = |found: Vec<Throttled>| -> Vec<(String, u64)> {
        found.into_iter().map(|one| (one.consumer, one.refused)).collect()
    };
    assert_eq!(names(throttled(&first, &mut refused)), [("b".to_owned(), 0)]);
    let next = statuses(vec![status("a", 3, 9), status("b", 2, 1), status("c", 3, 0)]);
    assert_eq!(names(throttled(&next, &mut refused)), [("a".to_owned(), 2)]);
}
